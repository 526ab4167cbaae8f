"""Why a rule is, or is not, the answer: every condition with its value."""

from collections.abc import Iterator
from typing import Any

from diagnoser.inference.case import Case
from diagnoser.inference.diagnose import Judged
from diagnoser.inference.evaluate import applies, evaluate
from diagnoser.inference.truth import Outcome, Truth
from diagnoser.rulebook.pack import Pack

MARKS = {Truth.YES: "yes    ", Truth.NO: "no     ", Truth.UNKNOWN: "unknown"}


def explain(rule: str, judged: Judged, pack: Pack) -> str:
    """The conditions of a rule held against what was read, and the role it got."""
    return "\n".join(_lines(rule, judged, pack.causes[rule]))


def _lines(rule: str, judged: Judged, cause: dict[str, Any]) -> Iterator[str]:
    yield f"{rule}: {cause['title']}"
    yield f"  {_verdict(rule, judged)}"
    case = judged.case
    if cause["applies"]:
        yield "  applies to"
        for name, wanted in cause["applies"].items():
            yield from _condition(f"{name} {_short(wanted)}", applies({name: wanted}, case))
    for group, heading in (
        ("all", "all of"),
        ("any", "at least one of"),
        ("none", "none of"),
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


def describe(sign: list[Any]) -> str:
    """A compiled sign in words."""
    form = sign[0]
    if form in ("all", "any", "none"):
        return f"{form} of ({'; '.join(describe(inner) for inner in sign[1])})"
    if form == "sequence":
        return f"in this order within {sign[2]:g} s: {'; '.join(describe(inner) for inner in sign[1])}"
    if form == "absent":
        return f"after {describe(sign[1])}, not within {sign[3]:g} s: {describe(sign[2])}"
    if form == "applies":
        return _short(sign[1])
    _, name, constraints, count, within_s = sign
    text = f"{form} {name}"
    if constraints:
        text += " with " + ", ".join(
            f"{field} {operator} {_short(operand)}" for field, operator, operand in constraints
        )
    if count is not None:
        text += f", {count[0]} {count[1]:g} times" + (f" in {within_s:g} s" if within_s else "")
    return text


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_short(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return "/".join(map(str, value))
    return str(value)


def _verdict(rule: str, judged: Judged) -> str:
    for item in judged.ranked:
        if item.candidate.rule == rule:
            because = f" because of {item.because_of}" if item.because_of else ""
            likely = f"probability {item.candidate.confidence:.2f}"
            return f"found: {item.role}{because}, {item.candidate.severity}, {likely}"
    for candidate in judged.found:
        if candidate.rule == rule:
            return "not decided: " + "; ".join(candidate.missing) + " would tell"
    return "not found: a condition is refuted, or nothing speaks for it"
