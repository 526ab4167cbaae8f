"""Lines that a server prints again and again with other numbers, read in columns instead of one by one.

A `Shape` is learned from one line that a pattern has matched: its text with the stamp and the numbers taken out.
Patterns treat all digits alike, so every line of the same text with numbers of the same form (digits, or digits
with a fraction, neither too long) is matched by the same pattern in the same way; that is checked for all lines of a
buffer at once, eight bytes at a time. What fits no shape is left to the patterns.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from diagnoser.facts.lazy import lazy
from diagnoser.facts.sketch import SCALE

MAX_LINE = 600
"""Longer lines are left to the patterns."""

MARGIN = 1024
"""Lines that begin so near to the buffer's end are left to the patterns, so that no read passes it."""

MAX_DIGITS = 7
MAX_FRACTION = 6

_NUMBER = lazy(rb"(?<=: )(\d{1,7})(?:\.(\d{1,6}))?(?![\w.])")
_POWERS = (10**6, 10**5, 10**4, 1000, 100, 10, 1, 0, 0)
_ONES = 0x0101010101010101
_HIGH = 0x8080808080808080
_LOW = 0x7F7F7F7F7F7F7F7F
_TO_HIGH = 0x7676767676767676
_ZEROS = 0x3030303030303030
_MAX_POOR = 4


class Stamp(NamedTuple):
    """Where a line has its time: minute_bytes ("2026-02-27 15:38"), then a colon and two digits of seconds.

    form: what the minute must look like.
    """

    start: int
    minute_bytes: int
    form: re.Pattern[bytes]

    @property
    def end(self) -> int:
        return self.start + self.minute_bytes + len(":00")


class Capture(NamedTuple):
    """What a pattern captured in a line: its number, the place of its text, and where the match begins."""

    group: int
    first: int
    last: int
    match: int


@dataclass(frozen=True, slots=True)
class Shape:
    """The text of a line: head, stamp, then texts with numbers between them.

    fields: for each number what captured it (None: nothing) and whether it has a fraction. constants: captured texts
    that are the same in every line of the shape.
    """

    head: bytes
    stamp: Stamp
    texts: tuple[bytes, ...]
    fields: tuple[tuple[Capture | None, bool], ...]
    constants: dict[int, bytes]
    shortest: int


def learn(line: bytes, stamp: Stamp, captures: Sequence[Capture]) -> Shape | None:
    """The shape of a line, which ends with its line end; None where a number stands in an unusual place."""
    wanted = {(one.first, one.last): one for one in captures if one.first >= stamp.end}
    texts: list[bytes] = []
    fields: list[tuple[Capture | None, bool]] = []
    done = stamp.end
    for number in _NUMBER.finditer(line, done):
        texts.append(line[done : number.start()])
        fields.append((wanted.pop(number.span(), None), number[2] is not None))
        done = number.end()
        if any(first < done and last > number.start() for first, last in wanted):
            return None
    texts.append(line[done:])
    if not fields or len(line) > MAX_LINE or not line.endswith(b"\n"):
        return None
    constants = {one.group: line[one.first : one.last] for one in wanted.values()}
    shortest = stamp.end + sum(map(len, texts)) + sum(3 if fraction else 1 for _, fraction in fields)
    return Shape(line[: stamp.start], stamp, tuple(texts), tuple(fields), constants, shortest)


class Rows(NamedTuple):
    """The lines of one shape, in the order of the text.

    starts: where each begins in the buffer. minute: index of its minute's text in `Columns.minutes`. second: 0 to 99.
    values: numbers by group, in millionths. places: where the matches that captured them begin.
    """

    shape: Shape
    starts: Any
    minute: Any
    second: Any
    values: dict[int, Any]
    places: dict[int, Any]


