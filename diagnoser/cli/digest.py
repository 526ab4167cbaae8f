"""`diagnose digest`: the causes of many diagnoses, week by week, by count and cost."""

import argparse

from diagnoser.cli.output import fail, give

PROGRAM = "diagnose digest"

EPILOG = """\
exit code: 0 told, 2 there is no diagnosis, or the call is wrong

examples:
  diagnose server.log -f json -o incidents/2026-03-02.json       keep a diagnosis
  diagnose digest incidents/                                     this week, and the one before
  diagnose digest history: --weeks 8 -f markdown                 of what was kept with --save
"""


def run(arguments: list[str]) -> int:
    """Exit code 0, or 2 where there is nothing to tell."""
    options = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Tell which causes came how often and what they cost, week by week, from diagnoses that were kept.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="JSON diagnoses, folders of them, or history: for what --save kept",
    )
    options.add_argument(
        "--weeks", type=int, default=2, metavar="N", help="the last N that have any (default: 2)"
    )
    options.add_argument("-f", "--format", choices=("text", "markdown", "json"), default="text")
    options.add_argument("-o", "--output", metavar="FILE", help="write the digest to FILE instead")
    chosen = options.parse_args(arguments)
    if chosen.weeks < 1:
        return fail(f"--weeks {chosen.weeks}: it must be a whole number above 0", PROGRAM)
    from diagnoser.agent.digest import read
    from diagnoser.agent.session import DEFAULTS, CallError
    from diagnoser.compare.digest import weeks
    from diagnoser.report import digest as report

    try:
        found = read(chosen.paths, DEFAULTS)
    except CallError as error:
        return fail(str(error), PROGRAM)
    renderers = {"text": report.as_text, "markdown": report.as_markdown, "json": report.as_json}
    sentence = give(
        renderers[chosen.format](weeks(found.incidents)[: chosen.weeks], found.notes), chosen.output
    )
    return fail(sentence, PROGRAM) if sentence else 0
