"""`diagnose --baseline GOOD BAD`: what made the later side different."""

import argparse
import sys
from typing import TYPE_CHECKING

from diagnoser.cli.output import fail, give
from diagnoser.cli.progress import Bar

if TYPE_CHECKING:
    from diagnoser.agent.session import Options
    from diagnoser.compare.regression import Regression
    from diagnoser.inference.diagnose import Judged


def add(options: argparse.ArgumentParser) -> None:
    """The options of the comparison."""
    options.add_argument(
        "--baseline",
        action="append",
        metavar="GOOD",
        help="a log, benchmark result or folder of the time when all was well; PATH is held against it",
    )
    options.add_argument(
        "--all", action="store_true", help="with --baseline: the differences that cannot matter too"
    )


def run(options: argparse.Namespace, settings: "Options") -> int:
    """Exit code 0: not slower, as far as can be told; 1: slower, or it does not start; 2: cannot be read."""
    if not options.paths:
        return fail("--baseline GOOD needs the other side too: diagnose --baseline GOOD BAD")
    from diagnoser.agent import regression
    from diagnoser.agent.session import CallError
    from diagnoser.report import regression as report

    try:
        with Bar(sys.stderr) as bar:
            found, later = regression.explain_with_later(
                options.baseline, options.paths, settings, bar.update
            )
    except CallError as error:
        return fail(str(error))
    if options.report and (sentence := _postmortem(options, settings, found, later)):
        return fail(sentence)
    if options.format == "json":
        from diagnoser.report.regression_json import as_json

        text = as_json(found)
    elif options.format == "markdown":
        text = report.as_markdown(found)
    else:
        text = report.as_text(found, everything=options.all)
    sentence = give(text, options.output)
    return fail(sentence) if sentence else int(found.word in ("slower", "does not start"))


def _postmortem(
    options: argparse.Namespace, settings: "Options", found: "Regression", later: "Judged | None"
) -> str | None:
    from diagnoser.cli import report
    from diagnoser.sources import open_sources

    if later is None:
        return "--report tells of a log; the later side holds benchmark results alone"
    return report.write(later, options, settings, lambda: open_sources(options.paths), found)
