"""`diagnose confirm`: prove a fix by restarting a server with and without it. Without --apply the plan is told."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diagnoser.cli.output import fail
from diagnoser.compare.effects import effect_text

if TYPE_CHECKING:
    from diagnoser.experiment.confirm import Outcome
    from diagnoser.experiment.hands import Hands
    from diagnoser.experiment.plan import Plan

PROGRAM = "diagnose confirm"
REFUTED, HARMFUL, INCONCLUSIVE, VOID, ROLLED_BACK, ROLLBACK_FAILED = 10, 11, 12, 13, 14, 15

MAX_NOTES = 12

EPILOG = """\
exit code:
  0 confirmed   2 wrong call, or nothing was done   10 refuted   11 harmful   12 inconclusive   13 void or refused
  14 rolled back after an error   15 the original server could not be brought back

examples:
  diagnose confirm server.log --url http://localhost:30000 --pid 4711              the plan
  diagnose confirm server.log --url http://localhost:30000 --pid 4711 --apply      the experiment
  diagnose confirm --host gpu-07 --url http://localhost:30000 --pid 4711 --set-flag --attention-backend=flashinfer
  diagnose confirm --chain --command 'python -m sglang.launch_server ...' --url http://localhost:30000
  diagnose confirm --resume        go on with an experiment that was cut
  diagnose confirm --rollback      bring back the server of an experiment that was cut
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
    add_server(options)
    change = options.add_argument_group("the change, instead of a log's fix")
    for name, words in (
        ("--set-flag", "FLAG[=VALUE]"), ("--unset-flag", "FLAG"), ("--set-env", "NAME=VALUE"), ("--unset-env", "NAME"),
    ):  # fmt: skip
        change.add_argument(name, metavar=words)
    add_load(options)
    add_consent(options)
    options.add_argument(
        "--keep-fix", action="store_true", help="leave the change in place if it is confirmed"
    )
    options.add_argument(
        "--chain", action="store_true", help="a start that fails gets the fix of its own cause next"
    )
    options.add_argument("--resume", action="store_true", help="go on with the experiment that was cut last")
    options.add_argument(
        "--rollback", action="store_true", help="bring back the server of an experiment that was cut"
    )
    options.add_argument("--watch", nargs=2, metavar=("JOURNAL", "PID"), help=argparse.SUPPRESS)
    return options


def add_server(options: argparse.ArgumentParser) -> None:
    """The options that say which server it is."""
    group = options.add_argument_group("the server")
    group.add_argument("--url", help="where it answers, as seen from its machine or from here")
    group.add_argument("--host", metavar="HOST", help="its machine, as ssh takes it (default: this one)")
    group.add_argument("--pid", type=int, metavar="N", help="its running process")
    group.add_argument("--command", metavar="CMD", help="the command that starts it, if it does not run")
    group.add_argument("--unit", metavar="UNIT", help="its systemd unit")
    group.add_argument("--user-unit", metavar="UNIT", help="its unit of the user's own manager")
    group.add_argument("--container", metavar="NAME", help="its container of docker or podman")
    group.add_argument("--launcher", metavar="CMD", help="a command that starts it: CMD start|stop|alive|log")
    group.add_argument("--sudo", action="store_true", help="ask systemd, docker or podman with sudo -n")
    group.add_argument("--env", action="append", metavar="NAME=VALUE", help="a variable for --command")
    group.add_argument("--cwd", metavar="DIR", help="the folder for --command")


def add_load(options: argparse.ArgumentParser) -> None:
    """The options that say what is measured."""
    group = options.add_argument_group("what is measured")
    group.add_argument("--workload", help="what to measure (default: what exercises the cause)")
    group.add_argument("--metric", help="the metric that decides (default: the workload's)")
    for name in ("prompt-tokens", "output-tokens", "concurrency", "requests", "runs"):
        group.add_argument(f"--{name}", type=int, metavar="N")
    group.add_argument(
        "--gap", metavar="PERCENT", help="the loss that the change should explain, such as 6.7"
    )