class Columns:
    """A buffer whose lines are looked at as columns.

    starts: where each line begins, and where the last one ends. minutes: the texts of all minutes that were seen.
    margin_bytes: length of the last lines, which no shape takes.
    """

    def __init__(self, np: Any, buffer: bytes | bytearray, starts: Any) -> None:
        self.np = np
        self.minutes: list[bytes] = []
        self._minute_of: dict[bytes, int] = {}
        self._buffer = buffer
        self._starts = np.asarray(starts, dtype=np.int64)
        self._taken = np.zeros(len(self._starts) - 1, dtype=bool)
        usable = int(np.searchsorted(self._starts, max(0, len(buffer) - MARGIN)))
        usable = min(usable, len(self._taken))
        self.margin_bytes = int(self._starts[-1] - self._starts[usable])
        free = np.arange(usable)
        self._free = free[self._starts[free + 1] - self._starts[free] <= MAX_LINE]

    def take(self, shape: Shape) -> Rows | None:
        """The lines of this shape that are not taken yet."""
        np, stamp = self.np, shape.stamp
        lines = self._free
        near = self._words_at(self._starts[lines] + stamp.end, 8)
        lines = lines[_holds(np, near, shape.texts[0][:8])]
        if not len(lines):
            return None
        start, stop = self._starts[lines], self._starts[lines + 1]
        words = self._words_at(start, stamp.end)
        ok = (stop - start >= shape.shortest) & _holds(np, words, shape.head)
        clock = _word(np, words, stamp.start + stamp.minute_bytes)
        tens = (clock >> np.uint64(8) & np.uint64(0xFF)) - np.uint64(ord("0"))
        ones = (clock >> np.uint64(16) & np.uint64(0xFF)) - np.uint64(ord("0"))
        ok &= (clock & np.uint64(0xFF) == ord(":")) & (tens < 10) & (ones < 10)
        first = _word(np, words, stamp.start)
        last = _word(np, words, stamp.start + stamp.minute_bytes - 8)
        at = start + stamp.end
        values: dict[int, Any] = {}
        places: dict[int, Any] = {}
        for text, (capture, fraction) in zip(shape.texts, shape.fields, strict=False):
            words = self._words_at(at, len(text) + 16)
            if text:
                ok &= _holds(np, words, text)
            at = at + len(text)
            if capture is not None:
                places[capture.group] = at - (capture.first - capture.match)
            value, width, good = _number(np, words, len(text), fraction=fraction)
            ok &= good
            at += width
            if capture is not None:
                values[capture.group] = value
        ok &= at + len(shape.texts[-1]) == stop
        ok &= _holds(np, self._words_at(at, len(shape.texts[-1])), shape.texts[-1])
        minute = self._minutes(start + stamp.start, stamp, ok, first, last)
        ok &= minute >= 0
        taken = lines[ok]
        if not len(taken):
            return None
        self._taken[taken] = True
        self._free = self._free[~self._taken[self._free]]
        every = len(taken) == len(lines)
        return Rows(
            shape,
            start if every else start[ok],
            minute if every else minute[ok],
            (tens * np.uint64(10) + ones)[ok].astype(np.int64),
            {group: (column if every else column[ok]).view(np.int64) for group, column in values.items()},
            {group: column if every else column[ok] for group, column in places.items()},
        )

    def _words_at(self, at: Any, length: int) -> list[Any]:
        """The bytes from each place on, at least so many, as columns of eight: one copy a line, whatever the length."""
        np = self.np
        count = (length + 7) // 8
        width = 8 * count
        wide = np.ndarray((max(0, len(self._buffer) - width + 1),), f"V{width}", self._buffer, strides=(1,))
        words = wide[at].view("<u8").reshape(-1, count)
        return [words[:, index] for index in range(count)]

    def _minutes(self, clock: Any, stamp: Stamp, ok: Any, first: Any, last: Any) -> Any:
        """The index of each line's minute; -1 where it is none. Neighbours mostly have the same."""
        np = self.np
        new = ok.copy()
        new[1:] &= ~ok[:-1] | (first[1:] != first[:-1]) | (last[1:] != last[:-1])
        begins = np.flatnonzero(new)
        if not len(begins):
            return np.full(len(ok), -1)
        numbers = [self._minute(stamp, at) for at in clock[begins].tolist()]
        return np.where(ok, np.array(numbers)[np.maximum(np.cumsum(new) - 1, 0)], -1)

    def _minute(self, stamp: Stamp, at: int) -> int:
        text = bytes(self._buffer[at : at + stamp.minute_bytes])
        number = self._minute_of.get(text)
        if number is None:
            number = -1
            if stamp.form.fullmatch(text):
                number = len(self.minutes)
                self.minutes.append(text)
            self._minute_of[text] = number
        return number

    def rest(self) -> "Rest":
        """The lines that are not taken."""
        np = self.np
        edges = np.flatnonzero(np.diff(self._taken, prepend=True, append=True))
        begins, ends = self._starts[edges[::2]], self._starts[edges[1::2]]
        inside = np.concatenate(([0], np.cumsum(ends - begins)))[:-1]
        view = memoryview(self._buffer)
        text = b"".join([view[a:b] for a, b in zip(begins.tolist(), ends.tolist(), strict=True)])
        return Rest(text, inside.tolist(), begins.tolist())


