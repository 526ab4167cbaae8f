"""`diagnose completions SHELL`: what a shell needs to complete commands, options and their values."""

import argparse

from diagnoser.cli.output import fail, give

PROGRAM = "diagnose completions"
SHELLS = ("bash", "zsh", "fish")

EPILOG = """\
Packages bring them along; otherwise:
  bash    source <(diagnose completions bash)
  zsh     diagnose completions zsh > "${fpath[1]}/_diagnose"
  fish    diagnose completions fish > ~/.config/fish/completions/diagnose.fish
"""


def run(arguments: list[str]) -> int:
    """Print the completions of a shell."""
    options = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Print completions of commands, options and values for a shell.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument("shell", choices=SHELLS)
    options.add_argument("-o", "--output", metavar="FILE", help="write them to FILE instead")
    chosen = options.parse_args(arguments)
    from diagnoser.cli.manual.grammar import grammar
    from diagnoser.cli.manual.shells import completions

    sentence = give(completions(grammar(), chosen.shell), chosen.output)
    return fail(sentence, PROGRAM) if sentence else 0