def add_consent(options: argparse.ArgumentParser) -> None:
    """The options without which nothing is done."""
    group = options.add_argument_group("consent")
    group.add_argument("--apply", action="store_true", help="do it: the server is stopped and started")
    group.add_argument("--yes", action="store_true", help="do not ask; needs --host with the machine's name")
    group.add_argument("--allow-serving", action="store_true", help="go on although others use the server")
    group.add_argument(
        "--dead-man",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="over SSH: the machine restores itself when nothing was heard from here for so long (default: 60)",
    )


_TAKES_OPTIONS = ("--set-flag", "--unset-flag", "--command", "--launcher", "--good", "--bad")


def joined(arguments: list[str]) -> list[str]:
    """``--set-flag --tp=8`` as ``--set-flag=--tp=8``: what follows is a value, though it looks like an option."""
    found: list[str] = []
    for word in arguments:
        if found and found[-1] in _TAKES_OPTIONS:
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found


def run(arguments: list[str]) -> int:
    """See the epilog for exit codes."""
    options = _parser().parse_args(joined(arguments))
    from diagnoser.cli.confirm_plan import hands_of, plan_of, refused
    from diagnoser.experiment.hands import HandsError
    from diagnoser.experiment.journal import BusyError
    from diagnoser.sources.hosts.channel import ChannelError

    if options.watch:
        return _watch(Path(options.watch[0]), int(options.watch[1]))
    try:
        if options.rollback:
            return _roll_back()
        if options.resume:
            return _resume()
        hands = hands_of(options)
        made = plan_of(options, hands)
        if isinstance(made, str):
            return fail(made, PROGRAM)
        _tell(made)
        if not options.apply:
            print("\nThis is the plan; nothing was done. --apply does it.")
            return 0
        sentence = refused(made, options, hands)
        if sentence is not None:
            fail(sentence, PROGRAM)
            return VOID
        from diagnoser.agent.causes import READER
        from diagnoser.experiment.confirm import run as experiment

        return _conclude(experiment(made, hands, say, READER))
    except BusyError as error:
        fail(str(error), PROGRAM)
        return VOID
    except (ChannelError, HandsError) as error:
        return fail(str(error), PROGRAM)
    except OSError as error:
        return fail(f"{error.filename}: no journal can be kept: {error.strerror}; nothing was done", PROGRAM)


def say(words: str) -> None:
    """Tell what goes on."""
    from diagnoser.sources import printable

    print(f"  {printable(words)}", file=sys.stderr, flush=True)


def _tell(plan: "Plan") -> None:
    from diagnoser.experiment.change import told
    from diagnoser.experiment.plan import smallest_seen
    from diagnoser.experiment.statistics import LOOK_LEVELS

    first = "as it runs" if plan.was_up else "started by this"
    load = plan.load
    rate = f"{load.concurrency} at a time" if load.rate_per_s is None else f"{load.rate_per_s:g} a second"
    what = told(plan.changes) if plan.changes else "whatever the log asks for"
    print(f"Plan: {what}, on {plan.host}")
    print(f"  A         {plan.launcher.original[:600]} ({first})")
    print(f"  B         the same with {what}")
    if plan.chain:
        print("  chain     a start that fails gets the fix of its own cause, up to four times")
    print(
        f"  order     A B, then A B and A B again while the verdict is open; {load.runs} runs a launch after warm-ups"
    )
    print(f"  load      {plan.workload}: {load.prompt_tokens} tokens in, {load.output_tokens} out, {rate}")
    print(f"  decides   {plan.metric}")
    print(f"  noise     {plan.noise.floor:.2%} between launches, {_learned(plan)}")
    seen = ", ".join(f"{value:.1%}" for value in smallest_seen(plan))
    print(f"  seen      a change of {seen} after 1, 2, 3 pairs, in 4 of 5 cases, if runs scatter by 1 %")
    if plan.gap and plan.gap < smallest_seen(plan)[-1]:
        print(f"  warning   the gap of {plan.gap:.1%} is smaller than what three pairs can see")
    most = 2 * len(LOOK_LEVELS)
    print(f"  restarts  {'2 to ' + str(most) if plan.was_up else '3 to ' + str(most + 1)}", end="")
    print(
        ", then nothing runs, as before" if plan.ends_down else ", the last brings the original back", end=""
    )
    print(" unless the change is confirmed" if plan.keep_fix else "")
    ways = "death of this process" if not plan.remote else f"{plan.dead_man_s:.0f} s without a word from here"
    print(f"  undo      by itself on an error, Ctrl-C or {ways}; by hand: diagnose confirm --rollback")


