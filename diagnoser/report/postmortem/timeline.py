"""What happened when, as the texts tell it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from diagnoser.facts.factbase import Sighting
from diagnoser.inference.case import Case
from diagnoser.inference.diagnose import Judged

_FACTS = {
    "ready": "The server says that it serves",
    "exited": "A process of the server ends",
    "exception": "First exception",
}


_END = 1 << 60
"""What has no line of its own stands behind what has."""


class Moment(NamedTuple):
    """One row: seconds since the epoch, what happened, and the place that says so."""

    at: float
    what: str
    source: str
    line: int

    @property
    def clock(self) -> str:
        """UTC; stamps without a zone were read as UTC."""
        return datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def timeline(judged: Judged) -> list[Moment]:
    """Every moment once, in order."""
    moments: dict[tuple[float, str, int], Moment] = {}
    for part in judged.parts:
        for moment in _of_case(part.case):
            moments.setdefault((moment.at, moment.source, moment.line), moment)
    # The leading finding names a line that several point at.
    for finding in reversed(judged.diagnosis.findings):
        if finding.role not in ("root", "consequence", "echo") or finding.severity == "info":
            continue
        for place in finding.evidence[:1]:
            if place.at is not None:
                named = Moment(place.at, finding.title, place.document, place.line)
                moments[place.at, place.document, place.line] = named
    return sorted(moments.values(), key=lambda moment: (moment.at, moment.line or _END, moment.what))


def _of_case(case: Case) -> Iterator[Moment]:
    first: dict[str, Sighting] = {}
    for fact, sightings in case.facts.facts():
        for place in (*sightings.first[:1], *sightings.last[-1:]):
            if place.at is None:
                continue
            if place.source not in first or place.at < (first[place.source].at or 0):
                first[place.source] = place
        said = _FACTS.get(fact.kind)
        if said and sightings.first[0].at is not None:
            place = sightings.first[0]
            assert place.at is not None
            detail = getattr(fact, "type", None) or getattr(fact, "how", None)
            yield Moment(place.at, f"{said}: {detail}" if detail else said, place.source, place.line)
    for source, place in first.items():
        assert place.at is not None
        yield Moment(place.at, f"{source} begins to tell", source, place.line)
        last = case.last_at.get(source)
        if last is not None and last > place.at:
            yield Moment(last, f"{source} ends", source, 0)
