"""Tracebacks that follow the first failure: named, and not taken for causes."""

from collections.abc import Collection

from diagnoser.facts.engine import ExceptionRaised
from diagnoser.facts.factbase import Sighting
from diagnoser.inference.case import Case
from diagnoser.inference.diagnosis import Finding
from diagnoser.inference.documents import Named

MAX_ECHOES = 8


def echoes(
    case: Case, named: Named, shown: Collection[tuple[str, int]], because_of: str | None
) -> list[Finding]:
    """One finding for each later exception, in the order of the text.

    shown: places that are evidence already; an exception there is no echo. because_of: the leading rule.
    """
    raised: list[tuple[Sighting, ExceptionRaised]] = []
    for fact, sightings in case.facts.of(ExceptionRaised.kind):
        if isinstance(fact, ExceptionRaised):
            raised.append((sightings.first[0], fact))
    raised.sort(key=lambda item: (item[0].place, item[1].type))
    first_of: dict[str, Sighting] = {}
    found = []
    for place, fact in raised:
        if first_of.setdefault(place.source, place) is place or place.place in shown:
            continue
        found.append(_echo(place, fact, named, because_of))
    return found[:MAX_ECHOES]


def _echo(place: Sighting, fact: ExceptionRaised, named: Named, because_of: str | None) -> Finding:
    return Finding(
        rule="exception-echo",
        title=f"{fact.type} after the first failure",
        kind="symptom",
        role="echo",
        effect="none",
        severity="info",
        confidence=0.9,
        summary="It was raised behind the first exception of this log and most likely follows from it.",
        evidence=[named.evidence(place)],
        because_of=because_of,
    )
