"""Which rules look at a subject: what tells a difference that can matter from one that nobody ties to anything."""

from collections.abc import Iterator, Mapping
from typing import Any

from diagnoser.compare.subjects import Subject
from diagnoser.rulebook.signs import leaves

_OWN_FIELDS = {
    "server_arg": "name",
    "env": "name",
    "package": "name",
    "capacity": "name",
    "start_phase": "name",
    "attention_backend": "phase",
    "kernel_backend": "role",
}
"""Kinds whose rules name the owner in this field."""

_APPLIES = {"gpu": "gpu", "model": "model"}


class Watchers:
    """An index from subjects to the causes that read them."""

    def __init__(self, causes: Mapping[str, Mapping[str, Any]]) -> None:
        self._kinds: dict[str, set[str]] = {}
        self._named: dict[tuple[str, str], set[str]] = {}
        for rule in causes:
            cause = causes[rule]
            if cause["kind"] != "cause":
                continue
            for sign in _signs(cause):
                for form, kind, constraints, *_ in leaves(sign):
                    if form == "fact":
                        self._note(rule, kind, constraints)
            for name in cause["applies"]:
                self._kinds.setdefault(_APPLIES.get(name, name), set()).add(rule)
                self._named.setdefault(("package", name), set()).add(rule)
                self._named.setdefault(("engine", name), set()).add(rule)

    def _note(self, rule: str, kind: str, constraints: list[Any]) -> None:
        own = _OWN_FIELDS.get(kind)
        if own is None:
            self._kinds.setdefault(kind, set()).add(rule)
            return
        for field, operator, operand in constraints:
            if field == own and operator in ("eq", "in"):
                for name in operand if isinstance(operand, list) else [operand]:
                    self._named.setdefault((kind, str(name)), set()).add(rule)

    def of(self, subject: Subject) -> frozenset[str]:
        """The rules that read this subject."""
        if subject.kind in _OWN_FIELDS:
            return frozenset(self._named.get((subject.kind, subject.name), ()))
        named = self._named.get((subject.kind, subject.name), set())
        return frozenset(self._kinds.get(subject.kind, set()) | named)


def fields_read(cause: Mapping[str, Any]) -> dict[str, set[str]]:
    """The fields of each fact kind that a cause's signs look at."""
    fields: dict[str, set[str]] = {}
    for sign in _signs(cause):
        for form, kind, constraints, *_ in leaves(sign):
            if form == "fact":
                fields.setdefault(kind, set()).update(field for field, *_ in constraints)
    return fields


def _signs(cause: Mapping[str, Any]) -> Iterator[list[Any]]:
    for group in ("all", "any", "none", "supports", "weakens"):
        yield from cause[group]
    for sign, _ in cause["severity_if"]:
        yield sign
