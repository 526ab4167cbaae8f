"""From what the user gave to the answer."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from diagnoser.inference.catalog import Catalog, catalog_for
from diagnoser.inference.diagnose import Judged, judge_readings
from diagnoser.inference.diagnosis import Diagnosis
from diagnoser.inference.reading import Reader, Reading
from diagnoser.inference.unwrapping import unwrapped
from diagnoser.inference.window import Window
from diagnoser.rulebook.book import default_folders
from diagnoser.sources import Limits, Source, Unreadable, open_sources

Progress = Callable[[str, int, int | None], None]
"""Called with a source's name, the bytes read so far and the size where it is known."""


LONG_MINUTES = 12
MAX_MOMENTS = 6


class Options(NamedTuple):
    """What a diagnosis may be told.

    rules: further rule folders. launch: which launch of a log, counted from 1 (None: the last). window: which
    times and lines count. naive: use the slow scanner. year: the year of stamps without one.
    with_facts: list the facts in the diagnosis. workers: how many processes read.
    """

    rules: tuple[Path, ...] = ()
    launch: int | None = None
    window: Window = Window()
    naive: bool = False
    year: int | None = None
    limits: Limits = Limits()
    with_facts: bool = True
    workers: int = 1


DEFAULTS = Options()


class CallError(ValueError):
    """What was asked cannot be done; the message is one sentence."""


class Read(NamedTuple):
    """What came of the sources: readings, and sentences about what could not be read."""

    readings: list[Reading]
    unreadable: list[str]


def read_sources(
    sources: Iterable[Source | Unreadable],
    catalog: Catalog,
    options: Options,
    progress: Progress | None = None,
) -> Read:
    """Read everything there is; what cannot be read becomes a sentence."""
    if options.workers > 1 and options.window == Window():
        from diagnoser.agent.workers import read_with_workers

        return read_with_workers(sources, catalog, options, progress)
    read = Read([], [])
    for source in sources:
        if isinstance(source, Unreadable):
            read.unreadable.append(f"{source.name}: {source.reason}")
        else:
            read.readings.append(read_source(source, catalog, options, progress))
    return read


def read_source(
    source: Source, catalog: Catalog, options: Options, progress: Progress | None = None
) -> Reading:
    """Read one source, in segments."""
    reader = Reader(catalog, source.name, source.host, options.year)
    notes: list[str] = []
    chunks = options.window.chunks(unwrapped(source.chunks()), options.year, notes.append)
    for number, chunk in enumerate(chunks, 1):
        reader.feed(chunk.data, chunk.first_line, last=chunk.last)
        if number % options.limits.segment_chunks == 0 and not chunk.last:
            reader.fold()
        if progress is not None:
            progress(source.name, chunk.offset + len(chunk.data), source.size)
    reading = reader.reading
    reading.notes += [*notes, *map(str, source.notes)]
    return reading


def run(
    paths: Sequence[str | Path], options: Options = DEFAULTS, progress: Progress | None = None
) -> Judged | list[str]:
    """The diagnosis of files, folders, globs, archives and "-"; or the sentences why nothing was readable.

    Raises `CallError` where the options do not fit what was read.
    """
    return run_sources(open_sources(paths, limits=options.limits), options, progress)


def run_sources(
    sources: Iterable[Source | Unreadable], options: Options = DEFAULTS, progress: Progress | None = None
) -> Judged | list[str]:
    """As `run`, of sources that are open already."""
    catalog = catalog_of(options)
    read = read_sources(sources, catalog, options, progress)
    counts = [reading.launches.count for reading in read.readings]
    if options.launch is not None and counts and options.launch > max(counts):
        many = "1 start" if max(counts) == 1 else f"{max(counts)} starts"
        raise CallError(f"--launch {options.launch}: the input holds {many} of a server")
    if options.window != Window() and read.readings and not any(reading.spans for reading in read.readings):
        raise CallError("no line lies in the window of time; stamps without a zone are read as UTC")
    if not any(reading.lines for reading in read.readings):
        notes = [f"{reading.name}: {note}" for reading in read.readings for note in reading.notes]
        return read.unreadable + notes or ["there is nothing to read: the input is empty"]
    judged = judge_readings(
        read.readings,
        catalog.pack,
        launch=options.launch,
        unreadable=read.unreadable,
        with_facts=options.with_facts,
    )
    _note_moments(judged)
    return judged


def _note_moments(judged: Judged) -> None:
    """When the server's speed changed inside of a log of some length; short ones import nothing for it."""
    series = [one.launch.series for part in judged.parts for one in part.group if one.launch is not None]
    if any(len(kept.buckets) >= LONG_MINUTES for one in series for kept in one.minutes.values()):
        from diagnoser.compare.moments import moments

        judged.diagnosis.notes += [str(moment) for moment in moments(judged)[:MAX_MOMENTS]]


def run_text(text: str | bytes, options: Options = DEFAULTS, name: str = "stdin") -> Judged:
    """The diagnosis of one pasted text."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    catalog = catalog_of(options)
    read = read_sources([Source.from_bytes(name, data)], catalog, options)
    return judge_readings(read.readings, catalog.pack, launch=options.launch, with_facts=options.with_facts)


def diagnose(given: str | Path | Sequence[str | Path], options: Options = DEFAULTS) -> Diagnosis:
    """The public API: ``diagnose(text)`` for a text with line ends, ``diagnose(path)`` or a list of paths.

    Raises `diagnoser.DiagnoserError` when nothing could be read.
    """
    if isinstance(given, str) and "\n" in given:
        return run_text(given, options).diagnosis
    paths: Sequence[str | Path] = [given] if isinstance(given, str | Path) else given
    judged = run(paths, options)
    if isinstance(judged, list):
        from diagnoser import DiagnoserError

        raise DiagnoserError("; ".join(judged))
    return judged.diagnosis


def catalog_of(options: Options) -> Catalog:
    folders = default_folders(options.rules)
    return catalog_for(tuple(map(str, folders)), options.naive)


def year_now() -> int:
    """The reference year for stamps without one."""
    import time

    return time.gmtime().tm_year
