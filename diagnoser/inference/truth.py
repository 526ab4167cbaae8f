"""Three-valued truth and what a sign's evaluation gives."""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from diagnoser.facts.base import Fact
from diagnoser.facts.factbase import Sighting


class Truth(Enum):
    """Supported, refuted, or could not be checked."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Outcome(NamedTuple):
    """The truth of a sign, the places and facts that show it, and for UNKNOWN what would have to be read."""

    truth: Truth
    sightings: tuple[Sighting, ...] = ()
    missing: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()

    @property
    def yes(self) -> bool:
        return self.truth is Truth.YES


YES = Outcome(Truth.YES)
NO = Outcome(Truth.NO)


def unknown(*missing: str) -> Outcome:
    return Outcome(Truth.UNKNOWN, (), missing)


def conjunction(outcomes: Iterable[Outcome]) -> Outcome:
    """True when all are; false when one is false, whatever is unknown."""
    sightings: list[Sighting] = []
    facts: list[Fact] = []
    missing: list[str] = []
    refuted = False
    for outcome in outcomes:
        refuted = refuted or outcome.truth is Truth.NO
        sightings.extend(outcome.sightings)
        facts.extend(outcome.facts)
        missing.extend(outcome.missing)
    if refuted:
        return NO
    truth = Truth.UNKNOWN if missing else Truth.YES
    return Outcome(truth, tuple(sightings), tuple(dict.fromkeys(missing)), tuple(facts))


def disjunction(outcomes: Iterable[Outcome]) -> Outcome:
    """True when one is; false when all are false."""
    sightings: list[Sighting] = []
    facts: list[Fact] = []
    missing: list[str] = []
    found = False
    for outcome in outcomes:
        if outcome.yes:
            found = True
            sightings.extend(outcome.sightings)
            facts.extend(outcome.facts)
        missing.extend(outcome.missing)
    if found:
        return Outcome(Truth.YES, tuple(sightings), (), tuple(facts))
    return Outcome(Truth.UNKNOWN, (), tuple(dict.fromkeys(missing))) if missing else NO


def negation(outcome: Outcome) -> Outcome:
    if outcome.truth is Truth.UNKNOWN:
        return outcome
    return NO if outcome.yes else YES
