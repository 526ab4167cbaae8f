"""`diagnose [PATH ...]`: read, judge, show."""

import argparse
import difflib
import os
import sys
from pathlib import Path
from typing import IO

from diagnoser.cli import config
from diagnoser.cli.main import COMMANDS
from diagnoser.cli.progress import Bar
from diagnoser.cli.times import moment
from diagnoser.version import __version__

FORMATS = ("auto", "text", "markdown", "json")

EPILOG = """\
commands:
  rules       list, show, lint, test, graph the rules; draft a new one from a log line
  schema      print the JSON Schema of the output or of rule files
A path that is named like a command is written ./rules or behind --.

exit code:
  0  nothing above severity info    1  at least one cause    2  nothing could be read, or the call is wrong

examples:
  diagnose server.log nvidia-smi.txt
  kubectl logs my-pod | diagnose
  diagnose                       paste, then Ctrl-D
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
        "-f", "--format", choices=FORMATS, help="how to show the answer (auto: text, coloured on a terminal)"
    )
    options.add_argument("-o", "--output", metavar="FILE", help="write the answer to FILE instead")
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
        "--year", type=int, metavar="YYYY", help="the year of time stamps that have none (default: this year)"
    )
    options.add_argument(
        "--rules", action="append", metavar="DIR", help="a folder with further rules; may be repeated"
    )
    options.add_argument("--naive", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--no-color", action="store_true", default=None, help="no colours (as NO_COLOR=1)")
    options.add_argument("-V", "--version", action="version", version=f"diagnose {__version__}")
    return options


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return number


def run(arguments: list[str]) -> int:
    """The main command; see `main` for exit codes."""
    options = parser().parse_args(arguments)
    try:
        config.fill(options)
    except config.ConfigError as error:
        return _fail(str(error))
    from diagnoser.agent import session
    from diagnoser.inference.diagnosis import Diagnosis
    from diagnoser.inference.window import Window

    now_year = options.year or session.year_now()
    try:
        window = Window(moment(options.since, now_year), moment(options.until, now_year), options.tail)
    except ValueError as error:
        return _fail(str(error))
    if window.since is not None and window.until is not None and window.since > window.until:
        return _fail("--since lies behind --until")
    folders = tuple(Path(folder) for folder in options.rules or ())
    for folder in folders:
        if not folder.is_dir():
            return _fail(f"--rules {folder}: there is no such folder")
    settings = session.Options(
        folders, options.launch, window, options.naive, now_year, with_facts=options.format == "json"
    )
    given = _paths(options.paths)
    if isinstance(given, str):
        return _fail(given)
    with Bar(sys.stderr) as bar:
        judged = session.run(given, settings, bar.update)
    if isinstance(judged, list):
        if options.format == "json":
            # Machines get an object whatever happens.
            _show(
                Diagnosis(version=__version__, headline="nothing could be read", unreadable=judged), options
            )
        return _fail("nothing could be read\n  " + "\n  ".join(judged))
    if options.explain:
        return _explain(options.explain, judged, settings)
    return _show(judged.diagnosis, options)


def _paths(paths: list[str]) -> list[str] | str:
    """What to read, or the sentence why nothing can be."""
    if not paths:
        if sys.stdin is None or sys.stdin.isatty():
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


def _explain(rule: str, judged: object, settings: object) -> int:
    from diagnoser.agent.session import Options
    from diagnoser.inference.diagnose import Judged
    from diagnoser.report.explain import explain
    from diagnoser.rulebook.book import default_folders, pack_for

    assert isinstance(judged, Judged)
    assert isinstance(settings, Options)
    pack = pack_for(tuple(default_folders(settings.rules)))
    if rule not in pack.causes:
        close = difflib.get_close_matches(rule, pack.causes, n=3)
        return _fail(
            f"there is no rule {rule!r}"
            + (f"; did you mean {', '.join(close)}?" if close else "; see `diagnose rules list`")
        )
    print(explain(rule, judged, pack))
    return 1 if judged.diagnosis.causes else 0


def _show(diagnosis: object, options: argparse.Namespace) -> int:
    from diagnoser.inference.diagnosis import Diagnosis

    assert isinstance(diagnosis, Diagnosis)
    code = 1 if diagnosis.causes else 0
    chosen = options.format or "auto"
    terminal = options.output is None and sys.stdout.isatty() and chosen in ("auto", "text")
    if terminal:
        from diagnoser.report.terminal import show

        show(diagnosis, sys.stdout, color=False if options.no_color else None, quiet=bool(options.quiet))
        return code
    if chosen == "json":
        text = diagnosis.to_json() + "\n"
    elif chosen == "markdown":
        from diagnoser.report import markdown

        text = markdown.render(diagnosis)
    else:
        from diagnoser.report import plain

        text = plain.render(diagnosis, quiet=bool(options.quiet))
    if options.output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return code
    try:
        write_whole(Path(options.output), text)
    except OSError as error:
        return _fail(f"--output {options.output}: {error.strerror or error}")
    return code


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    if path.exists() and not path.is_file():
        path.write_text(text, "utf-8")
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_text(text, "utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _fail(sentence: str, file: IO[str] | None = None) -> int:
    print(f"diagnose: {sentence}", file=file or sys.stderr)
    return 2
