"""`diagnose gate`: an exit code for pipelines, on a log or on a benchmark against its baseline."""

import argparse
from typing import TYPE_CHECKING

from diagnoser.cli.output import fail, give
from diagnoser.cli.rule_folders import rule_folders

if TYPE_CHECKING:
    from diagnoser.agent.session import Options
    from diagnoser.compare.gate import Gate, Policy
    from diagnoser.inference.diagnosis import Diagnosis

PROGRAM = "diagnose gate"
FORMATS = ("text", "json", "junit")
SEVERITIES = ("low", "medium", "high", "critical")

EPILOG = """\
exit code:
  0 passed   1 failed   2 it cannot be judged, or the call is wrong

examples:
  diagnose gate server.log --require-ready --fail-on high
  diagnose gate server.log --allow cuda-graph-off --junit gate.xml --sarif gate.sarif
  diagnose gate after.json --baseline before.json --max-loss 3%
  diagnose gate today/ --baseline yesterday/ --max-loss 3% --strict
"""


def run(arguments: list[str]) -> int:
    """See the epilog for exit codes."""
    options = parser().parse_args(arguments)
    policy = _policy(options)
    if isinstance(policy, str):
        return fail(policy, PROGRAM)
    from diagnoser.agent import session
    from diagnoser.agent.session import CallError

    folders = rule_folders(options.rules)
    if isinstance(folders, str):
        return fail(folders, PROGRAM)
    year = options.year or session.year_now()
    settings = session.Options(folders, year=year, with_facts=False)
    unknown = [rule for rule in options.allow or () if rule not in session.catalog_of(settings).pack.causes]
    if unknown:
        return fail(f"--allow {unknown[0]}: there is no such rule; see `diagnose rules list`", PROGRAM)
    try:
        judged = _change(options, settings, policy) if options.baseline else _texts(options, settings, policy)
    except CallError as error:
        return fail(str(error), PROGRAM)
    return _tell(options, *judged)


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Say whether a pipeline may go on: no cause in the log, or no loss against the baseline.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument(
        "paths", nargs="*", metavar="PATH", help="logs, folders, results; - is standard input"
    )
    options.add_argument(
        "--baseline",
        action="append",
        metavar="GOOD",
        help="the side that was well: a log, a result or a folder",
    )
    options.add_argument(
        "--max-loss",
        metavar="PERCENT",
        help="with --baseline: the loss of speed that is accepted (default: 0%%)",
    )
    options.add_argument(
        "--strict",
        action="store_true",
        help="with --baseline: fail too where a larger loss cannot be ruled out",
    )
    options.add_argument(
        "--fail-on", choices=SEVERITIES, default="low", help="the lowest severity that fails (default: low)"
    )
    options.add_argument(
        "--min-confidence",
        metavar="P",
        help="let causes less likely than this pass, such as 60%% (default: 35%%)",
    )
    options.add_argument("--allow", action="append", metavar="RULE", help="a rule that is known and accepted")
    options.add_argument(
        "--require-ready", action="store_true", help="fail unless the server says that it serves"
    )
    options.add_argument("-f", "--format", choices=FORMATS, default="text")
    options.add_argument("-o", "--output", metavar="FILE", help="write the answer to FILE instead")
    options.add_argument("--junit", metavar="FILE", help="write JUnit XML too")
    options.add_argument("--sarif", metavar="FILE", help="write SARIF too: all causes, at their lines")
    options.add_argument("--rules", action="append", metavar="DIR", help="a folder with further rules")
    options.add_argument("--year", type=int, metavar="YYYY", help="the year of time stamps that have none")
    return options


def _policy(options: argparse.Namespace) -> "Policy | str":
    """What the call lets pass, or the sentence why it means nothing."""
    from diagnoser.compare.gate import Policy

    loss, likely = _share(options.max_loss, 0.0), _share(options.min_confidence, Policy().min_confidence)
    if loss is None:
        return f"--max-loss {options.max_loss}: it must be a percentage from 0% to 99%, such as 3%"
    if likely is None:
        return (
            f"--min-confidence {options.min_confidence}: it must be a percentage from 0% to 99%, such as 60%"
        )
    for name, given in (("--max-loss", options.max_loss is not None), ("--strict", options.strict)):
        if given and not options.baseline:
            return f"{name} needs --baseline GOOD"
    if options.baseline and not options.paths:
        return "--baseline GOOD needs the other side too: diagnose gate PATH --baseline GOOD"
    if options.baseline and options.require_ready:
        return "--require-ready is about one log; it goes without --baseline"
    allow = frozenset(options.allow or ())
    return Policy(options.fail_on, likely, allow, options.require_ready, loss, options.strict)


def _share(text: str | None, default: float) -> float | None:
    """ "3%" and "0.03" are both three percent."""
    if text is None:
        return default
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return None
    return value if 0 <= value < 1 else None


def _texts(
    options: argparse.Namespace, settings: "Options", policy: "Policy"
) -> "tuple[Gate, str, Diagnosis]":
    from diagnoser.agent import session
    from diagnoser.compare.gate import judge
    from diagnoser.report.outlets.words import headline

    judged = session.run(options.paths or ["-"], settings)
    if isinstance(judged, list):
        raise session.CallError("nothing could be read\n  " + "\n  ".join(judged))
    return judge(judged.diagnosis, policy), headline(judged.diagnosis), judged.diagnosis


def _change(
    options: argparse.Namespace, settings: "Options", policy: "Policy"
) -> "tuple[Gate, str, Diagnosis | None]":
    from diagnoser.agent.regression import explain_with_later
    from diagnoser.compare.gate import judge_change
    from diagnoser.report.regression import headline

    found, later = explain_with_later(options.baseline, options.paths, settings)
    return judge_change(found, policy), headline(found), later.diagnosis if later else None


def _tell(options: argparse.Namespace, gate: "Gate", words: str, diagnosis: "Diagnosis | None") -> int:
    from diagnoser.report import gate as report

    written = [(options.junit, report.as_junit)] if options.junit else []
    renderers = {"text": report.as_text, "json": report.as_json, "junit": report.as_junit}
    for file, render in [*written, (options.output, renderers[options.format])]:
        if sentence := give(render(gate, words), file):
            return fail(sentence, PROGRAM)
    if options.sarif and diagnosis is not None:
        from diagnoser.report.outlets import sarif

        if sentence := give(sarif.render(diagnosis), options.sarif):
            return fail(sentence, PROGRAM)
    elif options.sarif:
        return fail("--sarif tells of logs; the later side holds benchmark results alone", PROGRAM)
    return 2 if gate.passed is None else int(not gate.passed)
