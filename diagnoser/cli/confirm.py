"""`diagnose confirm`: prove a fix by restarting a server with and without it. Without --apply the plan is told."""

import argparse
import shlex
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diagnoser.cli.output import fail

if TYPE_CHECKING:
    from diagnoser.experiment.change import Change, Config
    from diagnoser.experiment.confirm import Outcome, Plan
    from diagnoser.experiment.journal import Process

PROGRAM = "diagnose confirm"
REFUTED, HARMFUL, INCONCLUSIVE, VOID, ROLLED_BACK, ROLLBACK_FAILED = 10, 11, 12, 13, 14, 15

EPILOG = """\
exit code:
  0 confirmed   2 wrong call, or nothing was done   10 refuted   11 harmful   12 inconclusive   13 void or refused
  14 rolled back after an error   15 the original server could not be brought back

examples:
  diagnose confirm server.log --url http://localhost:30000 --pid 4711              the plan
  diagnose confirm server.log --url http://localhost:30000 --pid 4711 --apply      the experiment
  diagnose confirm --url http://localhost:30000 --pid 4711 --set-flag --attention-backend=flashinfer --apply
  diagnose confirm --rollback
"""


def _parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Prove a fix: measure the server as found and with the fix, in turn, until the verdict stands. "
        "Without --apply only the plan is told. Afterwards the original server runs again.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument("paths", nargs="*", metavar="PATH", help="logs whose leading cause gives the fix")
    options.add_argument("--url", help="where the server answers")
    options.add_argument("--pid", type=int, metavar="N", help="the running server's process on this machine")
    options.add_argument(
        "--command", metavar="CMD", help="the command that starts the server, if it does not run"
    )
    for name, words in (
        ("--set-flag", "FLAG[=VALUE]"), ("--unset-flag", "FLAG"), ("--set-env", "NAME=VALUE"), ("--unset-env", "NAME"),
    ):  # fmt: skip
        options.add_argument(name, metavar=words, help=f"the change, instead of a log's fix: {words}")
    options.add_argument("--workload", help="what to measure (default: what exercises the cause)")
    options.add_argument("--metric", help="the metric that decides (default: the workload's)")
    for name in ("prompt-tokens", "output-tokens", "concurrency", "requests", "runs"):
        options.add_argument(f"--{name}", type=int, metavar="N")
    options.add_argument(
        "--gap", metavar="PERCENT", help="the loss that the change should explain, such as 6.7"
    )
    options.add_argument("--apply", action="store_true", help="do it: the server is stopped and started")
    options.add_argument(
        "--yes", action="store_true", help="do not ask; needs --host with this machine's name"
    )
    options.add_argument("--host", metavar="NAME", help="this machine's name, for --yes")
    options.add_argument(
        "--keep-fix", action="store_true", help="leave the change in place if it is confirmed"
    )
    options.add_argument("--allow-serving", action="store_true", help="go on although others use the server")
    options.add_argument(
        "--rollback", action="store_true", help="bring back the server of an experiment that was cut"
    )
    options.add_argument("--watch", nargs=2, metavar=("JOURNAL", "PID"), help=argparse.SUPPRESS)
    return options


def _joined(arguments: list[str]) -> list[str]:
    """``--set-flag --tp=8`` as ``--set-flag=--tp=8``: what follows is a value, though it looks like an option."""
    joined: list[str] = []
    for word in arguments:
        if joined and joined[-1] in ("--set-flag", "--unset-flag", "--command"):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def run(arguments: list[str]) -> int:
    """See the epilog for exit codes."""
    options = _parser().parse_args(_joined(arguments))
    from diagnoser.experiment import journal

    if options.watch:
        return _watch(Path(options.watch[0]), int(options.watch[1]))
    if options.rollback:
        return _roll_back()
    made = _plan(options)
    if isinstance(made, str):
        return fail(made, PROGRAM)
    _tell(made)
    if not options.apply:
        print("\nThis is the plan; nothing was done. --apply does it.")
        return 0
    refused = _refused(made, options)
    if refused is not None:
        fail(refused, PROGRAM)
        return VOID
    from diagnoser.experiment.confirm import run as experiment

    try:
        outcome = experiment(made, _say, _fatal)
    except journal.BusyError as error:
        fail(str(error), PROGRAM)
        return VOID
    except OSError as error:
        return fail(f"{error.filename}: no journal can be kept: {error.strerror}; nothing was done", PROGRAM)
    return _conclude(made, outcome)


