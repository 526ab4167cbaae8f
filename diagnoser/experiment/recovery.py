"""After a death: bringing the server back, and going on with an experiment that was cut."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from diagnoser.experiment import journal
from diagnoser.experiment.confirm import Experiment, Outcome
from diagnoser.experiment.hands import Hands
from diagnoser.experiment.journal import ENDINGS, BusyError, Journal, Process
from diagnoser.experiment.outpost import Outpost
from diagnoser.experiment.plan import Plan
from diagnoser.experiment.starting import Reader, Told

WAIT_S = 600.0
"""How long a watcher that brings the server back right now is waited for."""

Reach = Callable[[Plan], Hands]


class NothingError(RuntimeError):
    """There is nothing to go on with; the message is one sentence."""


def roll_back(file: Path, reach: Reach, told: Told, reader: Reader, *, wait_s: float = WAIT_S) -> bool:
    """Undo a pending experiment; whether its server is back.

    Raises `BusyError` while it is under way, `ChannelError` when its machine cannot be reached.
    """
    kept = Journal(file, wait_s=_patience(file, wait_s))
    try:
        events = kept.events()
        if events[-1]["event"] in ENDINGS:
            return True
        work = _again(kept, reach, told, reader)
        if not any(event["event"] in ("stopping", "starting") for event in events):
            work.outpost.end()
            kept.note("restored", why="nothing was touched")
            return True
        with ExitStack() as stack:
            work.open(stack)
            return work.restore()
    finally:
        kept.close()


def resume(file: Path, reach: Reach, told: Told, reader: Reader) -> Outcome:
    """Go on with an experiment that was cut before its verdict.

    Raises `NothingError` where there is nothing to go on with, `BusyError` while it is under way, `ChannelError` or
    `HandsError` when its machine cannot be reached or prepared.
    """
    kept = Journal(file, wait_s=_patience(file, WAIT_S))
    try:
        events = kept.events()
        if any(event["event"] in journal.CONCLUDED for event in events):
            raise NothingError(f"the experiment {file.stem} is concluded; there is nothing to go on with")
        work = _again(kept, reach, told, reader)
        if not work.plan.remote:
            watcher(file)
        return work.go_on(events)
    finally:
        kept.close()


def _patience(file: Path, wait_s: float) -> float:
    """Who holds the journal is waited for, unless it is the experiment itself that is under way."""
    controllers = [event["controller"] for event in journal.read(file) if "controller" in event]
    if controllers and Process(*controllers[-1]).alive() and controllers[-1] != list(journal.ourselves()):
        raise BusyError(f"the experiment {file.stem} is under way in another process")
    return wait_s


def _again(kept: Journal, reach: Reach, told: Told, reader: Reader) -> Experiment:
    events = kept.events()
    plan = Plan.from_plain([event["plan"] for event in events if "plan" in event][-1])
    return Experiment(plan, Outpost(reach(plan), plan.launcher, events[0]["folder"]), kept, told, reader)


def watcher(file: Path) -> None:
    """Start a process that waits for the end of this one and undoes the experiment if nobody else did."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (file.parent / "watcher.log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "diagnoser", "confirm", "--watch", str(file), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def watch(file: Path, process: Process, reach: Reach, told: Told, reader: Reader) -> bool:
    """Wait for the end of a process; then undo its experiment, if it is still to be undone."""
    while process.alive():
        time.sleep(0.5)
    events = journal.read(file)
    if not events or events[-1]["event"] in ENDINGS:
        return True
    try:
        return roll_back(file, reach, told, reader, wait_s=0.0)
    except BusyError:
        return True  # somebody does it by hand, or goes on
