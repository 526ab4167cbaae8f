"""Which rules fire on a case, how sure, and what could not be checked. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from diagnoser.facts.base import Fact
from diagnoser.facts.factbase import Sighting
from diagnoser.inference.case import Case
from diagnoser.inference.evaluate import applies, evaluate
from diagnoser.inference.truth import NO, Outcome, Truth, disjunction
from diagnoser.inference.weights import log_odds, probability
from diagnoser.parsers.prefix import MAX_PREFIX, read_prefix
from diagnoser.rulebook.pack import Pack
from diagnoser.scan.template import MatchTimeoutError

MAX_EVIDENCE = 4


class Candidate(NamedTuple):
    """A rule held against a case.

    fired: its condition holds and nothing refutes it. Where it has not fired, ``missing`` says what would have
    to be read to decide; a refuted rule is no candidate at all. facts: what its signs matched.
    terms: what its confidence is made of. shown: the share of its needed signs that was seen.
    """

    rule: str
    fired: bool
    confidence: float
    severity: str
    evidence: tuple[Sighting, ...]
    missing: tuple[str, ...]
    facts: tuple[Fact, ...] = ()
    terms: tuple[tuple[str, int], ...] = ()
    shown: float = 1.0


def candidates(pack: Pack, case: Case, broken: list[str] | None = None) -> list[Candidate]:
    """All rules that fire or that may yet fire, in the order of their ids.

    A rule that cannot be evaluated is left out; ``broken`` takes a sentence about it.
    """
    watched = {
        identifier
        for family in case.facts.families
        for key in (family, family.split(":", 1)[0])
        for identifier in pack.watchers.get(key, ())
    }
    found = (_guarded(identifier, pack.causes[identifier], case, broken) for identifier in sorted(watched))
    return [candidate for candidate in found if candidate is not None]


def _guarded(
    identifier: str, cause: Mapping[str, Any], case: Case, broken: list[str] | None
) -> Candidate | None:
    try:
        return judge(identifier, cause, case)
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError, MatchTimeoutError) as error:
        # A user's rule may hold what no check foresaw, or a pattern that takes too long; it must not stop the answer.
        if broken is not None:
            broken.append(f"rule {identifier} could not be evaluated: {type(error).__name__}: {error}")
        return None


def judge(identifier: str, cause: Mapping[str, Any], case: Case) -> Candidate | None:
    """One rule against a case; None when something refutes it or nothing speaks for it."""
    every = _until(Truth.NO, cause["all"], case)
    if every is None:
        return None
    limits = applies(cause["applies"], case)
    if limits.truth is Truth.NO:
        return None
    nothing = _until(Truth.YES, cause["none"], case)
    if nothing is None:
        return None
    some = [evaluate(sign, case) for sign in cause["any"]]
    if some and all(outcome.truth is Truth.NO for outcome in some):
        return None
    needed = [*every, *([disjunction(some)] if some else [])]
    shown = [outcome for outcome in every + some if outcome.yes]
    if not shown:
        return None
    fired = all(outcome.yes for outcome in every) and (not some or any(outcome.yes for outcome in some))
    supports = [evaluate(sign, case) for sign in cause["supports"]]
    severity, raised = _severity(cause, case)
    terms = _terms(cause, case, limits, some, nothing, supports)
    missing = _missing([limits, *nothing, *([] if fired else every + some)])
    return Candidate(
        identifier,
        fired,
        round(probability(log_odds(terms)), 4),
        severity,
        _evidence(shown, [limits, raised, *(outcome for outcome in supports if outcome.yes)]),
        missing,
        tuple(fact for outcome in shown for fact in outcome.facts),
        tuple(terms.items()),
        sum(outcome.yes for outcome in needed) / len(needed),
    )


def _until(ending: Truth, signs: list[Any], case: Case) -> list[Outcome] | None:
    """The outcomes of all signs, or None as soon as one has the truth that refutes the rule."""
    outcomes: list[Outcome] = []
    for sign in signs:
        outcome = evaluate(sign, case)
        if outcome.truth is ending:
            return None
        outcomes.append(outcome)
    return outcomes


def _terms(
    cause: Mapping[str, Any],
    case: Case,
    limits: Outcome,
    some: list[Outcome],
    nothing: list[Outcome],
    supports: list[Outcome],
) -> dict[str, int]:
    """What speaks for and against, as counts of the terms of `weights.WEIGHTS`."""
    terms = {
        cause["strength"]: 1,
        "applies_unknown": min(2, len(limits.missing)),
        "none_unknown": int(any(outcome.truth is Truth.UNKNOWN for outcome in nothing)),
        "more_signs": min(2, max(0, sum(outcome.yes for outcome in some) - 1)),
        "supported": sum(outcome.yes for outcome in supports),
        "not_supported": sum(outcome.truth is Truth.NO for outcome in supports),
        "weakened": sum(evaluate(sign, case).yes for sign in cause["weakens"]),
    }
    return {term: count for term, count in terms.items() if count}


def _severity(cause: Mapping[str, Any], case: Case) -> tuple[str, Outcome]:
    """The severity here, and the sign that raised or lowered it."""
    for sign, severity in cause["severity_if"]:
        outcome = evaluate(sign, case)
        if outcome.yes:
            return str(severity), outcome
    return str(cause["severity"]), NO


def _evidence(signs: list[Outcome], around: list[Outcome]) -> tuple[Sighting, ...]:
    """The first place of every sign, then of what bears it out, then further ones that say something else.

    In the order of the text, each line and each text once.
    """
    chosen: dict[tuple[str, int], Sighting] = {}
    said: set[str] = set()
    first = [outcome.sightings[0] for outcome in signs if outcome.sightings]
    more = [outcome.sightings[0] for outcome in around if outcome.sightings]
    more += [place for outcome in signs for place in outcome.sightings[1:3]]
    for place in [*first, *more]:
        message = read_prefix(place.text[:MAX_PREFIX]).message + place.text[MAX_PREFIX:]
        if place.place in chosen or message in said or (place not in first and len(chosen) >= MAX_EVIDENCE):
            continue
        said.add(message)
        chosen[place.place] = place
    return tuple(sorted(chosen.values(), key=lambda place: place.place))


def _missing(outcomes: list[Outcome]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lack for outcome in outcomes for lack in outcome.missing))
