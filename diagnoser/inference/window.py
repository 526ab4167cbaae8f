"""Which part of a source counts: a stretch of time, or its last lines.

Lines outside are blanked, not removed, so that line numbers stay those of the source.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from diagnoser.parsers.prefix import read_prefix
from diagnoser.sources import Chunk

ABSOLUTE_FROM = 1e8
"""Smaller stamps count from a start (the kernel's uptime) and tell no time of day."""


class Window(NamedTuple):
    """since and until: seconds since the epoch, both inclusive. tail: how many of the last lines.

    A line without a stamp has the time of the line before it; lines before the first stamp are kept.
    """

    since: float | None = None
    until: float | None = None
    tail: int | None = None

    def chunks(self, chunks: Iterator[Chunk], year: int | None) -> Iterator[Chunk]:
        """The chunks of a source with everything outside blanked."""
        if self.since is not None or self.until is not None:
            chunks = self._timed(chunks, year)
        if self.tail is not None:
            chunks = self._last(chunks, self.tail)
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

    @staticmethod
    def _last(chunks: Iterator[Chunk], count: int) -> Iterator[Chunk]:
        held: deque[Chunk] = deque()
        lines = 0
        for chunk in chunks:
            held.append(chunk)
            lines += chunk.data.count(b"\n")
            while len(held) > 1 and lines - held[0].data.count(b"\n") >= count:
                lines -= held.popleft().data.count(b"\n")
        if held:
            first = held.popleft()
            parts = first.data.split(b"\n")
            total = lines + (0 if (held[-1] if held else first).data.endswith(b"\n") else 1)
            drop = max(0, total - count)
            held.appendleft(first._replace(data=b"\n".join(parts[drop:]), first_line=first.first_line + drop))
        yield from held
