"""`diagnose [PATH ...]`: read, judge, show."""

import argparse
import difflib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from diagnoser.cli import baseline, config, hosts, post, report, save
from diagnoser.cli.main import COMMANDS
from diagnoser.cli.output import fail, give
from diagnoser.cli.progress import Bar
from diagnoser.cli.rule_folders import rule_folders
from diagnoser.cli.times import moment
from diagnoser.version import __version__

if TYPE_CHECKING:
    from diagnoser.agent.session import Options
    from diagnoser.inference.diagnose import Judged

FIRST_YEAR = 1970
"""Time stamps count from this year on."""

EPILOG = """\
commands:
  bench       measure a running server
  compare     what two benchmark results say about each other
  history     what was kept with --save: list, plot, test, export
  confirm     prove a fix by restarting a server with and without it
  bisect      which difference between a fast and a slow configuration it is
  collect     look at a machine and keep what was seen, to be diagnosed later
  digest      which causes came how often and what they cost, week by week
  gate        an exit code for pipelines, on a log or a benchmark
  manual      the manual page; completions: for bash, zsh and fish
  mcp         tools for agents, over standard input and output
  probes      what is ever run on a machine by --host, all of it read-only
  rules       list, show, lint, test, graph the rules; draft one from a line
  scan        diagnose many logs at once, on this machine or a Ray cluster
  serve       a page to paste logs into, and a REST API
  upgrade     what a change of versions will break or slow down
  schema      print the JSON Schema of the output or of rule files
A path that is named like a command is written ./rules or behind --.

exit code:
  0  nothing above severity info        1  at least one cause
  2  nothing could be read, or the call is wrong

examples:
  diagnose server.log nvidia-smi.txt
  kubectl logs my-pod | diagnose
  diagnose                       paste, then Ctrl-D
  diagnose --host gpu-07         look there over SSH, read-only
  diagnose --baseline yesterday.log today.log     what made it slower
  diagnose --explain kv-retraction-collapse server.log
"""


