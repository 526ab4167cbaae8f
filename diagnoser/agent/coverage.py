"""How much of what logs warn of the rule packs know, and what they do not."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from diagnoser.agent.session import DEFAULTS, Options, Progress
from diagnoser.inference.catalog import catalog_for
from diagnoser.inference.coverage import WarningReader
from diagnoser.inference.odd import OddLine, OddLines
from diagnoser.inference.unwrapping import unwrapped
from diagnoser.rulebook.book import default_folders
from diagnoser.sources import Unreadable, open_sources


class Counted(NamedTuple):
    """Lines of one source (or of all): read, raised (at warning or above), and raised ones that are known."""

    source: str
    lines: int
    raised: int
    known: int

    @property
    def share(self) -> float | None:
        """Known of raised, 0 to 1; None where nothing is raised."""
        return self.known / self.raised if self.raised else None


class Coverage(NamedTuple):
    """shapes: what nothing knows, rarest first. unlisted: lines whose shapes came after too many others."""

    sources: list[Counted]
    shapes: list[OddLine]
    unlisted: int
    unreadable: list[str]

    @property
    def total(self) -> Counted:
        return Counted(
            "all", *(sum(column) for column in zip(*(one[1:] for one in self.sources), strict=True))
        )


def coverage(
    paths: Sequence[str | Path], options: Options = DEFAULTS, progress: Progress | None = None
) -> Coverage:
    """Read files, folders, globs, archives and "-" once, keeping only counts and the first line of each shape."""
    catalog = catalog_for(tuple(map(str, default_folders(options.rules))), options.naive)
    sources: list[Counted] = []
    odd = OddLines()
    unreadable: list[str] = []
    for source in open_sources(paths, limits=options.limits):
        if isinstance(source, Unreadable):
            unreadable.append(f"{source.name}: {source.reason}")
            continue
        reader = WarningReader(catalog, source.name, source.host, options.year)
        for chunk in unwrapped(source.chunks()):
            reader.feed(chunk.data, chunk.first_line, last=chunk.last)
            if progress is not None:
                progress(source.name, chunk.offset + len(chunk.data), source.size)
        unreadable += [f"{source.name}: {note}" for note in source.notes]
        if reader.reading.lines:
            sources.append(Counted(source.name, reader.reading.lines, reader.raised, reader.known))
            odd = odd.merge(reader.reading.odd)
    shapes = odd.rarest(len(odd.shapes))
    unknown = sum(one.raised - one.known for one in sources)
    return Coverage(sources, shapes, unknown - sum(shape.times for shape in shapes), unreadable)
