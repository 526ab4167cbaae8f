"""What happened when, as the texts tell it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from diagnoser.facts.factbase import FactBase, Sighting
from diagnoser.inference.diagnose import Judged
from diagnoser.inference.servers import Chosen

SLOW = 0.6
"""A minute is slow when it decodes at most this share of the first third: the rule decode-slowed-down's threshold."""

MIN_MINUTES = 6
MAX_MOMENTS = 40

_FACTS = {
    "ready": "The server says that it serves",
    "exited": "A process of the server ends",
    "exception": "Exception",
}

BEGINS, ENDS = "First line that was understood", "Last time in this text"

_END = 1 << 60
"""What has no line of its own stands behind what has."""


class Moment(NamedTuple):
    """One row: seconds since the epoch, what happened, and the place that says so (line 0: the document as a whole)."""

    at: float
    what: str
    source: str
    line: int

    @property
    def clock(self) -> str:
        """UTC; stamps without a zone were read as UTC."""
        return datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d %H:%M:%S")


Series = Mapping[str, Sequence[tuple[int, float]]]
"""Name -> (minute since the epoch, mean) in time."""


def timeline(judged: Judged, series: Series, more: Sequence[Moment] = ()) -> list[Moment]:
    """Every moment once, in order; of a storm of exceptions the first ones."""
    moments: dict[tuple[float, str, int], Moment] = {}
    starts: list[Moment] = []
    for part in judged.parts:
        starts += (moment for one in part.group for moment in _starts(one))
        last_at = {name: max(at, _ends(series, name)) for name, at in part.case.last_at.items()}
        for moment in [*_said(part.case.facts), *_spans(part.case.facts, last_at)]:
            moments.setdefault((moment.at, moment.source, moment.line), moment)
    # The leading finding names a line that several point at.
    for finding in reversed(judged.diagnosis.findings):
        if finding.role not in ("root", "consequence") or finding.severity == "info":
            continue
        for place in finding.evidence[:1]:
            if place.at is not None:
                named = Moment(place.at, f"Evidence: {finding.title}", place.document, place.line)
                moments[place.at, place.document, place.line] = named
    found = [*dict.fromkeys(starts), *moments.values(), *_slow(series), *more]
    found.sort(key=lambda moment: (moment.at, moment.line or _END))
    return found


def _ends(series: Series, name: str) -> float:
    """When a text's last minute of speeds begins; 0 where it has none."""
    return series[name][-1][0] * 60.0 if series.get(name) else 0.0


def _starts(one: Chosen) -> Iterator[Moment]:
    """Each start of the server that is kept, where there are several."""
    launches = one.reading.launches
    settled = launches.settled()
    for number, launch in enumerate(settled, launches.count - len(settled) + 1):
        first = min(_places(launch.facts), key=lambda place: (place.line, place.at), default=None)
        if launches.count > 1 and first is not None and first.at is not None:
            yield Moment(first.at, f"Start {number} of {launches.count}", first.source, launch.first_line)


def _places(facts: FactBase) -> Iterator[Sighting]:
    for _, sightings in facts.facts():
        yield from (place for place in sightings.first[:1] if place.at is not None)


def _said(facts: FactBase) -> Iterator[Moment]:
    """What facts say of the life of the server."""
    found: list[tuple[Sighting, str]] = []
    for fact, sightings in facts.facts():
        said = _FACTS.get(fact.kind)
        place = sightings.first[0]
        if said and place.at is not None:
            detail = getattr(fact, "type", None) or getattr(fact, "how", None)
            found.append((place, f"{said}: {detail}" if detail else said))
    found.sort(key=lambda pair: (pair[0].at or 0.0, pair[0].place))
    first = True
    for place, what in found[:MAX_MOMENTS]:
        words = what
        if first and what.startswith("Exception"):
            words, first = f"First exception{what.removeprefix('Exception')}", False
        yield Moment(place.at or 0.0, words, place.source, place.line)


def _spans(facts: FactBase, last_at: Mapping[str, float]) -> Iterator[Moment]:
    """Where each text begins and ends."""
    first: dict[str, Sighting] = {}
    for _, sightings in facts.facts():
        for place in (*sightings.first[:1], *sightings.last[-1:]):
            known = first.get(place.source)
            if place.at is not None and (known is None or known.at is None or place.at < known.at):
                first[place.source] = place
    for source, place in first.items():
        assert place.at is not None
        yield Moment(place.at, BEGINS, source, place.line)
        last = last_at.get(source)
        if last is not None and last > place.at:
            yield Moment(last, ENDS, source, 0)


def _slow(series: Series) -> Iterator[Moment]:
    """The first minute that is much slower than the first third of the text."""
    for name, points in series.items():
        third = [mean for _, mean in points[: len(points) // 3]]
        if len(points) < MIN_MINUTES:
            continue
        before = sum(third) / len(third)
        slow = next(((at, mean) for at, mean in points[len(third) :] if mean <= SLOW * before), None)
        if slow is not None:
            at, mean = slow
            yield Moment(at * 60.0, f"First slow minute: {mean:.4g} tok/s, {before:.4g} before", name, 0)
