"""A log that is being written, diagnosed as it grows."""

import time
from collections.abc import Callable
from typing import NamedTuple

from diagnoser.agent.session import Options
from diagnoser.inference.catalog import Catalog
from diagnoser.inference.diagnose import Judged, judge_readings
from diagnoser.inference.diagnosis import Finding
from diagnoser.inference.reading import Reader
from diagnoser.inference.unwrapping import Strip, wrappers
from diagnoser.sources import clean, label, record_start
from diagnoser.sources.tails import Tail

POLL_S = 0.25
REST = 2
"""After judging there is a pause of at least so many times what it took: at most a third of one core is used."""

SETTLED_S = 0.5
"""A last line without its end is read after so long without a change: a server that died may leave one."""

_MOST_RECORD = 1 << 20
_MOST_NOTES = 8
_LOOK_BACK = 500


class Followed(NamedTuple):
    """How it stands. lines: read so far, through all files of the name."""

    judged: Judged
    lines: int


class Follower:
    """Facts of a growing text in bounded memory.

    The last record is kept apart until the next one begins, because a traceback is written line by line: it is read
    again with each look, everything before it once.
    """

    def __init__(self, catalog: Catalog, name: str, host: str | None, options: Options) -> None:
        self._catalog = catalog
        self._options = options
        self._limits = options.limits
        self._reader = Reader(catalog, label(name), host, options.year)
        self._strip: Strip | None = None
        self._record = b""
        self._open = b""
        self._too_long = False
        self._first_line = 1
        self._notes: list[str] = []

    @property
    def lines(self) -> int:
        return self._first_line - 1 + self._record.count(b"\n")

    def begin_anew(self, event: str) -> None:
        """The file was replaced or cut: what is held of its end is complete, and line numbers count on."""
        self.feed(b"\n" if self._open else b"")
        self._commit(len(self._record))
        if len(self._notes) < _MOST_NOTES:
            self._notes.append(f"{event} behind line {self.lines}; lines are counted on")

    def feed(self, data: bytes) -> None:
        """Take in what was written."""
        text = self._open + data
        if self._too_long:
            # The rest of a line of which enough was kept.
            _, newline, behind = data.partition(b"\n")
            self._too_long = not newline
            text = self._open + newline + behind
        cut = text.rfind(b"\n") + 1
        text, self._open = text[:cut], text[cut:]
        if len(self._open) > self._limits.line_bytes:
            self._open, self._too_long = self._open[: self._limits.line_kept_bytes], True
        if not text:
            return
        self._record += self._bare(text)
        self._commit(_last_record(self._record) if len(self._record) < _MOST_RECORD else len(self._record))

    def _bare(self, text: bytes) -> bytes:
        text = clean(text)
        if self._strip is None:
            self._strip = Strip(wrappers(text))
        return self._strip(text, last=False) if self._strip.kinds else text

    def _commit(self, size: int) -> None:
        text, self._record = self._record[:size], self._record[size:]
        if text:
            self._reader.feed(text, self._first_line, last=False)
            self._first_line += text.count(b"\n")

    def judge(self, *, settled: bool = False) -> Judged:
        """The diagnosis of everything so far. settled: a line without its end counts too."""
        options = self._options
        before = self._reader.reading
        behind = Reader(self._catalog, before.name, before.host, options.year, self._reader.held)
        text = self._record
        if settled and self._open:
            text += self._bare(self._open + b"\n")
        behind.feed(text, self._first_line, last=True)
        reading = before.merge(behind.reading)
        reading.notes = [*reading.notes, *self._notes]
        return judge_readings(
            [reading], self._catalog.pack, launch=options.launch, with_facts=options.with_facts
        )


def _last_record(text: bytes) -> int:
    """Where the last record begins."""
    at = len(text)
    for _ in range(_LOOK_BACK):
        start = text.rfind(b"\n", 0, max(at - 1, 0)) + 1
        if record_start(text[start : start + 200]):
            return start
        if not start:
            break
        at = start
    return 0


def follow(
    tail: Tail,
    follower: Follower,
    show: Callable[[Followed], None],
    *,
    going: Callable[[], bool] = lambda: True,
) -> None:
    """Read, judge and show until ``going`` says no. Raises SourceError when the file can be read no more."""
    changed_at = time.monotonic()
    due, settled = True, True
    while going():
        fresh = tail.read()
        if fresh.event:
            follower.begin_anew(fresh.event)
        now = time.monotonic()
        if fresh.data or fresh.event:
            follower.feed(fresh.data)
            changed_at, due, settled = now, True, False
        if not settled and not fresh.data and now - changed_at > SETTLED_S:
            due = settled = True
        took = 0.0
        # A backlog is read first; it is shown now and then, for it may be long.
        if due and (len(fresh.data) < BACKLOG_BYTES or now - changed_at > 1):
            began = time.monotonic()
            show(Followed(follower.judge(settled=settled), follower.lines))
            took, due = time.monotonic() - began, False
        if len(fresh.data) < BACKLOG_BYTES:
            time.sleep(max(POLL_S, REST * took))


BACKLOG_BYTES = 1 << 20
"""Who gives so much at a time has more."""


class Change(NamedTuple):
    """A finding that is new, or one that no longer holds (event "gone")."""

    event: str
    finding: Finding


def changes(before: dict[str, Finding], judged: Judged) -> tuple[list[Change], dict[str, Finding]]:
    """What is new since the last look, and what there is now: roots and consequences above info."""
    now = {one.rule: one for one in judged.diagnosis.causes}
    came = [Change("found", one) for rule, one in now.items() if rule not in before]
    went = [Change("gone", one) for rule, one in before.items() if rule not in now]
    return came + went, now
