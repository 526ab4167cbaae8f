"""The next question: whose answer would move the ranking most."""

from collections.abc import Mapping, Sequence
from typing import Any

from diagnoser.inference.candidates import Candidate
from diagnoser.inference.diagnosis import Question
from diagnoser.inference.lacks import BY_NAME
from diagnoser.inference.resolve import SEVERITY_WEIGHT

MAX_QUESTIONS = 4

MOSTLY = 0.6
"""The share of a rule's signs that must be seen before it asks for the rest."""


def questions(
    found: Sequence[Candidate], causes: Mapping[str, Mapping[str, Any]], *, known: bool
) -> list[Question]:
    """Questions by what hangs on them: the confidence and weight of the rules that wait for the answer.

    A rule's own ``ask`` comes before the general "read this document". A rule that has not fired asks only where
    no cause is known, and where most of what it needs was seen.
    """
    stakes: dict[tuple[str, str], float] = {}
    deciding: dict[tuple[str, str], list[str]] = {}
    for candidate in sorted(found, key=lambda one: one.rule):
        cause = causes[candidate.rule]
        waits = candidate.fired or (not known and candidate.shown >= MOSTLY and candidate.severity != "info")
        if not candidate.missing or not waits or cause["kind"] == "bystander":
            continue
        stake = candidate.confidence * SEVERITY_WEIGHT[candidate.severity]
        stake *= 1 if candidate.fired else candidate.shown / 2
        for key in _asked(candidate, cause):
            stakes[key] = stakes.get(key, 0) + stake
            deciding.setdefault(key, []).append(candidate.rule)
    order = sorted(stakes, key=lambda key: (-stakes[key], key))
    return [Question(question=key[0], command=key[1], decides=deciding[key]) for key in order[:MAX_QUESTIONS]]


def _asked(candidate: Candidate, cause: Mapping[str, Any]) -> list[tuple[str, str]]:
    own = [(ask["question"], ask["command"]) for ask in cause["ask"]]
    return own or [_question(lack) for lack in candidate.missing[:2]]


def _question(lack: str) -> tuple[str, str]:
    known = BY_NAME.get(lack)
    return (known.question, known.command) if known else (f"What about {lack}?", lack)
