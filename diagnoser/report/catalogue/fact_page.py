"""The vocabulary of conditions: every fact kind with its fields."""

import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from diagnoser.facts.base import Fact
from diagnoser.facts.registry import kinds
from diagnoser.report.markup import code, plain
from diagnoser.rulebook.models import Message


def fact_page(messages: Mapping[str, Message]) -> str:
    """Every fact kind: what it means, its fields with their types, and the messages that state it."""
    return "\n".join(_lines(messages)) + "\n"


def _lines(messages: Mapping[str, Message]) -> Iterator[str]:
    yield "# Facts"
    yield ""
    yield "What the parsers and the `gives` of messages state, and what a condition `{fact: KIND, FIELD: ...}` may"
    yield "name. A field with `?` may be missing, which means that the text did not show it. [All packs](index.md)"
    for kind, fact in sorted(kinds().items()):
        yield ""
        yield f'<a id="{kind}"></a>'
        yield ""
        yield f"## {code(kind)}"
        yield ""
        yield plain(inspect.cleandoc(fact.__doc__ or ""))
        yield ""
        yield from (f"- {code(name)}: {written}" for name, written in _fields(fact))
        givers = [name for name in sorted(messages) if _states(messages[name], kind)]
        if givers:
            yield ""
            yield f"Stated by the messages {', '.join(map(code, givers))}."


def _states(message: Message, kind: str) -> bool:
    return any(given.get("fact") == kind for given in message.gives)


def _fields(fact: type[Fact]) -> Iterator[tuple[str, str]]:
    for name, field in fact.model_fields.items():
        choices = list(dict.fromkeys(_names(field.annotation)))
        optional = "?" if "None" in choices else ""
        yield name, ", ".join(choice for choice in choices if choice != "None") + optional


def _names(annotation: Any) -> Iterator[str]:
    """A type as words: values of a Literal, members of a union, the plain name."""
    if annotation is type(None):
        yield "None"
    elif typing.get_origin(annotation) is typing.Literal:
        yield from (code(str(value)) for value in typing.get_args(annotation))
    elif typing.get_origin(annotation) in (typing.Union, types.UnionType):
        for member in typing.get_args(annotation):
            yield from _names(member)
    elif typing.get_origin(annotation) is not None:
        inner = [name for argument in typing.get_args(annotation) for name in _names(argument)]
        yield f"{typing.get_origin(annotation).__name__} of {', '.join(dict.fromkeys(inner))}"
    else:
        yield getattr(annotation, "__name__", str(annotation))
