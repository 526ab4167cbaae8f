"""`diagnose compare A B`: what two benchmark results say about each other."""

import argparse
import json
from pathlib import Path

from diagnoser.cli.output import fail, give

PROGRAM = "diagnose compare"


def run(arguments: list[str]) -> int:
    """Exit code 0: B is not slower, as far as can be told; 1: B is slower; 2: wrong call, or not comparable."""
    options = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Compare two benchmark results, of any tool whose files are known. Several launches of a side are "
        "several files in a folder.",
        epilog="exit code: 0 B is not slower as far as can be told, 1 B is slower, 2 not comparable or a wrong call",
        allow_abbrev=False,
    )
    options.add_argument("before", metavar="A", type=Path, help="a file or a folder")
    options.add_argument("after", metavar="B", type=Path, help="a file or a folder")
    options.add_argument("-f", "--format", choices=("text", "json"), default="text")
    options.add_argument("-o", "--output", metavar="FILE", help="write the answer to FILE instead")
    chosen = options.parse_args(arguments)
    from diagnoser.experiment.comparison import NotComparableError, as_json, as_text, compare
    from diagnoser.experiment.importers import NotABenchmarkError, read

    try:
        found = compare(read(chosen.before), read(chosen.after))
    except (NotABenchmarkError, NotComparableError) as error:
        return fail(str(error), PROGRAM)
    text = json.dumps(as_json(found), indent=2) + "\n" if chosen.format == "json" else as_text(found)
    sentence = give(text, chosen.output)
    return fail(sentence, PROGRAM) if sentence else int(found.word == "slower")