def _learned(plan: "Plan") -> str:
    from diagnoser.experiment.statistics import PRIOR_DF

    earlier = plan.noise.df - PRIOR_DF
    return "as nothing is known of this machine" if earlier <= 0 else "as learned from earlier launches here"


def _conclude(outcome: "Outcome") -> int:
    from diagnoser.experiment.change import told
    from diagnoser.experiment.statistics import Verdict

    codes: dict[Any, int] = {
        Verdict.CONFIRMED: 0, Verdict.REFUTED: REFUTED, Verdict.HARMFUL: HARMFUL, Verdict.INCONCLUSIVE: INCONCLUSIVE,
        Verdict.VOID: VOID, None: ROLLED_BACK,
    }  # fmt: skip
    last, plan = outcome.last, outcome.plan
    print()
    if outcome.verdict is not None:
        print(f"{outcome.verdict.value.capitalize()}: {told(plan.changes)}")
    if outcome.verdict is Verdict.CONFIRMED and last is None:
        print("  as found the server does not start; with the change it does")
    if plan.base and last is not None:
        print(f"  both arms were started with {told(plan.base)}; without, the server does not start")
    if last is not None:
        found = last.interval
        print(f"  {plan.metric} better by {effect_text(found.effect, found.low, found.high)}")
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
    for note in outcome.notes[:MAX_NOTES]:
        print(f"  note      {note}")
    if len(outcome.notes) > MAX_NOTES:
        print(f"  and {len(outcome.notes) - MAX_NOTES} notes more, in {outcome.journal}")
    if last is not None:
        print(f"  report    diagnose LOG --report incident.html --proof {shlex.quote(str(outcome.journal))}")
    if outcome.restored is None:
        print("  the server runs with the change; undo: start it as it was")
        return codes[outcome.verdict]
    if not outcome.restored:
        print("  THE ORIGINAL SERVER IS NOT BACK. Try `diagnose confirm --rollback`, or by hand:")
        print(f"  {plan.launcher.original}")
        if plan.remote:
            wait = f"{plan.dead_man_s:.0f} s"
            print(
                f"  If {plan.host} is only out of reach, its dead-man brings the server back {wait} after it lost us."
            )
        return ROLLBACK_FAILED
    print("  nothing runs, as before" if plan.ends_down else "  the original server runs again")
    return codes[outcome.verdict]


def _reach(plan: "Plan") -> "Hands":
    from diagnoser.experiment.hands import over_ssh, this_machine

    return over_ssh(plan.host) if plan.remote else this_machine()


def _roll_back() -> int:
    from diagnoser.agent.causes import READER
    from diagnoser.experiment import journal
    from diagnoser.experiment.recovery import roll_back

    files = journal.pending()
    if not files:
        print("no experiment is open; nothing was done")
        return 0
    for file in files:
        if not roll_back(file, _reach, say, READER):
            fail(
                f"the server of {file} could not be brought back; the plan is in the first line",
                PROGRAM,
            )
            return ROLLBACK_FAILED
        print(f"{file.stem}: the original server runs again")
    return 0


def _resume() -> int:
    from diagnoser.agent.causes import READER
    from diagnoser.experiment import journal
    from diagnoser.experiment.plan import Plan
    from diagnoser.experiment.recovery import NothingError, resume

    files = journal.resumable()
    if not files:
        return fail("no experiment was cut before its verdict; there is nothing to go on with", PROGRAM)
    file = files[-1]
    plan = Plan.from_plain(journal.read(file)[0]["plan"])
    _tell(plan)
    try:
        return _conclude(resume(file, _reach, say, READER))
    except NothingError as error:
        return fail(str(error), PROGRAM)


def _watch(file: Path, pid: int) -> int:
    from diagnoser.agent.causes import READER
    from diagnoser.experiment.journal import Process, started_at
    from diagnoser.experiment.recovery import watch

    started = started_at(pid)
    return 0 if watch(file, Process(pid, started or 0), _reach, say, READER) else ROLLBACK_FAILED
