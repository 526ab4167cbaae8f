"""Which of the lines that a log itself calls warnings are known to the rule packs and parsers."""

from collections.abc import Iterator

from diagnoser.facts.engine import ExceptionRaised
from diagnoser.inference.catalog import Catalog
from diagnoser.inference.events import Event
from diagnoser.inference.lines import ChunkLines
from diagnoser.inference.odd import is_raised
from diagnoser.inference.reading import Reader
from diagnoser.scan.scanner import Hits


class WarningReader(Reader):
    """A reader whose odd lines are all the raised ones that nothing knows, and that counts the raised ones.

    raised: lines at warning or above outside of blocks such as nvidia-smi tables. known: those of them that a
    message said or a parser read. That an exception was raised is not enough: what it says must be known.
    """

    def __init__(self, catalog: Catalog, name: str, host: str | None = None, year: int | None = None) -> None:
        super().__init__(catalog, name, host, year)
        self.raised = 0
        self.known = 0

    def _events(
        self, lines: ChunkLines, hits: Hits, inside: bytearray, end: int, first_line: int
    ) -> tuple[list[Event], Iterator[int]]:
        events, _ = super()._events(lines, hits, inside, end, first_line)
        known = {
            number
            for event in events
            for number in range(event.line + isinstance(event.fact, ExceptionRaised), event.last + 1)
        }
        raised = [number for number in range(end) if not inside[number] and is_raised(lines[number])]
        odd = [number for number in raised if number not in known]
        self.raised += len(raised)
        self.known += len(raised) - len(odd)
        return events, iter(odd)
