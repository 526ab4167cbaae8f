"""Looks at the machine once a second while a launch is measured, and judges each run by what was seen meanwhile."""

import threading
import time
from contextlib import suppress
from typing import NamedTuple

from diagnoser.experiment.guards import clean, clocks, window
from diagnoser.experiment.guards.gpus import Smi, State
from diagnoser.experiment.load.bench import Progress
from diagnoser.experiment.load.guards import Finding
from diagnoser.experiment.starting import Log
from diagnoser.sources.hosts.channel import ChannelError

EVERY_S = 1.0


class _Span(NamedTuple):
    number: int
    begin_s: float
    end_s: float
    log_begin: int
    log_end: int


class Watch:
    """Use as a context manager around the runs; `show` is told of their progress.

    ours: the GPUs when the server was ready; used: which of them are its own. log: the server's, where it is known.
    """

    def __init__(
        self, smi: Smi, ours: State | None, used: frozenset[str], log: Log | None, streams: int | None
    ) -> None:
        self._smi = smi
        self._ours = ours
        self._used = used
        self._log = log
        self._streams = streams
        self._samples: list[tuple[float, State]] = []
        self._spans: list[_Span] = []
        self._open: tuple[float, int] = (0.0, 0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go, daemon=True)

    def __enter__(self) -> "Watch":
        if self._ours is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(30)

    def show(self, progress: Progress) -> None:
        """The begin and the end of each run."""
        if progress.phase != "run":
            return
        if progress.finished is not None:
            begin_s, log_begin = self._open
            self._spans.append(_Span(progress.number, begin_s, time.monotonic(), log_begin, self._pulled()))
        elif progress.done == 0:
            self._open = (time.monotonic(), self._pulled())

    def judged(self) -> list[tuple[int, Finding]]:
        """What was seen during each run, by its number."""
        found: list[tuple[int, Finding]] = []
        for span in self._spans:
            states = self._between(span.begin_s, span.end_s)
            if self._ours is not None:
                found += [(span.number, one) for one in clocks.held_back(states, self._used)]
                found += [(span.number, one) for one in clean.strangers(states, self._ours, self._used)]
            if self._log is not None:
                text = self._log.since(span.log_begin, span.log_end)
                found += [(span.number, one) for one in window.judged(text, self._streams)]
        return found

    def ran(self) -> dict[str, clocks.Ran]:
        """How the server's GPUs ran during the runs."""
        states = [state for span in self._spans for state in self._between(span.begin_s, span.end_s)]
        return clocks.ran(states, self._used)

    def _between(self, begin_s: float, end_s: float) -> list[State]:
        """The samples of a span, or the one next to a span that was shorter than the wait between two."""
        inside = [state for at, state in self._samples if begin_s <= at <= end_s]
        if inside or not self._samples:
            return inside
        return [min(self._samples, key=lambda one: abs(one[0] - (begin_s + end_s) / 2))[1]]

    def _pulled(self) -> int:
        if self._log is None:
            return 0
        with suppress(ChannelError):  # the next step tells of a lost machine
            self._log.pull()
        return self._log.size

    def _go(self) -> None:
        while not self._ended.is_set():
            with suppress(ChannelError):
                state = self._smi.state("look at the GPUs while it is measured")
                if state is not None:
                    self._samples.append((time.monotonic(), state))
            self._ended.wait(EVERY_S)