def _plan(options: argparse.Namespace) -> "Plan | str":
    """The experiment that the call means, or the sentence why it means none."""
    from dataclasses import replace

    from diagnoser.experiment.change import Config
    from diagnoser.experiment.confirm import WORKLOADS, Plan
    from diagnoser.experiment.load.client import UnusableError

    if not options.url:
        return "--url is needed: where the server answers"
    if (options.pid is None) == (options.command is None):
        return "either --pid or --command is needed: the running server, or how to start it"
    change, workload, words = _change(options)
    if change is None:
        return words
    running: Process | None = None
    if options.pid is not None:
        found = _running(options.pid)
        if isinstance(found, str):
            return found
        config, running = found
    else:
        command = tuple(shlex.split(options.command))
        if not command:
            return "--command is empty"
        config = Config(command, str(Path.cwd()))
    if change.applied(config) == config:
        return f"the server has the change already: {change}"
    name = options.workload or workload
    if name not in WORKLOADS:
        known = ", ".join(WORKLOADS)
        return f"the workload {name!r} cannot be measured here; known: {known}"
    metric, load = WORKLOADS[name]
    given = {
        key: value
        for key in ("prompt_tokens", "output_tokens", "concurrency", "requests", "runs")
        if (value := getattr(options, key)) is not None
    }
    try:
        gap = float(options.gap.rstrip("%")) / 100 if options.gap else None
        return Plan(options.url, config, change, name, options.metric or metric, replace(load, **given), gap, running,
                    options.keep_fix)  # fmt: skip
    except UnusableError as error:
        return str(error)
    except ValueError:
        return f"--gap {options.gap} is no percentage"


def _change(options: argparse.Namespace) -> "tuple[Change | None, str, str]":
    """The change, the workload that exercises it, and the sentence why there is none."""
    from diagnoser.experiment.change import ACTIONS, Change

    default = "decode_single_stream"
    given = [(action, getattr(options, action)) for action in ACTIONS if getattr(options, action)]
    if len(given) > 1:
        return None, default, "one change at a time: two at once prove nothing about either"
    if given:
        action, text = given[0]
        name, _, value = str(text).partition("=")
        if action == "set_env" and not value:
            return None, default, "--set-env needs NAME=VALUE"
        if action.endswith("flag") and not name.startswith("-"):
            name = f"--{name}"
        return Change(action, name, value or None), default, ""
    if not options.paths:
        return None, default, "a log whose cause has a fix is needed, or a change such as --set-flag"
    from diagnoser.agent import session
    from diagnoser.rulebook.book import default_folders, pack_for

    judged = session.run(options.paths)
    if isinstance(judged, list):
        return None, default, "; ".join(judged)
    causes = judged.diagnosis.causes
    if not causes:
        return None, default, "no known cause was found; name a change, such as --set-flag"
    rule = pack_for(default_folders()).causes[causes[0].rule]
    workload = str((rule.get("confirm") or {}).get("workload", default))
    for fix in causes[0].fixes:
        if fix.action in ACTIONS and "<" not in fix.command:
            words = fix.command.removeprefix("export ").removeprefix("unset ").split(maxsplit=1)
            if fix.action == "unset_flag":  # "remove --flag from the server's command line"
                words = [word for word in fix.command.split() if word.startswith("-")]
            name, _, after = words[0].partition("=")
            argument = after or (words[1] if len(words) > 1 else None)
            return Change(fix.action, name, argument), workload, ""
    return (
        None,
        default,
        f"{causes[0].rule} has no fix that a restart alone applies; name a change, such as --set-flag",
    )


def _running(pid: int) -> "tuple[Config, Process] | str":
    """The configuration of a running process, as it was started."""
    from diagnoser.experiment.change import Config
    from diagnoser.experiment.journal import Process, started_at

    started = started_at(pid)
    if started is None:
        return f"--pid {pid}: there is no such process on this machine"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        pairs = Path(f"/proc/{pid}/environ").read_bytes().rstrip(b"\0").split(b"\0")
        folder = Path(f"/proc/{pid}/cwd").resolve()
    except OSError as error:
        return f"--pid {pid}: it cannot be read: {error.strerror}; run as its user or as root"
    split = [pair.decode("utf-8", "surrogateescape").partition("=") for pair in pairs if b"=" in pair]
    command = tuple(word.decode("utf-8", "surrogateescape") for word in words)
    return Config(command, str(folder), tuple((name, value) for name, _, value in split)), Process(
        pid, started
    )


def _tell(plan: "Plan") -> None:
    from diagnoser.experiment.confirm import smallest_seen

    first = "as it runs" if plan.running else "started by this"
    load = plan.load
    rate = f"{load.concurrency} at a time" if load.rate_per_s is None else f"{load.rate_per_s:g} a second"
    print(f"Plan: {plan.change}, on {socket.gethostname()}")
    print(f"  A         {shlex.join(plan.original.command)[:600]} ({first})")
    print(f"  B         the same with {plan.change}")
    print(
        f"  order     A B, then A B and A B again while the verdict is open; {load.runs} runs a launch after warm-ups"
    )
    print(f"  load      {plan.workload}: {load.prompt_tokens} tokens in, {load.output_tokens} out, {rate}")
    print(f"  decides   {plan.metric}")
    seen = ", ".join(f"{value:.1%}" for value in smallest_seen(plan))
    print(f"  seen      a change of {seen} after 1, 2, 3 pairs, in 4 of 5 cases, if runs scatter by 1 %")
    if plan.gap and plan.gap < smallest_seen(plan)[-1]:
        print(f"  warning   the gap of {plan.gap:.1%} is smaller than what three pairs can see")
    print(f"  restarts  {'2 to 6' if plan.running else '3 to 7'}, the last brings the original back", end="")
    print(" unless the change is confirmed" if plan.keep_fix else "")
    print(
        "  undo      by itself on an error, Ctrl-C or death of this process; by hand: diagnose confirm --rollback"
    )


