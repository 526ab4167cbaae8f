"""Names of documents: a paste or a file may hold several, one after the other."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from diagnoser.facts.base import Evidence
from diagnoser.facts.factbase import Sighting
from diagnoser.inference.blocks import Span
from diagnoser.inference.diagnosis import DocumentRead
from diagnoser.inference.reading import Reading
from diagnoser.rulebook.words import ENGINES


class Document(NamedTuple):
    """One document: its source, its lines in the source, and how it is reported."""

    source: str
    span: Span
    read: DocumentRead


class Named:
    """Documents by place."""

    def __init__(self, documents: list[Document]) -> None:
        self.documents = documents
        self.kinds = frozenset(document.read.kind for document in documents)
        self._by_source: dict[str, list[Document]] = {}
        for document in documents:
            self._by_source.setdefault(document.source, []).append(document)

    def document_at(self, source: str, line: int) -> str:
        """The name of the document that holds a line."""
        here = self._by_source.get(source, [])
        index = bisect_right(here, line, key=lambda document: document.span.first_line) - 1
        inside = index >= 0 and line <= here[index].span.last_line
        return here[index].read.document if inside else source

    def evidence(self, place: Sighting) -> Evidence:
        host = next((document.read.host for document in self._by_source.get(place.source, ())), None)
        return place.evidence(self.document_at(place.source, place.line), host)


def name_documents(readings: Sequence[Reading]) -> Named:
    """Names for all documents of all readings.

    A paste's documents are always numbered ("stdin#1 (sglang log)"); a file's only where it holds several.
    """
    documents = []
    for reading in readings:
        for number, span in enumerate(reading.spans, 1):
            kind = span.kind or log_kind(span, reading)
            plain = len(reading.spans) == 1 and reading.name != "stdin"
            name = reading.name if plain else f"{reading.name}#{number} ({kind})"
            read = DocumentRead(
                document=name,
                kind=kind,
                host=reading.host,
                first_line=span.first_line,
                last_line=span.last_line,
                notes=_notes(reading) if number == 1 else [],
            )
            documents.append(Document(reading.name, span, read))
    return Named(documents)


def _notes(reading: Reading) -> list[str]:
    thick = (
        f"{count} lines came too thick for the parser {name!r}"
        for name, count in sorted(reading.skipped.items())
    )
    broken = (f"the parser {name} failed on {count} places" for name, count in sorted(reading.failed.items()))
    return [*reading.notes, *thick, *broken]


def log_kind(span: Span, reading: Reading) -> str:
    """What a stretch of log is: "sglang log", "kernel log", or only "log"."""
    votes = span.votes
    if not votes:
        # The tail of a log may hold nothing but the lines with which a server counts itself.
        votes = tuple((name, 1) for launch in reading.launches.settled() for name in launch.series.engines)
    if not votes:
        return "log"
    best, _ = max(votes, key=lambda vote: (vote[0] in ENGINES, vote[1], vote[0]))
    return f"{best} log"
