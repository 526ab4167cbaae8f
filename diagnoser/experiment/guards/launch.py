"""The guards of an experiment from launch to launch: clean GPUs, one server but for the change, clocks."""

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from diagnoser.experiment.change import Changes
from diagnoser.experiment.guards import clean, clocks, identity
from diagnoser.experiment.guards.gpus import Smi, State
from diagnoser.experiment.guards.watch import Watch
from diagnoser.experiment.load.bench import Plan as Load
from diagnoser.experiment.load.guards import Finding
from diagnoser.experiment.measuring import Measured, VoidError
from diagnoser.experiment.results import Identity
from diagnoser.experiment.starting import Log
from diagnoser.experiment.statistics import Arm

CLEAN_S = 60.0
"""How long a driver may take to give back the memory of a server that ended."""


class Record(NamedTuple):
    """What a launch was, to hold the later ones against."""

    arm: Arm
    identity: Identity
    ran: dict[str, clocks.Ran]

    def plain(self) -> dict[str, Any]:
        """As it is kept in a journal."""
        return {
            "arm": self.arm.value,
            "identity": self.identity.model_dump(),
            "ran": {uuid: list(one) for uuid, one in self.ran.items()},
        }

    @staticmethod
    def from_plain(kept: dict[str, Any]) -> "Record":
        """A record as `plain` gave it."""
        ran = {uuid: clocks.Ran(*one) for uuid, one in kept["ran"].items()}
        return Record(Arm(kept["arm"]), Identity(**kept["identity"]), ran)


class LaunchGuard:
    """Told of every step of an experiment. notes: what was said that made nothing void."""

    def __init__(self, smi: Smi, load: Load, told: Callable[[str], None], clean_s: float = CLEAN_S) -> None:
        self._smi = smi
        self.streams(load)
        self._told = told
        self._clean_s = clean_s
        self._first: State | None = None
        self._before: State | None = None
        self._ours: State | None = None
        self._used: frozenset[str] | None = None
        self._log: Log | None = None
        self.mixed = False
        """Launches of B differ among themselves: only A's are held against each other."""
        self.records: list[Record] = []
        self.notes: list[str] = []

    def streams(self, load: Load) -> None:
        """How many requests of ours are open at a time."""
        self._streams = load.concurrency if load.rate_per_s is None else None

    def found_running(self, log: Log | None) -> None:
        """A server that ran before us."""
        self._ours = self._first = self._smi.state()
        self._log = log

    def stopping(self) -> None:
        """The last look at a server that is about to be stopped."""
        self._ours = self._smi.state() if self._first is not None else None

    def before_start(self, name: str) -> None:
        """Wait until the GPUs are free. Raises `VoidError` where they do not become so, `ChannelError`."""
        deadline = time.monotonic() + self._clean_s
        while True:
            state = self._before = self._smi.state()
            if state is None:
                return
            self._first = self._first or state
            if self._used is None and self._ours is not None:
                # What a server left when it ended was its own.
                self._used = clean.used_by(state, self._ours) or None
            found = clean.before_start(state, self._used, self._first)
            if not any(one.level == "void" for one in found) or time.monotonic() > deadline:
                break
            time.sleep(1)
        self._hear(name, found)

    def ready(self, name: str, log: Log | None) -> None:
        """A server that has just come up. Raises `VoidError` where it took GPUs that were not free."""
        self._log = log
        self._ours = self._smi.state() if self._before is not None else None
        if self._ours is None or self._before is None:
            return
        used = clean.used_by(self._before, self._ours)
        if used and self._used is None:
            self._used = used
            self._hear(name, clean.before_start(self._before, used, self._first))

    def watch(self) -> Watch:
        return Watch(self._smi, self._ours, self._used or frozenset(), self._log, self._streams)

    def judge(self, name: str, arm: Arm, measured: Measured, changes: Changes) -> Record:
        """Hold a launch against the first of each arm. Raises `VoidError` with the guard that makes it void."""
        record = Record(arm, measured.identity, measured.ran)
        found = list(measured.findings)
        kept = [Finding(one.guard, "warn" if one.level == "void" else one.level, one.text) for one in found]
        self._hear(name, kept)  # what voided runs only was answered by other runs
        for other in _firsts(self.records):
            if self.mixed and other.arm is arm is Arm.B:
                continue
            between = () if other.arm is arm else changes
            self._hear(name, identity.same(other.identity, record.identity, between))
            if other.arm is not arm and (missed := identity.took(other.identity, record.identity, changes)):
                self._hear(name, [missed])
            if other.ran and record.ran:
                self._hear(name, clocks.alike(other.ran, record.ran))
        self.records.append(record)
        return record

    def _hear(self, name: str, found: Iterable[Finding]) -> None:
        for one in found:
            words = f"{name}: {one.guard}: {one.text}"
            if one.level == "void":
                raise VoidError(words)
            if words not in self.notes:
                self.notes.append(words)
                self._told(words)


def _firsts(records: list[Record]) -> list[Record]:
    """The first launch of each arm."""
    return list({record.arm: record for record in reversed(records)}.values())
