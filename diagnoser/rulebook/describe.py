"""Compiled conditions in words, for people: explanations, the catalogue, the editor's eye."""

from collections.abc import Callable, Mapping
from typing import Any

GROUPS = {"all": "all of", "any": "at least one of", "none": "none of"}

FORMS = {
    "eq": "is {}",
    "ne": "is not {}",
    "gt": "above {}",
    "ge": "at least {}",
    "lt": "below {}",
    "le": "at most {}",
    "in": "is {}",
    "not_in": "is neither of {}",
    "contains": "contains {}",
    "matches": "matches {}",
    "spec": "in {}",
    "below": "below its {}",
    "above": "above its {}",
}
"""Operator -> words around its operand; ``exists`` stands apart, its operand is a yes or a no."""

COUNTS = {"gt": "more than", "ge": "at least", "lt": "fewer than", "le": "at most", "ne": "not"}

_SPANS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def describe(sign: list[Any]) -> str:
    """A compiled sign (see `rulebook.signs`) in one line."""
    form = sign[0]
    if form in GROUPS:
        return f"{GROUPS[form]} ({'; '.join(map(describe, sign[1]))})"
    if form == "sequence":
        return f"{describe_order(sign)}: {'; '.join(map(describe, sign[1]))}"
    if form == "absent":
        return f"after ({describe(sign[1])}) not within {span(sign[3])}: {describe(sign[2])}"
    if form == "applies":
        return describe_applies(sign[1])
    return describe_leaf(sign)


def describe_order(sign: list[Any]) -> str:
    """The head of a sequence."""
    return f"in this order, within {span(sign[2])}"


def describe_leaf(sign: list[Any], quote: Callable[[str], str] = str) -> str:
    """A message or fact sign; ``quote`` sets off what comes from the rule file (code in Markdown)."""
    form, name, constraints, count, within_s, distinct = sign
    text = f"{form} {quote(name)}"
    if constraints:
        text += " with " + ", ".join(
            _constraint(field, operator, operand, quote) for field, operator, operand in constraints
        )
    if count is not None:
        counted = f"different {quote(distinct)}" if distinct else "times"
        text += f", {COUNTS[count[0]]} {count[1]:g} {counted}" + (f" in {span(within_s)}" if within_s else "")
    return text


def describe_applies(conditions: Mapping[str, Any]) -> str:
    """What a rule is limited to: versions, GPU, model, driver."""
    return ", ".join(f"{name} {value(wanted)}" for name, wanted in conditions.items())


def value(given: Any) -> str:
    """A value of a rule file; several of them as alternatives."""
    if isinstance(given, Mapping):
        return ", ".join(f"{key} {value(inner)}" for key, inner in given.items())
    if isinstance(given, list):
        return one_of([value(inner) for inner in given])
    if isinstance(given, bool) or given is None:
        return {True: "true", False: "false", None: "not shown"}[given]
    return f"{given:g}" if isinstance(given, float) else str(given)


def one_of(words: list[str]) -> str:
    """Alternatives in words ("a, b or c")."""
    return " or ".join([*([", ".join(words[:-1])] if words[:-1] else []), *words[-1:]]) or "nothing"


def span(seconds: float) -> str:
    """A length of time as people write it ("10 min")."""
    for unit, name in _SPANS:
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} s"


def _constraint(field: str, operator: str, operand: Any, quote: Callable[[str], str]) -> str:
    if operator == "exists":
        return f"{quote(field)} {'shown' if operand else 'not shown'}"
    bare = operator == "eq" and (operand is None or isinstance(operand, bool))
    operands = operand if isinstance(operand, list) else [operand]
    shown = one_of([value(one) if bare else quote(value(one)) for one in operands])
    return f"{quote(field)} " + FORMS[operator].format(shown)
