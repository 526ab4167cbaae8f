"""From a start to a server that generates: its log is read while we wait, and a start that failed is told at once."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from diagnoser.experiment.change import Changes
from diagnoser.experiment.hands import HandsError
from diagnoser.experiment.launchers.base import GRACE_S, KILL_S
from diagnoser.experiment.outpost import Outpost
from diagnoser.sources.hosts.channel import MIB

NO_PROGRESS_S = 180.0
"""A start that prints nothing for so long has stopped."""

PORT_S = 30.0
"""How long a port may stay taken after its server ended."""


class Diagnosed(NamedTuple):
    """What a log says ends a start. fix: the change that its rule proposes, if a restart alone applies it."""

    rule: str
    title: str
    fix: Changes = ()


class Proposal(NamedTuple):
    """What to put to the test, and the workload that exercises the cause."""

    rule: str
    changes: Changes
    workload: str


class Reader(NamedTuple):
    """Reads a server's log. fatal: what ends its start, if anything does. slow: what should be put to the test."""

    fatal: Callable[[Path], Diagnosed | None]
    slow: Callable[[Path], Proposal | None]


Told = Callable[[str], None]


class StartError(RuntimeError):
    """A server that did not come up. diagnosed: what its log says about it, where that is known."""

    def __init__(self, sentence: str, diagnosed: Diagnosed | None = None) -> None:
        super().__init__(sentence)
        self.diagnosed = diagnosed


class Log:
    """Our copy of a server's log, fetched piece by piece.

    size: bytes so far. there: the file on the machine, for launchers that have no other place.
    """

    def __init__(self, outpost: Outpost, name: str, copy: Path, there: str | None = None) -> None:
        self._outpost = outpost
        self.name = name
        self.copy = copy
        self.size = 0
        self.there = there or outpost.log(name)
        self._skipped = 0

    def skip(self) -> None:
        """Leave out what is there already: the log of a server that has run for long. Raises `ChannelError`."""
        shown = self._outpost.launcher.log(self._outpost.folder, self.there)
        output = self._outpost.hands.run(f"{{ {shown}\n}} 2>/dev/null | wc -c", "see how long the log is")
        self._skipped = int(output.stdout or b"0")

    def pull(self) -> int:
        """Fetch what is new; how many bytes. Raises `ChannelError`."""
        shown = self._outpost.launcher.log(self._outpost.folder, self.there)
        before = self.size
        while True:
            script = f"{{ {shown}\n}} 2>&1 | tail -c +{self._skipped + self.size + 1}"
            output = self._outpost.hands.run(script, "read the server's log", limit_bytes=4 * MIB, often=True)
            if output.stdout:
                with self.copy.open("ab") as file:
                    file.write(output.stdout)
                self.size += len(output.stdout)
            if not output.truncated:
                return self.size - before

    def last_line(self) -> str:
        try:
            with self.copy.open("rb") as file:
                file.seek(max(0, self.size - 4000))
                lines = file.read().decode("utf-8", "replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1][:200] if lines else ""

    def since(self, begin: int, end: int) -> str:
        """The text between two byte offsets of our copy."""
        try:
            with self.copy.open("rb") as file:
                file.seek(begin)
                return file.read(end - begin).decode("utf-8", "replace")
        except OSError:
            return ""


def start(outpost: Outpost, changes: Changes, log: Log) -> None:
    """Start the server with changes. Raises `StartError`, `ChannelError`."""
    try:
        outpost.hands.do(
            outpost.launcher.start(changes, outpost.folder, log.there), "start the server", timeout_s=GRACE_S
        )
    except HandsError as error:
        raise StartError(str(error)) from error


def stop(outpost: Outpost) -> None:
    """End the server. Raises `StartError` when it stays, `ChannelError`."""
    try:
        outpost.hands.do(
            outpost.launcher.stop(outpost.folder), "stop the server", timeout_s=GRACE_S + KILL_S + 10
        )
    except HandsError as error:
        raise StartError(str(error)) from error


def wait_free(outpost: Outpost, port: int) -> None:
    """Wait until nothing listens on a port: what answers later must be the server that we start.

    Raises `StartError`, `ChannelError`.
    """
    deadline = time.monotonic() + PORT_S
    while port in listening(outpost):
        if time.monotonic() > deadline:
            raise StartError(f"port {port} is still in use by another process after the server ended")
        time.sleep(0.25)


def wait_ready(
    outpost: Outpost,
    log: Log,
    answers: Callable[[], bool],
    *,
    budget_s: float,
    told: Told,
    fatal: Callable[[Path], Diagnosed | None],
) -> float:
    """Wait until a server generates; seconds it took.

    answers: asks it for one real completion. fatal: reads the log so far and says what is fatal in it.
    Raises `StartError` when the process ends, a fatal line is read, nothing moves any more, or the time is up.
    """
    begin = moved = time.monotonic()
    alive = outpost.launcher.alive(outpost.folder)
    while True:
        up = outpost.hands.run(alive, "see whether the server runs", often=True).exit_code == 0
        if log.pull():
            moved = time.monotonic()
            told(log.last_line())
        if not up:
            why = fatal(log.copy)
            words = f": {why.title}" if why else f"; the end of its log: {log.last_line() or '(empty)'}"
            raise StartError(f"the server ended while it started{words}", why)
        if answers():
            return time.monotonic() - begin
        now = time.monotonic()
        if now - begin > 1 and log.size and now - moved < 1 and (why := fatal(log.copy)):
            raise StartError(f"the server cannot come up: {why.title}", why)
        if now - moved > NO_PROGRESS_S or now - begin > budget_s:
            raise StartError(f"the server was not ready after {now - begin:.0f} s", fatal(log.copy))
        time.sleep(0.25)


def _sockets(outpost: Outpost) -> list[list[str]]:
    script = "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null; true"
    text = outpost.hands.run(script, "see who uses the port", often=True).stdout.decode()
    return [fields for line in text.splitlines() if len(fields := line.split()) > 3]


def listening(outpost: Outpost) -> set[int]:
    """The ports of the machine on which something listens. Raises `ChannelError`."""
    return {int(one[1].rpartition(":")[2], 16) for one in _sockets(outpost) if one[3] == "0A"}


def connections(outpost: Outpost, port: int) -> int:
    """How many connections a port of the machine holds right now. Raises `ChannelError`."""
    wanted = f":{port:04X}"
    return sum(one[1].endswith(wanted) and one[3] == "01" for one in _sockets(outpost))
