"""Signs against a case: three-valued, pure."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from diagnoser.facts.base import Fact
from diagnoser.facts.engine import Message
from diagnoser.facts.factbase import Sighting, Sightings, Tally
from diagnoser.inference import versions
from diagnoser.inference.case import Case
from diagnoser.inference.narrow import narrow
from diagnoser.inference.truth import NO, YES, Outcome, Truth, conjunction, disjunction, negation, unknown
from diagnoser.scan.template import match_pattern

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "gt": lambda left, right: left > right,
    "ge": lambda left, right: left >= right,
    "lt": lambda left, right: left < right,
    "le": lambda left, right: left <= right,
}


SHOWN_PLACES = 6
"""How many places of a sign are told; whoever compares places with each other asks for `ALL_PLACES`."""

ALL_PLACES = 1 << 20


def evaluate(sign: list[Any], case: Case, places: int = SHOWN_PLACES) -> Outcome:
    """The outcome of a compiled sign (see `rulebook.signs`)."""
    form = sign[0]
    if form == "all":
        return conjunction(evaluate(inner, case, places) for inner in sign[1])
    if form == "any":
        return disjunction(evaluate(inner, case, places) for inner in sign[1])
    if form == "none":
        return conjunction(negation(evaluate(inner, case)) for inner in sign[1])
    if form == "applies":
        return applies(sign[1], case)
    if form == "sequence":
        return _sequence(sign[1], sign[2], case)
    if form == "absent":
        return _absent(sign[1], sign[2], sign[3], case)
    return _leaf(sign, case, places)


Matches = list[tuple[Fact, Sightings]]


def _leaf(sign: list[Any], case: Case, most: int) -> Outcome:
    form, name, constraints, times, *_ = sign
    matching, unsure = _matching(form, name, constraints, case)
    if matching:
        places = _places(matching, most)
        if name == "gpu":
            places = tuple(narrow(place, [field for field, *_ in constraints]) for place in places)
        found = Outcome(Truth.YES, places, (), tuple(fact for fact, _ in matching[:3]))
        if times is None:
            return found
        operator, wanted = times
        total = _total(sign, matching, case)
        holds = total != wanted if operator == "ne" else _COMPARE[operator](total, wanted)
        return found if holds else NO
    if unsure:
        return unknown(*unsure)
    lack = case.not_shown("message" if form == "message" else name)
    return unknown(lack) if lack else NO


def _matching(form: str, name: str, constraints: list[Any], case: Case) -> tuple[Matches, list[str]]:
    matching: Matches = []
    unsure: list[str] = []
    for fact, sightings in case.facts.of(_family(form, name, constraints)):
        truth = _holds(fact, constraints)
        if truth is Truth.YES:
            matching.append((fact, sightings))
        elif truth is Truth.UNKNOWN:
            unsure.append(case.asks_for(fact.kind))
    return matching, unsure


_KEYS = {
    "server_arg": "name",
    "capacity": "name",
    "package": "name",
    "series": "metric",
    "series_trend": "metric",
}
"""Kinds whose facts are counted by the value of one field, so that one value need not look at all of them."""


def _family(form: str, name: str, constraints: list[Any]) -> str:
    if form == "message":
        return f"message:{name}"
    key = _KEYS.get(name)
    if key is not None:
        for field, operator, operand in constraints:
            if field == key and operator == "eq":
                return f"{name}:{operand}"
    return name


def _total(sign: list[Any], matching: Matches, case: Case) -> float:
    """How many sightings, or different values, in all or in the busiest stretch of so many seconds."""
    form, name, constraints, _, within_s, distinct = sign
    if distinct is not None:
        return _distinct(distinct, within_s, matching)
    if within_s is None:
        return sum(sightings.count for _, sightings in matching)
    if not constraints:
        tally = case.facts.tally(_family(form, name, []))
        return tally.most_within(within_s) if tally else 0
    # Only some facts of the family count, so the places kept of them must do.
    kept = Tally()
    for _, sightings in matching:
        for place in sightings.kept():
            kept.add(place.at)
    return kept.most_within(within_s)


def _distinct(field: str, within_s: float | None, matching: Matches) -> int:
    """How many different values, in all or in the stretch of so many seconds that has the most."""
    said = [(values_of(fact).get(field), sightings) for fact, sightings in matching]
    if within_s is None:
        return len({value for value, _ in said} - {None})
    times = sorted(
        (
            (place.at, value)
            for value, sightings in said
            for place in sightings.kept()
            if place.at is not None
        ),
        key=lambda one: (one[0], str(one[1])),
    )
    inside: Counter[Any] = Counter()
    most = first = 0
    for at, value in times:
        inside[value] += value is not None
        while times[first][0] < at - within_s:
            inside[times[first][1]] -= times[first][1] is not None
            first += 1
        most = max(most, sum(count > 0 for count in inside.values()))
    return most


def _places(matching: Matches, most: int) -> tuple[Sighting, ...]:
    if most == SHOWN_PLACES:
        places = (place for _, sightings in matching for place in sightings.first)
    else:
        places = (place for _, sightings in matching for place in sightings.kept())
    return tuple(sorted(places, key=lambda place: place.place)[:most])


def values_of(fact: Fact) -> dict[str, Any]:
    """The fields of a fact; of a message its captures."""
    return dict(fact.fields) if isinstance(fact, Message) else dict(fact)


def _holds(fact: Fact, constraints: list[Any]) -> Truth:
    if not constraints:
        return Truth.YES
    values: dict[str, Any] | None = dict(fact.fields) if isinstance(fact, Message) else None
    unsure = False
    for field, operator, operand in constraints:
        value = getattr(fact, field, None) if values is None else values.get(field)
        other = getattr(fact, str(operand), None) if operator in ("below", "above") else None
        truth = check(value, operator, operand, other)
        if truth is Truth.NO:
            return Truth.NO
        unsure = unsure or truth is Truth.UNKNOWN
    return Truth.UNKNOWN if unsure else Truth.YES


def check(value: Any, operator: str, operand: Any, other: Any = None) -> Truth:
    """One constraint. None is "not shown" and leaves everything but ``exists`` open.

    Raises `MatchTimeoutError` where an expression ran into its time limit.
    """
    if operator == "exists":
        return _truth((value is not None) == operand)
    if operator == "eq" and operand is None:
        return _truth(value is None)
    if value is None:
        return Truth.UNKNOWN
    if operator in ("below", "above"):
        if not isinstance(value, int | float) or not isinstance(other, int | float):
            return Truth.UNKNOWN
        return _truth(value < other if operator == "below" else value > other)
    if operator == "spec":
        return versions.within(str(value), str(operand))
    if operator == "matches":
        return _truth(match_pattern(operand, str(value)[:4000]) is not None)
    if operator == "contains":
        wanted = operand if isinstance(operand, list) else [operand]
        return _truth(any(str(part).casefold() in str(value).casefold() for part in wanted))
    if operator in ("eq", "ne"):
        return _truth(_same(value, operand) == (operator == "eq"))
    if operator in ("in", "not_in"):
        return _truth(any(_same(value, one) for one in operand) == (operator == "in"))
    number = _number(value)
    return Truth.NO if number is None else _truth(_COMPARE[operator](number, float(operand)))


def _truth(holds: bool) -> Truth:
    return Truth.YES if holds else Truth.NO


def _same(value: Any, operand: Any) -> bool:
    if isinstance(value, bool) or isinstance(operand, bool):
        return value is operand or str(value).casefold() == str(operand).casefold()
    if isinstance(operand, int | float):
        number = _number(value)
        return number is not None and number == operand
    return str(value).casefold() == str(operand).casefold()


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _sequence(signs: list[Any], within_s: float, case: Case) -> Outcome:
    outcomes = [evaluate(sign, case, ALL_PLACES) for sign in signs]
    together = conjunction(outcomes)
    if not together.yes:
        return together
    for start in outcomes[0].sightings:
        chain = [start]
        for outcome in outcomes[1:]:
            following = next(
                (place for place in outcome.sightings if _follows(chain[-1], place, start, within_s)), None
            )
            if following is None:
                break
            chain.append(following)
        if len(chain) == len(signs):
            return Outcome(Truth.YES, tuple(chain))
    return NO


def _follows(before: Sighting, after: Sighting, start: Sighting, within_s: float) -> bool:
    if after.source != before.source or after.line <= before.line:
        return False
    return start.at is None or after.at is None or after.at - start.at <= within_s


def _absent(after: list[Any], absent: list[Any], within_s: float, case: Case) -> Outcome:
    first = evaluate(after, case, ALL_PLACES)
    if not first.yes:
        return first
    answers = evaluate(absent, case, ALL_PLACES).sightings
    for place in first.sightings:
        if any(_follows(place, answer, place, within_s) for answer in answers):
            continue
        end = case.last_at.get(place.source)
        if place.at is None or end is None or end - place.at < within_s:
            return unknown(f"the log beyond {within_s:g} s after line {place.line}")
        return Outcome(Truth.YES, (place,))
    return NO


def applies(conditions: dict[str, Any], case: Case) -> Outcome:
    """Versions, GPU and model that a rule is limited to."""
    return conjunction(_condition(name, wanted, case) for name, wanted in conditions.items())


def _condition(name: str, wanted: Any, case: Case) -> Outcome:
    if name == "gpu":
        return conjunction(_any_of("gpu", field, value, case) for field, value in wanted.items())
    if name == "model":
        return conjunction(_any_of("model", field, value, case) for field, value in wanted.items())
    if name == "driver":
        return _spec(case.driver, str(wanted), case.asks_for("smi"))
    if name == "engine":
        names = wanted if isinstance(wanted, list) else [wanted]
        return disjunction(_engine(one, "*", case) for one in names)
    if name in case.engine_names:
        return _engine(name, str(wanted), case)
    return _spec(case.packages.get(name), str(wanted), case.asks_for("package"))


def _engine(name: str, spec: str, case: Case) -> Outcome:
    if name not in case.engines:
        return NO if case.engines else unknown(case.asks_for("engine"))
    if spec == "*":
        return YES
    explicit = case.engines[name]
    if explicit is not None:
        return _spec(explicit, spec, f"{name}'s version")
    if name in case.intervals:
        # Wordings were looked for in sampled releases only: one may have come at any time behind the release before
        # the first that has it.
        said = case.intervals[name]
        if versions.interval_within(said.first, said.last, spec) is Truth.YES:
            return YES
        if versions.outside(said.after, said.before, spec):
            return NO
    return unknown(f"{name}'s version")


def _spec(version: str | None, spec: str, lack: str) -> Outcome:
    if version is None:
        return unknown(lack)
    truth = versions.within(version, spec)
    return Outcome(truth) if truth is not Truth.UNKNOWN else unknown(lack)


_CONTEXT = {"gpu": ("gpu", "gpu_name"), "model": ("model",)}
"""What ``applies`` may ask of -> the fact kinds that tell it."""


def _any_of(kind: str, field: str, wanted: Any, case: Case) -> Outcome:
    """Whether one of the GPUs or models has the value; unknown where none shows the field."""
    operator, operand = ("in", wanted) if isinstance(wanted, list) else ("eq", wanted)
    if isinstance(wanted, dict):
        operator, operand = next(iter(wanted.items()))
    truths: set[Truth] = set()
    for source in _CONTEXT[kind]:
        for fact, sightings in case.facts.of(source):
            value = getattr(fact, field, None)
            if value is None:
                continue
            truth = check(value, operator, operand)
            if truth is Truth.YES:
                return Outcome(Truth.YES, tuple(sightings.first[:1]))
            truths.add(truth)
    return NO if Truth.NO in truths else unknown(case.asks_for(kind))
