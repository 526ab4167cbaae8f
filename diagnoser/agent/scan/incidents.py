"""What a scan is made of: incidents, the row that comes of each, and the work from one to the other."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from diagnoser.agent.session import Options, catalog_of, read_source
from diagnoser.inference.diagnose import judge_readings
from diagnoser.inference.diagnosis import Diagnosis, Finding
from diagnoser.inference.reading import Reading
from diagnoser.sources import Unreadable, label
from diagnoser.sources.remote import File, open_files


class Incident(NamedTuple):
    """Files that are judged together. host: the machine that they tell of, as their folder names it."""

    name: str
    host: str
    files: tuple[File, ...]

    @property
    def size(self) -> int:
        return sum(max(0, file.size) for file in self.files)

    @property
    def incident(self) -> "Incident":
        return self

    @property
    def key(self) -> str:
        """Changes when one of its files does."""
        return "\n".join(f"{file.name}\t{file.size}\t{file.version}" for file in self.files)


class Settings(NamedTuple):
    """What every worker is told. rules: further rule folders, which every node must have."""

    rules: tuple[str, ...] = ()
    year: int | None = None

    @property
    def options(self) -> Options:
        return Options(rules=tuple(map(Path, self.rules)), year=self.year, with_facts=False)


@dataclass
class Cause:
    """A cause of an incident. at: when its first proof was written (epoch, s); the log's end where that is not told."""

    rule: str
    title: str
    severity: str
    confidence: float
    at: float | None
    proof: str


@dataclass
class Row:
    """What came of an incident. error: why it was not read; all else is empty then."""

    incident: str
    host: str
    files: int
    bytes: int
    headline: str = ""
    server: str = "not told"
    causes: list[Cause] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error: str | None = None

    def as_plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Row":
        """Raises TypeError and KeyError for what is no row."""
        return cls(**{**plain, "causes": [Cause(**cause) for cause in plain["causes"]]})


MAX_NOTES = 20


def group(files: Sequence[File], by: str) -> list[Incident]:
    """Incidents: one for each file, or for each folder (by: "file" or "folder"), sorted by name.

    The host is the folder of a file where there are several folders, else the file's own name.
    """
    folders: dict[str, list[File]] = {}
    for file in files:
        folders.setdefault(file.name.rpartition("/")[0], []).append(file)
    found = []
    for folder, members in folders.items():
        named = folder.rpartition("/")[2] or folder or "."
        if by == "folder":
            found.append(Incident(folder or ".", named, tuple(members)))
            continue
        for file in members:
            stem = file.name.rpartition("/")[2].partition(".")[0]
            found.append(Incident(file.name, named if len(folders) > 1 else stem, (file,)))
    return sorted(found)


def read_incident(incident: Incident, settings: Settings) -> Row:
    """Read and judge one incident; the work of a worker."""
    options = settings.options
    catalog = catalog_of(options)
    readings, notes = [], []
    for source in open_files([file.name for file in incident.files], options.limits):
        if isinstance(source, Unreadable):
            notes.append(f"{source.name}: {source.reason}")
            continue
        reading = read_source(source, catalog, options)
        notes += [f"{reading.name}: {note}" for note in reading.notes]
        readings.append(reading)
    return _judged(incident, readings, notes, settings)


def _judged(incident: Incident, readings: list[Reading], notes: list[str], settings: Settings) -> Row:
    if not any(reading.lines for reading in readings):
        return failed(incident, "; ".join(notes[:3]) or "it is empty")
    pack = catalog_of(settings.options).pack
    diagnosis = judge_readings(readings, pack, with_facts=False).diagnosis
    end = max((reading.last_at for reading in readings if reading.last_at is not None), default=None)
    return _row(incident, diagnosis, notes, end)


def judged_row(incident: Incident, reading: Reading, settings: Settings) -> Row:
    """The row of an incident of one file whose reading is at hand."""
    return _judged(incident, [reading], [f"{reading.name}: {note}" for note in reading.notes], settings)


def failed(incident: Incident, error: str) -> Row:
    """The row of an incident that was not read."""
    return Row(incident.name, incident.host, len(incident.files), incident.size, error=error)


def _row(incident: Incident, diagnosis: Diagnosis, notes: list[str], end: float | None) -> Row:
    return Row(
        incident.name,
        incident.host,
        len(incident.files),
        incident.size,
        diagnosis.headline,
        diagnosis.server,
        [_cause(finding, end) for finding in diagnosis.causes],
        [*notes, *diagnosis.notes][:MAX_NOTES],
    )


def _cause(finding: Finding, end: float | None) -> Cause:
    times = [place.at for place in finding.evidence if place.at is not None]
    place = finding.evidence[0] if finding.evidence else None
    proof = f"{place.document}:{place.line}  {place.text[:200]}" if place else ""
    return Cause(
        finding.rule,
        finding.title,
        finding.severity,
        finding.confidence,
        min(times, default=end),
        label(proof),
    )
