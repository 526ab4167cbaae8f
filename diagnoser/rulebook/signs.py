"""Conditions as rule files write them -> plain tables that inference evaluates.

A sign is one of:

* ``{message: ID, FIELD: CONSTRAINT..., times: ">=3", within: 10m}``
* ``{fact: KIND, FIELD: CONSTRAINT..., times: ">=3", within: 10m}``; ``distinct: FIELD`` beside ``times`` counts
  different values of a field instead of sightings. ``count`` is another word for ``times`` where the fact has no
  field of that name.
* ``{sequence: [SIGN, SIGN...], within: 60s}``: in this order, all inside the window
* ``{after: SIGN, absent: SIGN, within: 60s}``: the first, and the second not inside the window behind it
* ``{all: [...]}``, ``{any: [...]}``, ``{none: [...]}``
* ``{applies: {...}}``: what the rule's own ``applies`` may say (versions, GPU, model)

A constraint is a value, a list of values, ">=5" and its kin, or a mapping of operators: gt, ge, lt, le, ne, in,
not_in, contains, matches (regular expression), spec (version range), below / above (another field), exists.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from diagnoser.facts.base import Fact

Constraint = tuple[str, str, Any]
"""(field, operator, operand)"""

OPERATORS = (
    "eq",
    "ne",
    "gt",
    "ge",
    "lt",
    "le",
    "in",
    "not_in",
    "contains",
    "matches",
    "spec",
    "below",
    "above",
    "exists",
)

_COMPARISON = re.compile(r"^(>=|<=|!=|>|<)\s*(-?\d+(?:\.\d+)?)$")
_SYMBOLS = {">=": "ge", "<=": "le", "!=": "ne", ">": "gt", "<": "lt"}
_DURATION = re.compile(r"^(\d+(?:\.\d+)?)\s*(s|m|h|d)$")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class SignError(ValueError):
    """A sign that cannot be understood, with the reason and the cure."""


def hint(word: str, known: list[str]) -> str:
    """`did you mean ...?` for a word that is close to a known one."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known)[:40])}"


def duration_s(text: Any) -> float:
    """Seconds of "90s", "10m", "2h", "1d". Raises `SignError`."""
    found = _DURATION.match(str(text))
    if found is None:
        raise SignError(f"{text!r} is no length of time; write 90s, 10m, 2h or 1d")
    return float(found.group(1)) * _UNITS[found.group(2)]


def compile_sign(sign: Mapping[str, Any], kinds: Mapping[str, type[Fact]]) -> list[Any]:
    """The plain table of a sign. Raises `SignError`."""
    if not isinstance(sign, Mapping):
        raise SignError(f"a sign is a mapping such as {{fact: gpu, under_load: true}}, not {sign!r}")
    for group in ("all", "any", "none"):
        if group in sign:
            _only(sign, {group})
            return [group, [compile_sign(inner, kinds) for inner in sign[group]]]
    if "sequence" in sign:
        _only(sign, {"sequence", "within"})
        return ["sequence", [compile_sign(inner, kinds) for inner in sign["sequence"]], _window(sign)]
    if "absent" in sign:
        _only(sign, {"after", "absent", "within"})
        after, absent = sign.get("after"), sign["absent"]
        if after is None:
            raise SignError("`absent` needs `after`: the sign whose answer is missing")
        return ["absent", compile_sign(after, kinds), compile_sign(absent, kinds), _window(sign)]
    if "applies" in sign:
        _only(sign, {"applies"})
        return ["applies", dict(sign["applies"])]
    if "fact" in sign:
        kind = str(sign["fact"])
        if kind not in kinds:
            raise SignError(f"unknown fact {kind!r}; {hint(kind, list(kinds))}")
        return _leaf("fact", kind, sign, kinds[kind])
    if "message" in sign:
        return _leaf("message", str(sign["message"]), sign, None)
    raise SignError(
        f"a sign begins with fact, message, sequence, absent, applies, all, any or none; this one has {', '.join(sign)}"
    )


def _leaf(form: str, name: str, sign: Mapping[str, Any], fact: type[Fact] | None) -> list[Any]:
    constraints: list[Constraint] = []
    counts_as_field = fact is not None and "count" in fact.model_fields
    reserved = {form, "times", "within", "distinct"} | (set() if counts_as_field else {"count"})
    for field, wanted in sign.items():
        if field in reserved:
            continue
        if fact is not None and field not in fact.model_fields:
            raise SignError(f"fact {name!r} has no field {field!r}; {hint(field, list(fact.model_fields))}")
        constraints.extend(_constraints(field, wanted, fact))
    count = _count(sign.get("times", None if counts_as_field else sign.get("count")))
    within = duration_s(sign["within"]) if "within" in sign else None
    if within is not None and count is None:
        raise SignError("`within` needs `times`: how many in that time")
    distinct = sign.get("distinct")
    if distinct is not None and fact is not None and distinct not in fact.model_fields:
        raise SignError(f"fact {name!r} has no field {distinct!r}; {hint(distinct, list(fact.model_fields))}")
    return [form, name, constraints, count, within, distinct]


def _constraints(field: str, wanted: Any, fact: type[Fact] | None) -> Iterator[Constraint]:
    if isinstance(wanted, Mapping):
        for operator, operand in wanted.items():
            if operator not in OPERATORS:
                raise SignError(f"unknown operator {operator!r}; {hint(operator, list(OPERATORS))}")
            if operator in ("below", "above") and fact is not None and operand not in fact.model_fields:
                raise SignError(f"no field {operand!r}; {hint(operand, list(fact.model_fields))}")
            if operator == "matches":
                _check_pattern(operand)
            yield (field, operator, operand)
        return
    if isinstance(wanted, list):
        yield (field, "in", wanted)
        return
    comparison = _COMPARISON.match(wanted) if isinstance(wanted, str) else None
    if comparison:
        yield (field, _SYMBOLS[comparison.group(1)], float(comparison.group(2)))
    else:
        yield (field, "eq", wanted)


def _check_pattern(pattern: Any) -> None:
    try:
        re.compile(str(pattern))
    except re.error as error:
        raise SignError(f"{pattern!r} is no regular expression: {error}") from error


def _count(wanted: Any) -> list[Any] | None:
    if wanted is None:
        return None
    if isinstance(wanted, int):
        return ["ge", wanted]
    comparison = _COMPARISON.match(str(wanted))
    if comparison is None:
        raise SignError(f'{wanted!r} is no count; write ">=3"')
    return [_SYMBOLS[comparison.group(1)], float(comparison.group(2))]


def _window(sign: Mapping[str, Any]) -> float:
    if "within" not in sign:
        raise SignError("a sequence or an absence needs `within`, so that it is bounded")
    return duration_s(sign["within"])


def _only(sign: Mapping[str, Any], allowed: set[str]) -> None:
    extra = sorted(set(sign) - allowed)
    if extra:
        raise SignError(f"{', '.join(extra)} does not belong beside {', '.join(sorted(allowed & set(sign)))}")


def leaves(sign: list[Any]) -> Iterator[list[Any]]:
    """The fact and message signs inside a compiled sign."""
    form = sign[0]
    if form in ("message", "fact"):
        yield sign
    elif form in ("all", "any", "none", "sequence"):
        for inner in sign[1]:
            yield from leaves(inner)
    elif form == "absent":
        yield from leaves(sign[1])
        yield from leaves(sign[2])