def _word(np: Any, words: list[Any], offset: int) -> Any:
    """The eight bytes at an offset; zeros stand for those behind the last word."""
    index, shift = divmod(offset, 8)
    if not shift:
        return words[index]
    low = words[index] >> np.uint64(8 * shift)
    return low | (words[index + 1] << np.uint64(64 - 8 * shift)) if index + 1 < len(words) else low


def _holds(np: Any, words: list[Any], text: bytes) -> Any:
    """Which of the places begin with this text."""
    same: Any = True
    for index, offset in enumerate(range(0, len(text), 8)):
        part = text[offset : offset + 8]
        word = words[index]
        if len(part) < 8:
            word = word & np.uint64((1 << 8 * len(part)) - 1)
        same = same & (word == np.uint64(int.from_bytes(part, "little")))
    return same


def _number(np: Any, words: list[Any], offset: int, *, fraction: bool) -> tuple[Any, Any, Any]:
    """The number at an offset: its value in millionths, its width in bytes, and whether it is one of the form."""
    u8 = np.uint64
    text = _word(np, words, offset)
    value, width, good = _digits(np, text)
    value = value * u8(SCALE)
    if not fraction:
        return value, width.view(np.int64), good & ((width == 1) | (text & u8(0xFF) != ord("0")))
    further = _word(np, words, offset + 8)
    dot = text >> (width * u8(8))
    good &= dot & u8(0xFF) == ord(".")
    part, digits, more = _digits(np, (dot >> u8(8)) | (further << (u8(56) - width * u8(8))))
    value += part * np.array(_POWERS, dtype=u8)[digits.view(np.int64)]
    return value, (width + digits + u8(1)).view(np.int64), good & more & (digits <= MAX_FRACTION)


def _digits(np: Any, text: Any) -> tuple[Any, Any, Any]:
    """The digits that eight bytes begin with: their value, how many they are, and whether they are 1 to 7.

    All bytes at once: https://lemire.me/blog/2022/01/21/swar-explained-parsing-eight-digits/
    """
    u8 = np.uint64
    digits = text ^ u8(_ZEROS)
    others = (((digits & u8(_LOW)) + u8(_TO_HIGH)) | digits) & u8(_HIGH)
    below = (others & (~others + u8(1))) - u8(1)
    width = (((below & u8(_ONES)) * u8(_ONES)) >> u8(56)) - u8(1)
    good = (others != 0) & (width > 0)
    value = digits << ((u8(64) - (width << u8(3))) & u8(63))
    value = (value * u8(10) + (value >> u8(8))) & u8(0x00FF00FF00FF00FF)
    value = (value * u8(100) + (value >> u8(16))) & u8(0x0000FFFF0000FFFF)
    value = (value * u8(10_000) + (value >> u8(32))) & u8(0xFFFFFFFF)
    return value, width, good


KEPT_SHAPES = 64
_MIN_LINES = 8


class Rest(NamedTuple):
    """The lines that are in no shape, as one text.

    Its stretches begin at ``inside`` in it and at ``begins`` in the buffer.
    """

    text: bytes
    inside: list[int]
    begins: list[int]

    def offset(self, at: int) -> int:
        """Where in the buffer a place of the text is."""
        index = bisect_right(self.inside, at) - 1
        return self.begins[index] + at - self.inside[index]


class Learned:
    """The shapes that one reader has met, the useful ones first. What was learned changes speed, never results.

    sample: the shape of a line. word: where in a text the next line stands that is worth a shape; -1: nowhere.
    """

    def __init__(self, sample: Callable[[bytes], Shape | None], word: Callable[[bytes, int], int]) -> None:
        self._sample = sample
        self._word = word
        self._shapes: list[Shape] = []

    def read(self, columns: Columns) -> tuple[list[Rows], Rest]:
        """All lines of all shapes, and the rest; new shapes are learned from lines that fit none."""
        found = [(shape, rows) for shape in self._shapes if (rows := columns.take(shape)) is not None]
        rest = columns.rest()
        at = poor = 0
        while poor < _MAX_POOR:
            at = self._word(rest.text, at)
            if not 0 <= at < len(rest.text) - columns.margin_bytes:
                break
            start, stop = rest.text.rfind(b"\n", 0, at) + 1, rest.text.find(b"\n", at) + 1
            shape = self._sample(rest.text[start:stop])
            rows = columns.take(shape) if shape else None
            poor += rows is None or len(rows.starts) < _MIN_LINES
            at = stop
            if shape is not None and rows is not None:
                found.append((shape, rows))
                rest, at = columns.rest(), 0
        found.sort(key=lambda one: -len(one[1].starts))
        self._shapes = [shape for shape, rows in found if len(rows.starts) >= _MIN_LINES][:KEPT_SHAPES]
        return [rows for _, rows in found], rest
