"""Reading with several processes: files are cut into segments, which any worker reads and this process merges in order.

One process reads in the same segments and merges them in the same order, so the answer is the same, byte for byte.
"""

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import NamedTuple

from diagnoser.agent.session import Options, Progress, Read, catalog_of, read_source
from diagnoser.inference.catalog import Catalog
from diagnoser.inference.reading import Held, Reader, Reading
from diagnoser.inference.unwrapping import Strip, wrappers
from diagnoser.sources import Limits, Source, Unreadable
from diagnoser.sources.stretches import IrregularError, Stretch, chunks_of, stretches

_AHEAD = 2
"""Segments that wait for each worker."""


class Carry(NamedTuple):
    """What a segment leaves for the one behind it: a block and a record that may go on there."""

    held: Held = Held()
    pieces: tuple[str, ...] = ()


class Segment(NamedTuple):
    """A piece of work: a stretch of a file, with the wrappers around its lines."""

    stretch: Stretch
    host: str | None
    wrappers: tuple[str, ...]
    year: int | None
    limits: Limits


def read_segment(segment: Segment, catalog: Catalog, carry: Carry) -> tuple[Reading, Carry]:
    """Read a segment. Raises IrregularError and OSError."""
    reader = Reader(catalog, segment.stretch.name, segment.host, segment.year, carry.held)
    strip = Strip(list(segment.wrappers), carry.pieces)
    for chunk in map(strip.chunk, chunks_of(segment.stretch, segment.limits)):
        reader.feed(chunk.data, chunk.first_line, last=chunk.last)
    return reader.reading, Carry(reader.held, tuple(strip.pieces))


def segments(source: Source, options: Options) -> Iterator[Segment]:
    """The segments of a source's file. Raises IrregularError, also after some were given, and OSError."""
    around: tuple[str, ...] | None = None
    for stretch in stretches(source, options.limits):
        if around is None:
            first = next(chunks_of(stretch._replace(size=min(stretch.size, 1 << 20)), options.limits))
            around = tuple(wrappers(first.data))
        yield Segment(stretch, source.host, around, options.year, options.limits)


_catalog: Catalog | None = None


def _begin(options: Options) -> None:
    global _catalog  # noqa: PLW0603 - a worker has one for its life
    _catalog = catalog_of(options)


def _work(segment: Segment) -> tuple[Reading, Carry]:
    assert _catalog is not None
    return read_segment(segment, _catalog, Carry())


@dataclass
class _File:
    """A file that is being read, and how far its segments are merged."""

    source: Source
    reading: Reading | None = None
    carry: Carry = field(default_factory=Carry)
    broken: bool = False
    waiting: int = 0
    planned: bool = False


@dataclass
class _Team:
    catalog: Catalog
    options: Options
    progress: Progress | None
    pool: ProcessPoolExecutor
    queue: deque[tuple[_File, Segment, Future[tuple[Reading, Carry]]]] = field(default_factory=deque)

    def add(self, file: _File) -> None:
        """Hand out a file's segments, as long as nothing speaks against it."""
        try:
            for segment in segments(file.source, self.options):
                self.queue.append((file, segment, self.pool.submit(_work, segment)))
                file.waiting += 1
                while len(self.queue) > _AHEAD * self.options.workers:
                    self.merge_next()
                if file.broken:
                    break
        except (IrregularError, OSError, BrokenProcessPool):
            file.broken = True
        file.planned = True

    def merge_next(self) -> None:
        """Wait for the oldest segment and merge it into its file."""
        file, segment, future = self.queue.popleft()
        file.waiting -= 1
        if file.broken:
            future.cancel()
            return
        try:
            reading, carry = future.result()
            if file.carry != Carry():
                # What it begins with belongs to what stands before; read it again behind that.
                reading, carry = read_segment(segment, self.catalog, file.carry)
        except (IrregularError, OSError, BrokenProcessPool):
            file.broken = True
            return
        file.reading = reading if file.reading is None else file.reading.merge(reading)
        file.carry = carry
        if self.progress is not None:
            done = segment.stretch.offset + segment.stretch.size
            self.progress(file.source.name, done, file.source.size)

    def finish(self, file: _File) -> Reading:
        """The file's reading; one that could not be cut is read here, in one go."""
        while file.waiting:
            self.merge_next()
        if file.broken or file.reading is None:
            return read_source(file.source, self.catalog, self.options, self.progress)
        return file.reading


def read_with_workers(
    sources: Iterable[Source | Unreadable], catalog: Catalog, options: Options, progress: Progress | None
) -> Read:
    """As `session.read_sources`, with ``options.workers`` processes for plain files and this one for all else."""
    read = Read([], [])
    files: list[_File | Reading] = []
    with _pool(options) as pool:
        # The workers are started now, while this process has no other thread.
        pool.submit(int).result()
        team = _Team(catalog, options, progress, pool)
        for source in sources:
            if isinstance(source, Unreadable):
                read.unreadable.append(f"{source.name}: {source.reason}")
            elif source.path is None:
                files.append(read_source(source, catalog, options, progress))
            else:
                files.append(file := _File(source))
                team.add(file)
        read.readings.extend(one if isinstance(one, Reading) else team.finish(one) for one in files)
    return read


def _pool(options: Options) -> ProcessPoolExecutor:
    # A forked worker has the compiled rules already; without fork it loads them, as a first call does.
    context = get_context("fork" if sys.platform == "linux" else None)
    return ProcessPoolExecutor(
        options.workers, mp_context=context, initializer=_begin, initargs=(options._replace(workers=1),)
    )
