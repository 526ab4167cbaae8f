"""The answer, as data: the JSON contract ``diagnoser/diagnosis/1``."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from diagnoser.facts.base import Evidence
from diagnoser.sources import escaped

SCHEMA = "diagnoser/diagnosis/1"

Role = Literal["root", "consequence", "bystander", "echo"]
FindingKind = Literal["cause", "symptom", "bystander", "engine"]
ServerState = Literal["ready", "not ready", "not told"]
Severity = Literal["info", "low", "medium", "high", "critical"]

SEVERITY_RANK: dict[str, int] = {"info": 0, "low": 1, "medium": 2, "high": 3, "critical": 4}


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)


class FixText(_Model):
    """A fix as it is shown: a command to copy or a step to take, with its risk and its undo."""

    action: str
    command: str
    risk: str
    restart: bool
    undo: str | None = None
    note: str | None = None


class GainText(_Model):
    """What undoing the cause brought where it was measured."""

    metric: str
    change: str
    where: str
    source: str


class Finding(_Model):
    """One thing found. ``confidence`` is the probability, 0 to 1, that it is true and matters here."""

    rule: str
    title: str
    kind: FindingKind
    role: Role
    effect: str
    severity: Severity
    confidence: float
    summary: str
    evidence: list[Evidence] = []
    fixes: list[FixText] = []
    gain: GainText | None = None
    because_of: str | None = None
    unchecked: list[str] = []
    references: list[str] = []


class UnknownLine(_Model):
    """A line at warning or above that no message knows, with how often its shape occurs."""

    document: str
    line: int
    text: str
    count: int


class Question(_Model):
    """What would decide most, and the command whose output answers it."""

    question: str
    command: str
    decides: list[str]


class Step(_Model):
    """A further look that was taken at a machine: what was asked, by which probes, why, and what came of it."""

    question: str
    probes: list[str]
    because: str
    outcome: str


class DocumentRead(_Model):
    """One document that was read. ``notes`` say what of it was not."""

    document: str
    kind: str
    host: str | None = None
    first_line: int
    last_line: int
    notes: list[str] = []


class FactRead(_Model):
    """One fact with its first place; ``count`` sightings in all."""

    kind: str
    fields: dict[str, Any]
    count: int
    document: str
    line: int


class Diagnosis(_Model):
    """The whole answer. Findings are sorted by rank, roots first. server: whether it said that it serves."""

    schema_: str = Field(default=SCHEMA, alias="schema", serialization_alias="schema")
    version: str
    headline: str
    server: ServerState = "not told"
    findings: list[Finding] = []
    unknown: list[UnknownLine] = []
    questions: list[Question] = []
    steps: list[Step] = []
    coverage: list[DocumentRead] = []
    unreadable: list[str] = []
    notes: list[str] = []
    incomplete: bool = False
    facts: list[FactRead] = []

    model_config = ConfigDict(extra="forbid", populate_by_name=True, defer_build=True)

    @property
    def roots(self) -> list[Finding]:
        """The findings that nothing else explains."""
        return [finding for finding in self.findings if finding.role == "root"]

    @property
    def causes(self) -> list[Finding]:
        """The roots above severity info: what the exit code speaks of."""
        return [finding for finding in self.roots if finding.severity != "info"]

    def to_json(self, indent: int | None = 2) -> str:
        """Every key of the contract is there, null where nothing is known. No character in it moves a terminal."""
        return escaped(self.model_dump_json(by_alias=True, indent=indent))
