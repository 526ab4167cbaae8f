"""Lines of a chunk, decoded only where somebody looks."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import overload

from diagnoser.facts.arrays import numpy_for
from diagnoser.sources import printable

MAX_DECODED = 20_000
"""How many lines are kept as text; more are looked at only where a text is nothing but hits."""

MAX_TEXT = 2000
MAX_LINES = 12
MAX_BLOCK_TEXT = 16_000
MAX_BLOCK_LINES = 250

LONG_LINE = 400
"""From this length on a line is shown by its head and by what stands around the words that matter."""

_HEAD = 60
_BEFORE = 20
_AROUND = 100


def _line_starts(data: bytes | bytearray) -> "array[int]":
    """Where each line starts, and where a line behind the last one would."""
    whole = len(data) + (not data.endswith(b"\n") and bool(data))
    np = numpy_for(len(data))
    if np is None:
        starts = array("I", accumulate((len(line) + 1 for line in data.split(b"\n")), initial=0))
        while starts[-1] > whole:
            starts.pop()
        return starts
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    starts = array("I", bytes(4))
    starts.frombytes((ends + 1).astype(np.uint32).tobytes())
    if starts[-1] < whole:
        starts.append(whole)
    return starts


class ChunkLines(Sequence[str]):
    """The lines of a chunk of bytes as text; ``at(offset)`` gives the index of the line around an offset."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = data
        # Four bytes a line: a chunk of nothing but line ends has millions of them.
        self._starts = _line_starts(data)
        self._text: dict[int, str] = {}
        self._excerpt: tuple[tuple[int, int], str] = ((-1, -1), "")

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        text = self._text.get(index)
        if text is None:
            if not 0 <= index < len(self):
                raise IndexError(index)
            if len(self._text) >= MAX_DECODED:
                self._text.clear()
            raw = self._data[self._starts[index] : self._starts[index + 1] - 1]
            text = self._text[index] = raw.decode("utf-8", "replace")
        return text

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self)))

    def at(self, offset: int) -> int:
        """The index of the line that holds the byte at ``offset``."""
        return bisect_right(self._starts, offset) - 1

    def start(self, index: int) -> int:
        """The byte offset where a line starts."""
        return self._starts[index]

    def starts(self, first: int, stop: int) -> "array[int]":
        """Where each line of a range starts, counted from the first one's start, and where the last one ends."""
        if first == 0 and stop == len(self):
            return self._starts
        base = self._starts[first]
        return array("I", [start - base for start in self._starts[first : stop + 1]])

    def trimmed(self, first: int, stop: int) -> tuple[int, int]:
        """The range of lines without the blank ones at its ends."""
        if first < stop and self._blank(first):
            text = self._data[self._starts[first] : self._starts[stop]]
            left = len(text.lstrip())
            first = self.at(self._starts[first] + len(text) - left) if left else stop
        if first < stop and self._blank(stop - 1):
            text = self._data[self._starts[first] : self._starts[stop]]
            stop = self.at(self._starts[first] + len(text.rstrip()) - 1) + 1
        return first, stop

    def _blank(self, index: int) -> bool:
        return not self._data[self._starts[index] : self._starts[index + 1]].strip()

    def excerpt(self, first: int, last: int) -> str:
        """The text of some lines as evidence: harmless to a terminal and of bounded size."""
        if self._excerpt[0] != (first, last):
            shown = [self[index][:MAX_TEXT] for index in range(first, min(last, first + MAX_LINES - 1) + 1)]
            self._excerpt = ((first, last), printable("\n".join(shown)[:MAX_TEXT]))
        return self._excerpt[1]

    def block(self, first: int, last: int) -> str:
        """The text of a block of its own, longer than an excerpt, with its indentation."""
        shown = [self[index][:MAX_TEXT] for index in range(first, min(last, first + MAX_BLOCK_LINES - 1) + 1)]
        return printable("\n".join(shown)[:MAX_BLOCK_TEXT])

    def focus(self, index: int, words: str) -> str:
        """A long line as evidence for ``words`` in it: its head, and what stands around them."""
        line = self[index]
        at = line.find(words)
        if len(line) <= LONG_LINE or at < _HEAD + _BEFORE:
            return self.excerpt(index, index)
        end = at + _AROUND
        tail = " ..." if end < len(line) else ""
        return printable(f"{line[:_HEAD]} ... {line[at - _BEFORE : end].lstrip()}{tail}")