def _refused(plan: "Plan", options: argparse.Namespace) -> str | None:
    """The sentence why the experiment must not begin, or None."""
    from urllib.parse import urlsplit

    from diagnoser.experiment.servers import connections

    name = socket.gethostname()
    address = urlsplit(plan.url)
    if address.hostname not in ("localhost", "127.0.0.1", "::1", name):
        return f"{plan.url} is not this machine; an experiment restarts servers of this machine only"
    if Path("/etc/diagnoser/no-restart").exists():
        return "/etc/diagnoser/no-restart forbids restarts on this machine"
    port = address.port or 80
    busy = connections(port)
    if plan.running is None and busy:
        return f"port {port} is in use; name the running server with --pid"
    if busy and not options.allow_serving:
        return f"{busy} connections use port {port}: the server serves; --allow-serving goes on all the same"
    if options.yes:
        return None if options.host == name else f"--yes needs --host {name}, this machine's name"
    if sys.stdin is None or not sys.stdin.isatty():
        return f"nobody can be asked; --yes --host {name} does it without"
    print(
        f"\nThe server will be stopped and started. Type this machine's name ({name}) to go on: ",
        end="",
        flush=True,
    )
    return None if sys.stdin.readline().strip() == name else "the name was not given; nothing was done"


def _say(words: str) -> None:
    from diagnoser.sources import printable

    print(f"  {printable(words)}", file=sys.stderr, flush=True)


def _fatal(log: Path) -> tuple[str, str] | None:
    """The rule and title of what a log says ends a start; None where it says nothing of the kind."""
    from diagnoser.agent import session
    from diagnoser.inference.resolve import FATAL

    try:
        judged = session.run([log])
    except session.CallError:
        return None
    if isinstance(judged, list):
        return None
    for cause in judged.diagnosis.causes:
        if cause.effect in FATAL and cause.kind == "cause" and judged.diagnosis.server != "ready":
            fix = f" (fix: {cause.fixes[0].command})" if cause.fixes else ""
            return cause.rule, f"{cause.title}{fix}"
    return None


def _conclude(plan: "Plan", outcome: "Outcome") -> int:
    from diagnoser.experiment.statistics import Verdict

    codes: dict[Any, int] = {
        Verdict.CONFIRMED: 0, Verdict.REFUTED: REFUTED, Verdict.HARMFUL: HARMFUL, Verdict.INCONCLUSIVE: INCONCLUSIVE,
        Verdict.VOID: VOID, None: ROLLED_BACK,
    }  # fmt: skip
    last = outcome.last
    print()
    if outcome.verdict is not None:
        print(f"{outcome.verdict.value.capitalize()}: {plan.change}")
    if last is not None:
        found = last.interval
        print(f"  {plan.metric} better by {found.effect:+.1%} [{found.low:+.1%}, {found.high:+.1%}]")
        grade = (
            "reproduced"
            if last.reproduced
            else "one launch each"
            if last.pairs == 1
            else "not every launch alike"
        )
        print(f"  {last.pairs} pair{'s' if last.pairs > 1 else ''} of launches, {grade}")
        if last.bimodal:
            print("  launches of one arm differ by more than 5 %: there may be two kinds of launches")
        if last.share is not None:
            print(
                f"  explains {last.share.effect:.0%} of the gap [{last.share.low:.0%}, {last.share.high:.0%}]"
            )
    if outcome.error:
        print(f"  {outcome.error}")
    if outcome.restored is None:
        print("  the server runs with the change; undo: start it with its former command")
        return codes[outcome.verdict]
    if not outcome.restored:
        print("  THE ORIGINAL SERVER IS NOT BACK. By hand:")
        print(f"  cd {shlex.quote(plan.original.folder)} && {shlex.join(plan.original.command)}")
        return ROLLBACK_FAILED
    print("  the original server runs again")
    return codes[outcome.verdict]


def _roll_back() -> int:
    from diagnoser.experiment import journal
    from diagnoser.experiment.confirm import roll_back

    files = journal.pending()
    if not files:
        print("no experiment is open; nothing was done")
        return 0
    for file in files:
        try:
            if not roll_back(file, _say, _fatal):
                fail(
                    f"the server of {file} could not be brought back; its command is in the first line",
                    PROGRAM,
                )
                return ROLLBACK_FAILED
        except journal.BusyError as error:
            fail(str(error), PROGRAM)
            return VOID
        print(f"{file.stem}: the original server runs again")
    return 0


def _watch(file: Path, pid: int) -> int:
    from diagnoser.experiment.confirm import watch
    from diagnoser.experiment.journal import Process, started_at

    started = started_at(pid)
    return 0 if watch(file, Process(pid, started or 0), _say, _fatal) else ROLLBACK_FAILED
