"""The smallest words of the house: Evidence, Fact and Found."""

from typing import ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict


class Evidence(BaseModel):
    """Where a statement was read: a line range of a document and its text, already redacted.

    Lines count from 1 in the whole source (a paste or a file), not in the document inside it.
    ``at`` is the record's own time in seconds since the epoch; stamps without a zone are taken as UTC.
    """

    model_config = ConfigDict(frozen=True)

    document: str
    line: int
    end_line: int
    text: str
    host: str | None = None
    rank: str | None = None
    at: float | None = None

    @property
    def place(self) -> tuple[str, int]:
        """The sort key: document order is fixed by name, then by line."""
        return (self.document, self.line)


class Fact(BaseModel):
    """A typed, hashable statement read from a document.

    Subclasses set ``kind``, the name that rules use. Two facts that state the same are equal wherever they
    were read; the places are kept beside them (`diagnoser.facts.base.Found`, `FactBase`). Field values are
    hashable: scalars or tuples. Numbers carry their unit in the field's name. ``None`` means "not shown",
    never zero.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    kind: ClassVar[str] = ""
    kept: ClassVar[int] = 256
    """How many different facts of one family a FactBase keeps from the family's first sighting on."""

    @property
    def family(self) -> str:
        """What its sightings are counted under: the kind, or for messages the message."""
        return self.kind


class Found(NamedTuple):
    """A fact and the lines that state it, as indexes into the lines the parser was given (end inclusive).

    ``rank`` names the process of a multi-rank server when the line says it ("TP3").
    """

    fact: Fact
    first: int
    last: int
    rank: str | None = None
