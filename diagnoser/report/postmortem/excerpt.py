"""The evidence of a finding with the lines around it: what stands close together is shown as one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from diagnoser.facts.base import Evidence
from diagnoser.sources import label

Context = Mapping[tuple[str, int], Sequence[tuple[int, str]]]
"""(document, line of the evidence) -> the lines around it with their numbers, secrets masked."""

MAX_LINE = 400


class Row(NamedTuple):
    """A line of a document. hit: it is the evidence; the others are there to read it by."""

    number: int
    text: str
    hit: bool


class Excerpt(NamedTuple):
    """Lines of one document, in order; numbers may jump."""

    document: str
    host: str | None
    rows: tuple[Row, ...]

    @property
    def place(self) -> str:
        """The document and the lines that prove: "server.log:2, 3"."""
        hits = ", ".join(str(row.number) for row in self.rows if row.hit)
        host = f"{self.host}:" if self.host and not self.document.startswith(f"{self.host}:") else ""
        return f"{host}{self.document}:{hits}"


def excerpts(evidence: Sequence[Evidence], context: Context) -> list[Excerpt]:
    """One excerpt for each stretch of a document; a place without known lines around it stands alone."""
    found: list[Excerpt] = []
    for place in sorted(evidence, key=lambda one: one.place):
        rows = {row.number: row for row in _rows(place, context)}
        last = found[-1] if found else None
        if last and last.document == place.document and min(rows) <= last.rows[-1].number + 1:
            for row in last.rows:
                # The words of the evidence are cut around what proves; they go before the line as it stands.
                if row.hit or row.number not in rows:
                    rows[row.number] = row
            found[-1] = last._replace(rows=tuple(rows[number] for number in sorted(rows)))
        else:
            found.append(Excerpt(place.document, place.host, tuple(rows[number] for number in sorted(rows))))
    return found


def _rows(place: Evidence, context: Context) -> Iterator[Row]:
    said = place.text.splitlines() or [""]
    shown = range(place.line, max(place.end_line, place.line + len(said) - 1) + 1)
    for number, text in context.get((place.document, place.line), ()):
        if number not in shown and text.strip():
            yield Row(number, label(text), False)
    for number, text in zip(shown, said, strict=False):
        yield Row(number, label(text[:MAX_LINE] + ("..." if len(text) > MAX_LINE else "")), True)
