"""Pieces of work. A small incident is one; a large file is planned, read in shards by whoever is free, and merged."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from diagnoser.agent.scan.incidents import Incident, Row, Settings, judged_row, read_incident
from diagnoser.agent.session import catalog_of
from diagnoser.agent.workers import Carry, Segment, read_segment, segments
from diagnoser.inference.reading import Reading
from diagnoser.sources import Source, open_sources
from diagnoser.sources.remote import is_url
from diagnoser.sources.stretches import IrregularError

SPLIT_BYTES = 256 << 20
"""A larger file is read in shards."""

SHARD_SEGMENTS = 8
"""Segments of one shard: 256 MiB."""


class Plan(NamedTuple):
    """Find where a file is cut."""

    incident: Incident

    @property
    def name(self) -> str:
        return f"{self.incident.name} (plan)"


class Shard(NamedTuple):
    """Read some segments of a file, the number-th of its shards."""

    incident: Incident
    number: int
    segments: tuple[Segment, ...]

    @property
    def name(self) -> str:
        return f"{self.incident.name} (shard {self.number})"


Job = Incident | Plan | Shard
Read = tuple[Reading, Carry]
Result = Row | tuple[Segment, ...] | Read


def work(job: Job, settings: Settings) -> Result:
    """Do a piece of work; runs in the workers."""
    if isinstance(job, Plan):
        return _planned(job.incident, settings)
    if isinstance(job, Shard):
        return _read_shard(job, settings, Carry())
    return read_incident(job, settings)


def _planned(incident: Incident, settings: Settings) -> tuple[Segment, ...]:
    """The segments of a file; none where it must be read in one go."""
    options = settings.options
    for source in open_sources([incident.files[0].name], limits=options.limits):
        if isinstance(source, Source):
            try:
                return tuple(segments(source, options))
            except (IrregularError, OSError):
                pass
    return ()


def _read_shard(shard: Shard, settings: Settings, carry: Carry) -> Read:
    catalog = catalog_of(settings.options)
    whole: Reading | None = None
    for segment in shard.segments:
        reading, carry = read_segment(segment, catalog, carry)
        whole = reading if whole is None else whole.merge(reading)
    assert whole is not None
    return whole, carry


@dataclass
class _Parts:
    shards: list[Shard]
    read: dict[int, Read] = field(default_factory=dict)


class Work(Iterator[Job]):
    """The jobs that are to be done now. It has none left for the moment or for good when it stops; ask again."""

    def __init__(
        self, incidents: Sequence[Incident], settings: Settings, split_bytes: int = SPLIT_BYTES
    ) -> None:
        self._settings = settings
        self._jobs: deque[Job] = deque(
            Plan(one) if _may_be_cut(one) and one.size > split_bytes else one for one in incidents
        )
        self._parts: dict[str, _Parts] = {}

    def __next__(self) -> Job:
        if not self._jobs:
            raise StopIteration
        return self._jobs.popleft()

    def done(self, job: Job, result: Result) -> Row | None:
        """Take in what came of a job; the incident's row once there is one."""
        incident = job.incident
        if isinstance(result, Row):
            # A whole incident, or a part that could not be read: then the others of the file are in vain.
            if not isinstance(job, Incident):
                self._parts.pop(incident.name, None)
                self._jobs = deque(one for one in self._jobs if one.incident != incident)
            return result
        if isinstance(job, Plan):
            self._cut(incident, [one for one in result if isinstance(one, Segment)])
            return None
        parts = self._parts.get(incident.name)
        if parts is None or not isinstance(job, Shard) or not isinstance(result[0], Reading):
            return None
        parts.read[job.number] = (result[0], result[1])
        return self._merged(incident, parts) if len(parts.read) == len(parts.shards) else None

    def _cut(self, incident: Incident, found: list[Segment]) -> None:
        if not found:
            self._jobs.appendleft(incident)
            return
        shards = [
            Shard(incident, number, tuple(found[at : at + SHARD_SEGMENTS]))
            for number, at in enumerate(range(0, len(found), SHARD_SEGMENTS))
        ]
        self._parts[incident.name] = _Parts(shards)
        self._jobs.extendleft(reversed(shards))

    def _merged(self, incident: Incident, parts: _Parts) -> Row:
        del self._parts[incident.name]
        carry = Carry()
        readings: list[Reading] = []
        for shard in parts.shards:
            reading, left = parts.read[shard.number]
            if carry != Carry():
                # What the shard begins with belongs to what stands before; it is read again behind that.
                reading, left = _read_shard(shard, self._settings, carry)
            readings.append(reading)
            carry = left
        return judged_row(incident, _tree(readings), self._settings)


def _tree(readings: list[Reading]) -> Reading:
    """Neighbours are merged, and the results again: each is copied as often as the tree is high."""
    while len(readings) > 1:
        pairs = [readings[at : at + 2] for at in range(0, len(readings), 2)]
        readings = [pair[0].merge(pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
    return readings[0]


def _may_be_cut(incident: Incident) -> bool:
    return len(incident.files) == 1 and not is_url(incident.files[0].name)
