"""Takes container and log-daemon prefixes off a source's lines, keeping the count of lines."""

from collections.abc import Iterator, Sequence

from diagnoser.parsers.wrapper import is_partial, unwrap, unwrap_kind
from diagnoser.sources import Chunk, clean

SAMPLE = 60
MAX_DEPTH = 3


MAX_RECORD = 64 << 10
"""Letters kept of a record that a daemon wrote in pieces (containerd and docker cut at 16 KiB)."""


def unwrapped(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """The chunks without wrappers. Which wrappers there are is decided on the first lines of the source."""
    strip: Strip | None = None
    for chunk in chunks:
        if strip is None:
            strip = Strip(wrappers(chunk.data))
        yield strip.chunk(chunk)


def wrappers(data: bytes) -> list[str]:
    """The kinds of wrappers around the first lines of a text, the outer first."""
    sample = [
        line.decode("utf-8", "replace") for line in data.split(b"\n", SAMPLE)[:SAMPLE] if len(line) < 65536
    ]
    kinds: list[str] = []
    while len(kinds) < MAX_DEPTH:
        kind = unwrap_kind(sample)
        if kind is None or kind in kinds:
            break
        kinds.append(kind)
        sample = [unwrap(kind, line)[0] for line in sample]
    return kinds


class Strip:
    """Takes the wrappers off, chunk by chunk; a record in pieces is joined on the line of its last piece.

    pieces: those of the record that is not at its end yet.
    """

    def __init__(self, kinds: list[str], pieces: Sequence[str] = ()) -> None:
        self.kinds = kinds
        self.pieces = list(pieces)
        self._size = sum(map(len, pieces))

    def chunk(self, chunk: Chunk) -> Chunk:
        return chunk._replace(data=self(chunk.data, last=chunk.last)) if self.kinds else chunk

    def __call__(self, data: bytes, *, last: bool) -> bytes:
        lines = data.split(b"\n")
        end = lines.pop()
        bare = [self._line(raw.decode("utf-8", "replace")) for raw in lines]
        if end:
            bare.append(self._line(end.decode("utf-8", "replace")))
        if last and self.pieces and bare:
            bare[-1] = self._joined("")
        text = "\n".join(bare) + "\n" * (not end and bool(lines))
        return clean(text.encode("utf-8", "replace"))

    def _line(self, line: str) -> str:
        partial = is_partial(self.kinds[0], line)
        for kind in self.kinds:
            line = unwrap(kind, line)[0]
        # One record must stay one line; the rare record with line ends inside keeps its first lines joined.
        line = line.replace("\n", " ")
        if not partial:
            return self._joined(line)
        if self._size < MAX_RECORD:
            self.pieces.append(line[: MAX_RECORD - self._size])
            self._size += len(self.pieces[-1])
        return ""

    def _joined(self, line: str) -> str:
        if self.pieces:
            line = "".join([*self.pieces, line[: MAX_RECORD - self._size]])
            self.pieces, self._size = [], 0
        return line
