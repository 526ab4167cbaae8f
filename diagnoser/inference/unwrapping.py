"""Takes container and log-daemon prefixes off a source's lines, keeping the count of lines."""

from collections.abc import Iterator

from diagnoser.parsers.wrapper import is_partial, unwrap, unwrap_kind
from diagnoser.sources import Chunk, clean

SAMPLE = 60
MAX_DEPTH = 3


def unwrapped(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """The chunks without wrappers. Which wrappers there are is decided on the first lines of the source."""
    kinds: list[str] | None = None
    for chunk in chunks:
        if kinds is None:
            kinds = _kinds(chunk.data)
        yield chunk._replace(data=_strip(chunk.data, kinds)) if kinds else chunk


def _kinds(data: bytes) -> list[str]:
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


def _strip(data: bytes, kinds: list[str]) -> bytes:
    lines = data.split(b"\n")
    bare: list[bytes] = []
    pending = ""
    for raw in lines:
        line = raw.decode("utf-8", "replace")
        partial = is_partial(kinds[0], line)
        for kind in kinds:
            line = unwrap(kind, line)[0]
        # One record must stay one line; the rare record with line ends inside keeps its first lines joined.
        line = pending + line.replace("\n", " ")
        pending = line if partial else ""
        bare.append(b"" if partial else line.encode("utf-8", "replace"))
    if pending:
        bare[-1] = pending.encode("utf-8", "replace")
    return clean(b"\n".join(bare))
