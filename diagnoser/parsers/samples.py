"""What the readers of series share: values on their way into a store, and the stamps of their lines."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby
from operator import itemgetter

from diagnoser.facts.loads import group
from diagnoser.facts.series import SeriesStore
from diagnoser.facts.sketch import SCALE
from diagnoser.parsers.prefix import read_prefix

MAX_PREFIX = 200
"""Bytes in front of a metric in which its line's prefix is looked for."""

MIN_PREFILL_TOKENS = 128
"""Smaller prefills are too short for a rate."""

_FLOAT = rb"(\d{1,9}(?:\.\d{1,6})?)"
_OTHER = rb"(?:[#A-Za-z][\w# /.()-]{1,48}: [\w.%]{1,16}, )"


@cache
def pattern(source: bytes) -> re.Pattern[bytes]:
    """A bytes pattern in which ``<n>`` captures a number and ``<other>`` is a field that is not looked at."""
    return re.compile(source.replace(b"<n>", _FLOAT).replace(b"<other>", _OTHER))


class Samples:
    """Lists of values by metric and number of running requests, with byte offsets for lines."""

    def __init__(self, store: SeriesStore) -> None:
        self._store = store
        self._lists: defaultdict[tuple[str, int | None], tuple[list[int], list[int]]] = defaultdict(
            _two_lists
        )
        self._trends: defaultdict[str, tuple[list[float], list[int]]] = defaultdict(_two_trends)

    def put(self, metric: str, value: int, offset: int, running: int | None = None) -> None:
        values, offsets = self._lists[metric, None if running is None else group(running)]
        values.append(value)
        offsets.append(offset)

    def put_trend(self, metric: str, value: int, at: float | None) -> None:
        if at is not None:
            times, values = self._trends[metric]
            times.append(at)
            values.append(value)

    def flush(self) -> None:
        for (metric, running), (values, offsets) in self._lists.items():
            self._store.sketch(metric, running).extend(values, offsets)
        for metric, (times, values) in self._trends.items():
            minutes = [int(at) // 60 for at in times]
            for minute, members in groupby(zip(minutes, values, strict=True), key=itemgetter(0)):
                chosen = [value for _, value in members]
                self._store.trend(metric).add(minute, len(chosen), sum(chosen))
        self._lists.clear()
        self._trends.clear()


def _two_lists() -> tuple[list[int], list[int]]:
    return [], []


def _two_trends() -> tuple[list[float], list[int]]:
    return [], []


def millionths(text: bytes) -> int:
    """A number as printed, in the store's unit."""
    return round(float(text) * SCALE)


class Memo(dict[bytes, int]):
    """Texts -> what a function makes of them, where few texts come again and again."""

    def __init__(self, read: Callable[[bytes], int]) -> None:
        self._read = read

    def __missing__(self, text: bytes) -> int:
        if len(self) > 100_000:
            self.clear()
        value = self[text] = self._read(text)
        return value


def found(buffer: bytes, literal: bytes) -> Iterator[int]:
    """Where the literal stands: far faster than a pattern where it is rare."""
    at = buffer.find(literal)
    while at >= 0:
        yield at
        at = buffer.find(literal, at + len(literal))


def matches(source: bytes, literal: bytes, buffer: bytes) -> Iterator[re.Match[bytes]]:
    """Matches of a `pattern` that begins with the literal, none overlapping."""
    at = buffer.find(literal)
    while at >= 0:
        match = pattern(source).match(buffer, at)
        if match is not None:
            yield match
        at = buffer.find(literal, match.end() if match else at + len(literal))


def line_time(buffer: bytes, offset: int, year: int | None) -> tuple[float | None, str]:
    """Time and rank of the line around an offset."""
    start = buffer.rfind(b"\n", max(0, offset - MAX_PREFIX), offset) + 1
    if start == 0 and offset > MAX_PREFIX:
        return None, ""
    prefix = read_prefix(buffer[start : offset + 40].decode("utf-8", "replace"), year)
    return prefix.at, prefix.rank or ""
