"""`diagnose manual`: every command on one manual page."""

import argparse

from diagnoser.cli.output import fail, give

PROGRAM = "diagnose manual"


def run(arguments: list[str]) -> int:
    """Print the page in roff, or as Markdown for the documentation."""
    options = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Print the manual page of all commands: diagnose manual | man -l -",
        allow_abbrev=False,
    )
    options.add_argument("-f", "--format", choices=("man", "markdown"), default="man")
    options.add_argument("-o", "--output", metavar="FILE", help="write it to FILE instead")
    chosen = options.parse_args(arguments)
    from diagnoser.cli.manual.grammar import grammar
    from diagnoser.cli.manual.page import as_man, as_markdown

    text = (as_man if chosen.format == "man" else as_markdown)(grammar())
    sentence = give(text, chosen.output)
    return fail(sentence, PROGRAM) if sentence else 0
