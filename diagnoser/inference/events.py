"""What is found on a line of a log, before it is put into its launch."""

from typing import NamedTuple

from pydantic import ValidationError

from diagnoser.facts.base import Fact, Found
from diagnoser.facts.engine import Engine
from diagnoser.facts.registry import kind_class


class Event(NamedTuple):
    """Something found on a line, before it is put into its launch."""

    line: int
    order: int
    mark: str | None
    fact: Fact | None
    last: int
    rank: str | None
    wording: int | None


def event_of(found: Found, order: int) -> Event:
    """What a parser found; ``order`` keeps the findings of one line apart, behind those of messages."""
    return Event(found.first, 1000 + order, None, found.fact, found.last, found.rank, None)


def fact_of(gives: dict[str, object], captures: dict[str, str]) -> Fact | None:
    """The fact of a ``gives`` with its captures filled in; None where a capture does not fit the field."""
    kind = kind_class(str(gives.get("fact")))
    if kind is None:
        return None
    fields: dict[str, object] = {}
    for name, value in gives.items():
        if name == "fact":
            continue
        if isinstance(value, str) and value.startswith("<") and value.endswith(">"):
            captured = captures.get(value[1:-1])
            if captured is None:
                continue
            fields[name] = captured
        else:
            fields[name] = value
    try:
        return kind.model_validate(fields)
    except ValidationError:
        return None


def engine_said(name: str) -> Engine:
    """That a message of this engine was read."""
    return Engine.model_validate({"name": name})