def parser() -> argparse.ArgumentParser:
    """The options of the main command."""
    options = argparse.ArgumentParser(
        prog="diagnose",
        description="Says why an LLM inference server is slow or will not start, with proof and fix.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument(
        "paths", nargs="*", metavar="PATH", help="files, folders, globs, archives; - is standard input"
    )
    options.add_argument(
        "-f",
        "--format",
        choices=config.FORMATS,
        help="how to show the answer (auto: text, coloured on a terminal)",
    )
    options.add_argument("-o", "--output", metavar="FILE", help="write the answer to FILE instead")
    report.add(options)
    post.add(options)
    options.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        default=None,
        help="only the leading cause, its proof and its fix",
    )
    options.add_argument(
        "--explain", metavar="RULE", help="why RULE is, or is not, the answer: every condition with its value"
    )
    options.add_argument(
        "--since", metavar="TIME", help="only lines from this time on (2026-03-01T09:00, 09:00, or 2h ago)"
    )
    options.add_argument("--until", metavar="TIME", help="only lines up to this time")
    options.add_argument("--tail", type=_positive, metavar="N", help="only the last N lines of each source")
    options.add_argument(
        "--launch",
        type=_positive,
        metavar="N",
        help="which start of the server in a log to diagnose (default: the last)",
    )
    options.add_argument(
        "--year",
        type=_year,
        metavar="YYYY",
        help="the year of time stamps that have none (default: this year)",
    )
    options.add_argument(
        "--follow",
        action="store_true",
        help="keep reading a log that is being written (a file, or that of one --host) and show what comes up",
    )
    options.add_argument(
        "--workers", type=_positive, metavar="N", help="how many processes read large files (default: 1)"
    )
    options.add_argument(
        "--rules", action="append", metavar="DIR", help="a folder with further rules; may be repeated"
    )
    baseline.add(options)
    save.add(options)
    hosts.add(options)
    options.add_argument("--naive", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--no-color", action="store_true", default=None, help="no colours (as NO_COLOR=1)")
    options.add_argument("-V", "--version", action="version", version=f"diagnose {__version__}")
    return options


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return number


def _year(text: str) -> int:
    number = _positive(text) if len(text) == 4 else 0
    if number < FIRST_YEAR:
        raise argparse.ArgumentTypeError(f"{text} is not a year from {FIRST_YEAR} to 9999")
    return number


def run(arguments: list[str]) -> int:
    """The main command; see `main` for exit codes."""
    options = parser().parse_args(arguments)
    try:
        config.fill(options)
    except config.ConfigError as error:
        return fail(str(error))
    from diagnoser.agent import session
    from diagnoser.inference.diagnosis import Diagnosis
    from diagnoser.inference.window import Window

    now_year = options.year or session.year_now()
    try:
        window = Window(moment(options.since, now_year), moment(options.until, now_year), options.tail)
    except ValueError as error:
        return fail(str(error))
    if window.since is not None and window.until is not None and window.since > window.until:
        return fail("--since lies behind --until")
    folders = rule_folders(options.rules)
    if isinstance(folders, str):
        return fail(folders)
    settings = session.Options(
        folders,
        options.launch,
        window,
        options.naive,
        now_year,
        with_facts=options.format == "json",
        workers=options.workers or 1,
    )
    if sentence := report.check(options) or post.check(options) or _other(options):
        return fail(sentence)
    if options.baseline:
        return baseline.run(options, settings)
    if options.follow:
        from diagnoser.cli import follow

        return follow.run(options, settings)
    if options.host or options.hosts_file:
        return hosts.run(options, settings)
    if len(options.paths) == 1 and options.paths[0].endswith(".zst") and not options.explain:
        from diagnoser.sources.hosts import bundle

        if bundle.is_bundle(Path(options.paths[0])):
            return hosts.run_bundle(Path(options.paths[0]), options, settings)
    given = _paths(options.paths)
    if isinstance(given, str):
        return fail(given)
    again = report.hold_input(given) if options.report else None
    try:
        with Bar(sys.stderr) as bar:
            judged = session.run(given, settings, bar.update)
    except session.CallError as error:
        return fail(str(error))
    if isinstance(judged, list):
        if options.format == "json":
            # Machines get an object whatever happens.
            show(Diagnosis(version=__version__, headline="nothing could be read", unreadable=judged), options)
        return fail("nothing could be read\n  " + "\n  ".join(judged))
    if options.explain:
        return _explain(options, judged, settings)
    return answer(judged, options, settings, again)


def _paths(paths: list[str]) -> list[str] | str:
    """What to read, or the sentence why nothing can be."""
    if sys.stdin is None and (not paths or "-" in paths):
        return "standard input is closed; give it a text or name a file"
    if not paths:
        if sys.stdin.isatty():
            print("Paste the log (and nvidia-smi, pip list ...), then press Ctrl-D.", file=sys.stderr)
        return ["-"]
    for path in paths:
        if path == "-" or Path(path).exists() or any(character in path for character in "*?["):
            continue
        close = difflib.get_close_matches(path, COMMANDS, n=1)
        also = f"; did you mean the command `diagnose {close[0]}`?" if close else ""
        if len(paths) == 1 or close:
            return f"{path}: there is no such file or folder{also}"
    return paths


def _other(options: argparse.Namespace) -> str | None:
    """What tells of one diagnosis and not of several machines, two sides or a log that goes on."""
    if options.explain and (options.report or options.post):
        return f"--explain tells of one rule; it goes without {'--report' if options.report else '--post'}"
    if options.follow and options.report:
        return "--report tells of what has ended; it goes without --follow"
    several = len(options.host or ()) > 1 or options.hosts_file
    word = "--baseline" if options.baseline else "--follow" if options.follow else "several hosts"
    if not (options.baseline or options.follow or several):
        return None
    if options.format not in (None, "auto", "text", "markdown", "json"):
        return f"{word} cannot be shown as {options.format}"
    return f"--post sends one diagnosis; it goes without {word}" if options.post else None


def answer(
    judged: "Judged", options: argparse.Namespace, settings: "Options", again: "report.Again | None" = None
) -> int:
    """Show what was found, and write the postmortem where one was asked for. again: the sources, to read them again."""
    if options.report and (sentence := report.write(judged, options, settings, again)):
        return fail(sentence)
    code = show(judged.diagnosis, options)
    if options.post and code != 2 and (sentence := post.send(judged.diagnosis, options)):
        return fail(sentence)
    return save.keep_diagnosis(judged, options) or code if save.wanted(options) else code


def _explain(options: argparse.Namespace, judged: object, settings: object) -> int:
    from diagnoser.agent.session import Options
    from diagnoser.inference.diagnose import Judged
    from diagnoser.report.explain import explain
    from diagnoser.rulebook.book import default_folders, pack_for

    assert isinstance(judged, Judged)
    assert isinstance(settings, Options)
    rule = options.explain
    if options.format not in (None, "auto", "text"):
        return fail(f"--explain gives text; it cannot be shown as {options.format}")
    pack = pack_for(tuple(default_folders(settings.rules)))
    if rule not in pack.causes:
        close = difflib.get_close_matches(rule, pack.causes, n=3)
        return fail(
            f"there is no rule {rule!r}"
            + (f"; did you mean {', '.join(close)}?" if close else "; see `diagnose rules list`")
        )
    sentence = give(explain(rule, judged, pack) + "\n", options.output)
    return fail(sentence) if sentence else int(bool(judged.diagnosis.causes))


def show(diagnosis: object, options: argparse.Namespace) -> int:
    from diagnoser.inference.diagnosis import Diagnosis

    assert isinstance(diagnosis, Diagnosis)
    code = 1 if diagnosis.causes else 0
    chosen = options.format or "auto"
    if options.output is None and sys.stdout.isatty() and chosen in ("auto", "text"):
        from diagnoser.report import terminal

        terminal.show(
            diagnosis, sys.stdout, color=False if options.no_color else None, quiet=bool(options.quiet)
        )
        return code
    if chosen == "json":
        text = diagnosis.to_json() + "\n"
    elif chosen == "markdown":
        from diagnoser.report import markdown

        text = markdown.render(diagnosis)
    elif chosen not in ("auto", "text"):
        from diagnoser.report import outlets

        text = outlets.render(diagnosis, chosen)
    else:
        from diagnoser.report import plain

        text = plain.render(diagnosis, quiet=bool(options.quiet))
    sentence = give(text, options.output)
    return fail(sentence) if sentence else code
