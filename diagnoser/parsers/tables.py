"""Columns of numbers on their way into a store: what `samples.Samples` does value by value, done for whole arrays."""

from typing import Any

from diagnoser.facts.loads import CELL, CONTEXTS, group
from diagnoser.facts.series import SeriesStore
from diagnoser.facts.sketch import extend_arrays

NONE = -1
"""A line that does not have the value; values are never negative."""

MAX_VALUE = 10**13
"""Larger values (in millionths) could overflow a sum; such buffers are read value by value."""


class Unfit(Exception):  # noqa: N818 - no error: the other way of reading is taken
    """This buffer cannot be read in columns with the same result."""


class Table:
    """Lines in the order of the text, by column, with the store that they are counted in.

    minute: minutes since the epoch of each line, `NONE` where the time is not known.
    """

    def __init__(self, np: Any, store: SeriesStore, minute: Any) -> None:
        self._np = np
        self._store = store
        self._minute = minute

    def put(self, metric: str, values: Any, offsets: Any) -> None:
        """A column into its sketch; lines without the value are left out."""
        has = values >= 0
        if not has.all():
            values, offsets = values[has], offsets[has]
        if len(values):
            extend_arrays(self._np, [self._store.sketch(metric)], self._np.zeros(1, int), values, offsets)

    def put_trend(self, metric: str, values: Any, where: Any = None) -> None:
        """A column into the means of its minutes, line after line in stretches of one minute."""
        np = self._np
        has = (values >= 0) & (self._minute >= 0)
        if where is not None:
            has &= where
        minutes, values = self._minute[has], values[has]
        if not len(values):
            return
        begins = np.flatnonzero(np.diff(minutes, prepend=NONE))
        totals = np.add.reduceat(values, begins).tolist()
        counts = np.diff(begins, append=len(values)).tolist()
        trend = self._store.trend(metric)
        for minute, count, total in zip(minutes[begins].tolist(), counts, totals, strict=True):
            trend.add(minute, count, total)

    def put_by_running(self, metric: str, values: Any, running: Any, offsets: Any, where: Any) -> None:
        """A column into the sketches of its numbers of running requests (in millionths), where it is to count."""
        where = where & (values >= 0)
        values, running, offsets = values[where], running[where], offsets[where]
        if not len(values):
            return
        self._put_by(metric, self._groups(running), values, offsets)

    def put_by_load(
        self, metric: str, values: Any, running: Any, tokens: Any, offsets: Any, where: Any
    ) -> None:
        """The same, by the tokens that these requests hold too (in millionths, `NONE` where it is not told)."""
        np = self._np
        where = where & (values >= 0)
        values, running, tokens, offsets = values[where], running[where], tokens[where], offsets[where]
        if not len(values):
            return
        numbers = self._groups(running)
        at_once = running // 1_000_000
        known = (tokens >= 0) & (at_once > 0)
        each = tokens // 1_000_000 // np.maximum(at_once, 1)
        places = np.where(known, np.searchsorted(np.array(CONTEXTS), each, side="right"), 0)
        self._put_by(metric, places * CELL + numbers, values, offsets)

    def _groups(self, running: Any) -> Any:
        np = self._np
        kinds, index = np.unique(running, return_inverse=True)
        return np.array([group(int(kind) // 1_000_000) for kind in kinds.tolist()])[index]

    def _put_by(self, metric: str, numbers: Any, values: Any, offsets: Any) -> None:
        np = self._np
        order = np.argsort(numbers, kind="stable")
        numbers, values, offsets = numbers[order], values[order], offsets[order]
        begins = np.flatnonzero(np.diff(numbers, prepend=NONE))
        sketches = [self._store.sketch(metric, number) for number in numbers[begins].tolist()]
        extend_arrays(np, sketches, begins, values, offsets)
