"""The words of this floor: Source, Chunk, Note, Unreadable, and the limits that hold against hostile input."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

Transform = Callable[[bytes], bytes]
"""Unwraps complete lines (container prefixes, JSON records). Pure, and it keeps the number of lines."""

RecordStart = Callable[[bytes], bool]
"""Says of one cleaned and unwrapped line, without its line end, whether a record begins with it."""


class SourceError(Exception):
    """The one family of errors of this floor. Input never raises it; wrong use does."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one source may cost. Sizes are in bytes, ratios are unpacked bytes per packed byte.

    chunk_bytes, hold_bytes: a chunk is cut at a record start between chunk_bytes and chunk_bytes + hold_bytes.
    segment_chunks: so many chunks are read as if they stood alone and then merged: one worker's piece of work.
    line_bytes, line_kept_bytes: a longer line than the first is cut to the second.
    source_bytes: what is read of one source at most; member_bytes: the same for packed text whose ratio is
        above sane_ratio.
    bomb_ratio, bomb_bytes: packed input that gave more than bomb_bytes at more than bomb_ratio is given up.
    depth: archives inside archives; members: entries of one archive, those of inner archives included.
    files: files found below the given folders.
    held_bytes: a zip that cannot be sought (inside an archive, on standard input) is held in memory up to this.

    Raises SourceError where a limit leaves no room for a single byte.
    """

    chunk_bytes: int = 4 << 20
    hold_bytes: int = 1 << 20
    segment_chunks: int = 8
    line_bytes: int = 1 << 20
    line_kept_bytes: int = 64 << 10
    source_bytes: int = 64 << 30
    member_bytes: int = 2 << 30
    sane_ratio: float = 50
    bomb_ratio: float = 200
    bomb_bytes: int = 100 << 20
    depth: int = 3
    members: int = 10_000
    files: int = 100_000
    held_bytes: int = 32 << 20

    def __post_init__(self) -> None:
        if (
            min(self.chunk_bytes, self.line_bytes, self.line_kept_bytes, self.source_bytes, self.member_bytes)
            < 1
        ):
            raise SourceError("limits of chunks, lines, sources and members are at least one byte")


class Chunk(NamedTuple):
    r"""Consecutive whole lines of a source, cleaned (see `diagnoser.sources.clean`).

    data: lines end at ``\n`` and nowhere else; only the last line of a source may lack it.
    first_line: number of the first line in the source, from 1.
    offset: where that line starts in the source's own bytes: unpacked, not yet cleaned.
    last: no chunk follows. Every source has exactly one last chunk; an empty source has only that one.
    """

    data: bytes
    first_line: int
    offset: int
    last: bool


class Note(str):
    """A sentence about a source that its reader should know. line and length_bytes are those of a cut line."""

    __slots__ = ("length_bytes", "line")
    line: int | None
    length_bytes: int | None

    def __new__(cls, text: str, line: int | None = None, length_bytes: int | None = None) -> "Note":
        note = super().__new__(cls, text)
        note.line = line
        note.length_bytes = length_bytes
        return note


class Unreadable(NamedTuple):
    """What was named or found and gives no text. reason: one sentence that says why and what to do."""

    name: str
    reason: str


class Stream(Protocol):
    """Bytes, in order. read gives at most n bytes and ``b""`` at the end, and never raises.

    trouble: why the bytes ended before their time, as a sentence; None while all is well.
    """

    @property
    def trouble(self) -> str | None: ...

    def read(self, n: int, /) -> bytes: ...
