"""A plain file as stretches of whole chunks that can be read apart, by anybody, and give the same chunks."""

import os
from collections.abc import Iterator
from typing import IO, NamedTuple

from diagnoser.facts.arrays import count_lines
from diagnoser.sources.base import Chunk, Limits, RecordStart
from diagnoser.sources.clean import clean, has_lost_colours, strip_lost_colours
from diagnoser.sources.encoding import HEAD, Text, recognise
from diagnoser.sources.lines import Cut, record_start
from diagnoser.sources.source import LOOK, Source
from diagnoser.sources.streams import Flow, Part, Raw

_SOON = 64 << 10


class IrregularError(Exception):
    """This file cannot be cut without reading all of it first: read it in one go."""


class Stretch(NamedTuple):
    """Some chunks of a file. offset, size: in bytes. last: the file ends with it."""

    name: str
    path: str
    offset: int
    size: int
    first_line: int
    last: bool
    lost_colours: bool


def stretches(
    source: Source, limits: Limits, is_record_start: RecordStart = record_start
) -> Iterator[Stretch]:
    """The stretches of a source's file, of a segment's chunks each; cut where `Source.chunks` cuts.

    Raises IrregularError, also after some stretches were given, and OSError.
    """
    if source.path is None:
        raise IrregularError
    with open(source.path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(LOOK)
        if recognise(head[:HEAD]) != Text("utf-8") or not 0 < size <= limits.source_bytes:
            raise IrregularError
        lost = has_lost_colours(clean(head))
        polish = (lambda data: strip_lost_colours(clean(data))) if lost else clean
        ends = _chunk_ends(file, size, limits, lambda line: is_record_start(polish(line + b"\n")[:-1]))
        offset, first_line, lines = 0, 1, 0
        for number, (end, count) in enumerate(ends, 1):
            lines += count
            if number % limits.segment_chunks == 0 or end == size:
                yield Stretch(source.name, source.path, offset, end - offset, first_line, end == size, lost)
                offset, first_line, lines = end, first_line + lines, 0


def _chunk_ends(file: IO[bytes], size: int, limits: Limits, starts: RecordStart) -> Iterator[tuple[int, int]]:
    """Where each chunk ends, and its number of lines."""
    cut = Cut(limits, starts)
    # Mostly a record begins soon behind a chunk's least size; else there is room for the whole search, and for the
    # line at its end.
    rooms = (
        limits.chunk_bytes + _SOON,
        limits.chunk_bytes + min(limits.hold_bytes, limits.chunk_bytes) + 2 * limits.line_bytes,
    )
    offset = 0
    while offset < size:
        for room in rooms:
            file.seek(offset)
            data = file.read(min(room, size - offset))
            if len(data) < min(room, size - offset):
                raise IrregularError
            at_end = offset + len(data) == size
            end = len(data) if at_end else data.rfind(b"\n") + 1
            at = cut.find(data[:end], 0)
            cut.reset()
            if at or at_end:
                break
        else:
            raise IrregularError
        piece = data[: at or end]
        if _has_long_line(data[:end] if at_end else piece, limits.line_bytes):
            raise IrregularError
        offset += len(piece)
        yield offset, count_lines(piece)


def _has_long_line(text: bytes, limit: int) -> bool:
    """Whether `lines.runs` would find a line that it has to cut."""
    start = 0
    while len(text) - start > limit:
        end = text.rfind(b"\n", start, start + limit + 1) + 1
        if not end:
            return True
        start = end
    return not text


def chunks_of(stretch: Stretch, limits: Limits) -> Iterator[Chunk]:
    """The chunks of a stretch, with lines and offsets as in the whole file. Raises IrregularError and OSError."""
    with open(stretch.path, "rb", buffering=0) as file:
        file.seek(stretch.offset)
        stream = Part(Raw(file, Flow(limits)), stretch.size)
        part = Source(
            stretch.name, lambda: stream, size=stretch.size, limits=limits, lost_colours=stretch.lost_colours
        )
        for chunk in part.chunks():
            yield chunk._replace(
                first_line=chunk.first_line + stretch.first_line - 1,
                offset=chunk.offset + stretch.offset,
                last=chunk.last and stretch.last,
            )
        if part.notes:
            raise IrregularError
