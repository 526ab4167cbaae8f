"""Why a rule is, or is not, the answer: every condition with its value."""

from collections.abc import Iterator
from typing import Any

from diagnoser.inference.case import Case
from diagnoser.inference.diagnose import Judged, Part
from diagnoser.inference.evaluate import applies, evaluate
from diagnoser.inference.truth import Outcome, Truth
from diagnoser.rulebook.describe import GROUPS, describe, describe_applies
from diagnoser.rulebook.pack import Pack

MARKS = {Truth.YES: "yes    ", Truth.NO: "no     ", Truth.UNKNOWN: "unknown"}


def explain(rule: str, judged: Judged, pack: Pack) -> str:
    """The conditions of a rule held against what was read, and the role it got.

    With several servers: against the one where the rule was found, else the one with the leading finding.
    """
    found = (part for part in judged.parts if any(item.candidate.rule == rule for item in part.ranked))
    return "\n".join(_lines(rule, next(found, judged.parts[0]), pack.causes[rule]))


def _lines(rule: str, part: Part, cause: dict[str, Any]) -> Iterator[str]:
    yield f"{rule}: {cause['title']}"
    yield f"  {_verdict(rule, part)}"
    case = part.case
    if cause["applies"]:
        yield "  applies to"
        for name, wanted in cause["applies"].items():
            yield from _condition(describe_applies({name: wanted}), applies({name: wanted}, case))
    for group, heading in (
        *GROUPS.items(),
        ("supports", "made likelier by"),
        ("weakens", "made less likely by"),
    ):
        if cause[group]:
            yield f"  {heading}"
            for sign in cause[group]:
                yield from _sign(sign, case)


def _sign(sign: list[Any], case: Case) -> Iterator[str]:
    yield from _condition(describe(sign), evaluate(sign, case))


def _condition(text: str, outcome: Outcome) -> Iterator[str]:
    yield f"    {MARKS[outcome.truth]}  {text}"
    for place in outcome.sightings[:2]:
        yield f"               {place.source}:{place.line}  {place.text.partition(chr(10))[0][:160]}"
    if outcome.missing:
        yield f"               needs: {'; '.join(outcome.missing)}"


def _verdict(rule: str, part: Part) -> str:
    for item in part.ranked:
        if item.candidate.rule == rule:
            because = f" because of {item.because_of}" if item.because_of else ""
            likely = f"probability {item.candidate.confidence:.2f}"
            return f"found: {item.role}{because}, {item.candidate.severity}, {likely}"
    for candidate in part.found:
        if candidate.rule == rule:
            return "not decided: " + "; ".join(candidate.missing) + " would tell"
    return "not found: a condition is refuted, or nothing speaks for it"
