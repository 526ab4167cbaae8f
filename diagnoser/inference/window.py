"""Which part of a source counts: a stretch of time, or its last lines.

Lines outside are blanked, not removed, so that line numbers stay those of the source.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from diagnoser.parsers.prefix import read_prefix
from diagnoser.sources import Chunk

HELD_BYTES = 64 << 20
"""How much of the last lines is held; a longer tail is cut, and the reader is told."""

ABSOLUTE_FROM = 1e8
"""Smaller stamps count from a start (the kernel's uptime) and tell no time of day."""


Note = Callable[[str], None]


def _unheard(_sentence: str) -> None:
    pass


class Window(NamedTuple):
    """since and until: seconds since the epoch, both inclusive. tail: how many of the last lines.

    A line without a stamp has the time of the line before it; lines before the first stamp are kept.
    """

    since: float | None = None
    until: float | None = None
    tail: int | None = None

    def chunks(self, chunks: Iterator[Chunk], year: int | None, note: Note = _unheard) -> Iterator[Chunk]:
        """The chunks of a source with everything outside blanked. ``note`` hears what could not be done."""
        if self.since is not None or self.until is not None:
            chunks = self._timed(chunks, year)
        if self.tail is not None:
            chunks = _last(chunks, self.tail, note)
        return chunks

    def _timed(self, chunks: Iterator[Chunk], year: int | None) -> Iterator[Chunk]:
        inside = True
        for chunk in chunks:
            kept = []
            for line in chunk.data.split(b"\n"):
                at = read_prefix(line[:200].decode("utf-8", "replace"), year).at
                if at is not None and at >= ABSOLUTE_FROM:
                    inside = self.holds(at)
                kept.append(line if inside else b"")
            yield chunk._replace(data=b"\n".join(kept))

    def holds(self, at: float) -> bool:
        """Whether a time lies in the window."""
        return (self.since is None or at >= self.since) and (self.until is None or at <= self.until)


def _last(chunks: Iterator[Chunk], count: int, note: Note) -> Iterator[Chunk]:
    """The chunks that hold the last ``count`` lines, the first of them cut."""
    held: deque[tuple[Chunk, int]] = deque()
    lines = size = 0
    cut = False
    for chunk in chunks:
        held.append((chunk, chunk.data.count(b"\n")))
        lines += held[-1][1]
        size += len(chunk.data)
        while len(held) > 1 and (lines - held[0][1] >= count or size > HELD_BYTES):
            cut = cut or lines - held[0][1] < count
            lines -= held[0][1]
            size -= len(held.popleft()[0].data)
    if not held:
        return
    total = lines + (not held[-1][0].data.endswith(b"\n"))
    if cut and total < count:
        note(
            f"the last {count} lines are too long to hold: the last {total} were read; --since narrows better"
        )
    first = held.popleft()[0]
    drop = max(0, total - count)
    yield first._replace(data=b"\n".join(first.data.split(b"\n")[drop:]), first_line=first.first_line + drop)
    yield from (chunk for chunk, _ in held)
