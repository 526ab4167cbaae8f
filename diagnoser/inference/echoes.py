"""Tracebacks that follow the first failure: named, and not taken for causes."""

from collections.abc import Collection, Sequence

from diagnoser.facts.engine import ExceptionRaised
from diagnoser.facts.factbase import Sighting
from diagnoser.inference.case import Case
from diagnoser.inference.diagnosis import Finding
from diagnoser.inference.documents import Named

MAX_ECHOES = 8

FOLLOWS_WITHIN_S = 120
"""How long after the failure its echoes come. Engines give their workers 30 to 60 s to end (vllm's and sglang's
watchdogs), then the parents report."""


def echoes(
    case: Case, named: Named, shown: Collection[tuple[str, int]], failure: Sequence[Sighting], because_of: str
) -> list[Finding]:
    """One finding for each exception that follows from a failure, in the order of the text.

    shown: places that are evidence already; an exception there is no echo. failure: the evidence of the leading
    cause, which ended the server or kept it from starting; because_of: its rule.
    """
    raised: list[tuple[Sighting, ExceptionRaised]] = []
    for fact, sightings in case.facts.of(ExceptionRaised.kind):
        if isinstance(fact, ExceptionRaised):
            raised.append((sightings.first[0], fact))
    raised.sort(key=lambda item: (item[0].place, item[1].type))
    found = [
        _echo(place, fact, named, because_of)
        for place, fact in raised
        if place.place not in shown and any(_follows(place, start) for start in failure)
    ]
    return found[:MAX_ECHOES]


def _follows(place: Sighting, failure: Sighting) -> bool:
    """Behind the failure in its log and soon after it; another process may have reported first."""
    if place.source != failure.source:
        return False
    if place.at is not None and failure.at is not None:
        after = place.at - failure.at
        return 0 <= after <= FOLLOWS_WITHIN_S and (place.line > failure.line or place.rank != failure.rank)
    return place.line > failure.line


def _echo(place: Sighting, fact: ExceptionRaised, named: Named, because_of: str) -> Finding:
    return Finding(
        rule="exception-echo",
        title=f"{fact.type} after the first failure",
        kind="symptom",
        role="echo",
        effect="none",
        severity="info",
        confidence=0.9,
        summary="It was raised soon after the failure and most likely follows from it.",
        evidence=[named.evidence(place)],
        because_of=because_of,
    )
