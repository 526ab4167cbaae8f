"""Candidates x graph -> ranked findings with roles. Pure: any order of input gives the same output."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from diagnoser.inference.candidates import Candidate
from diagnoser.inference.diagnosis import SEVERITY_RANK

SHOWN_FROM = 0.35
"""A finding less likely than this explains nothing and is not shown."""

SEVERITY_WEIGHT = {"info": 0.02, "low": 0.3, "medium": 0.6, "high": 0.9, "critical": 1.0}
FATAL = frozenset(["startup_failure", "crash", "hang"])


class Ranked(NamedTuple):
    """A fired candidate with its role; ``because_of`` is the rule that explains or excludes it."""

    candidate: Candidate
    role: str
    because_of: str | None
    score: float


def resolve(
    fired: Iterable[Candidate], causes: Mapping[str, Mapping[str, Any]], *, started: bool | None
) -> list[Ranked]:
    """Roles and order.

    started: whether the server said it was ready (None: the text does not tell). A cause of a failed start
    says little about a server that serves, and a slow path says little about one that did not start.
    """
    by_rule = {candidate.rule: candidate for candidate in fired if candidate.confidence >= SHOWN_FROM}
    scores = {rule: _score(candidate, causes[rule], started) for rule, candidate in by_rule.items()}
    order = sorted(by_rule, key=lambda rule: (-scores[rule], _first_place(by_rule[rule]), rule))
    because = _explained(order, by_rule, causes)
    ranked = [
        Ranked(
            by_rule[rule],
            _role(rule, by_rule[rule].severity, causes, because),
            because.get(rule),
            round(scores[rule], 6),
        )
        for rule in order
    ]
    return sorted(
        ranked,
        key=lambda item: (
            ROLE_ORDER[item.role],
            item.candidate.severity == "info",
            -item.score,
            item.candidate.rule,
        ),
    )


ROLE_ORDER = {"root": 0, "consequence": 1, "bystander": 2, "echo": 3}


def _score(candidate: Candidate, cause: Mapping[str, Any], started: bool | None) -> float:
    score = candidate.confidence * SEVERITY_WEIGHT[candidate.severity]
    fatal = cause["effect"] in FATAL
    if cause["kind"] == "symptom":
        score *= 0.5
    if started is False and fatal:
        score *= 2
    if started is True and cause["effect"] == "startup_failure":
        score *= 0.4
    return score


def _first_place(candidate: Candidate) -> tuple[str, int]:
    return candidate.evidence[0].place if candidate.evidence else ("", 0)


def _explained(
    order: list[str], by_rule: Mapping[str, Candidate], causes: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Rule -> the best-ranked rule that excludes or explains it. Two rules never explain each other.

    Exclusion comes first: a rule that is beaten by a more specific one explains only what nothing else does.
    """
    because: dict[str, str] = {}
    # A bystander explains nothing, but may say that something else means nothing here.
    _assign(because, ((rule, causes[rule]["excludes"]) for rule in order), by_rule)
    speaking = [rule for rule in order if causes[rule]["kind"] != "bystander"]
    speaking.sort(key=lambda rule: rule in because)
    _assign(because, ((rule, causes[rule]["explained"]) for rule in speaking), by_rule)
    return because


def _assign(
    because: dict[str, str], edges: Iterable[tuple[str, Iterable[str]]], by_rule: Mapping[str, Candidate]
) -> None:
    for rule, targets in edges:
        for target in targets:
            if target in by_rule and target not in because and not _leads_to(target, rule, because):
                because[target] = rule


def _leads_to(start: str, rule: str, because: Mapping[str, str]) -> bool:
    """Whether ``rule`` is already explained, directly or not, by ``start``."""
    seen = set()
    while rule in because and rule not in seen:
        seen.add(rule)
        rule = because[rule]
        if rule == start:
            return True
    return False


def _role(
    rule: str, severity: str, causes: Mapping[str, Mapping[str, Any]], because: Mapping[str, str]
) -> str:
    if causes[rule]["kind"] == "bystander":
        return "bystander"
    if rule in because:
        return "consequence"
    return "bystander" if causes[rule]["kind"] == "symptom" and severity == "info" else "root"


def is_known(item: Ranked, causes: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a root answers the question what is wrong; a symptom only says what is seen."""
    return (
        item.role == "root"
        and causes[item.candidate.rule]["kind"] == "cause"
        and SEVERITY_RANK[item.candidate.severity] > 0
    )
