"""Names of documents: a paste or a file may hold several, one after the other."""

from collections.abc import Sequence
from typing import NamedTuple

from diagnoser.facts.base import Evidence
from diagnoser.facts.factbase import Sighting
from diagnoser.inference.diagnosis import DocumentRead
from diagnoser.inference.reading import Reading, Span


class Document(NamedTuple):
    """One document: its source, its lines in the source, and how it is reported."""

    source: str
    span: Span
    read: DocumentRead


class Named:
    """Documents by place."""

    def __init__(self, documents: list[Document]) -> None:
        self.documents = documents
        self._by_source: dict[str, list[Document]] = {}
        for document in documents:
            self._by_source.setdefault(document.source, []).append(document)

    def document_at(self, source: str, line: int) -> str:
        """The name of the document that holds a line."""
        for document in self._by_source.get(source, ()):
            if document.span.first_line <= line <= document.span.last_line:
                return document.read.document
        return source

    def evidence(self, place: Sighting) -> Evidence:
        host = next((document.read.host for document in self._by_source.get(place.source, ())), None)
        return place.evidence(self.document_at(place.source, place.line), host)


def name_documents(readings: Sequence[Reading]) -> Named:
    """Names for all documents of all readings.

    A paste's documents are always numbered ("stdin#1 (sglang log)"); a file's only where it holds several.
    """
    documents = []
    for reading in readings:
        log = log_kind(reading)
        for number, span in enumerate(reading.spans, 1):
            kind = span.kind or log
            plain = len(reading.spans) == 1 and reading.name != "stdin"
            name = reading.name if plain else f"{reading.name}#{number} ({kind})"
            read = DocumentRead(
                document=name,
                kind=kind,
                host=reading.host,
                first_line=span.first_line,
                last_line=span.last_line,
                notes=reading.notes if number == 1 else [],
            )
            documents.append(Document(reading.name, span, read))
    return Named(documents)


def log_kind(reading: Reading) -> str:
    """What the log part of a reading is: "sglang log", "kernel log", or only "log"."""
    for votes in (reading.engines, reading.shapes):
        if votes:
            best, _ = max(votes.items(), key=lambda item: (item[1], item[0]))
            return f"{best} log"
    return "log"
