"""The compiled pack: plain tables that load in milliseconds and need neither YAML nor pydantic's rule models.

Everything in it is made of lists, dicts, strings and numbers, so that `marshal` can keep it.
"""

import marshal
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

MARSHAL = 2
"""The marshal format: every supported Python reads it, and unlike later ones it gives equal bytes for equal data."""

FORMAT = 6
"""Raised whenever the shape of the tables changes; part of the cache key."""


class CompiledWording(NamedTuple):
    """How one wording is found and read; ``message`` indexes the pack's messages."""

    message: int
    literal: str
    plan: tuple[Any, ...] | None
    pattern: str | None
    since: str | None
    until: str | None


class CompiledMessage(NamedTuple):
    id: str
    engine: str | None
    marks: str | None
    gives: tuple[dict[str, Any], ...]
    about: str | None


class KeptCauses(Mapping[str, dict[str, Any]]):
    """The causes of a kept pack, each unpacked when it is first asked for: a text needs a tenth of them."""

    def __init__(self, packed: dict[str, bytes]) -> None:
        self._packed = packed
        self._unpacked: dict[str, dict[str, Any]] = {}

    def __getitem__(self, identifier: str) -> dict[str, Any]:
        cause = self._unpacked.get(identifier)
        if cause is None:
            cause = self._unpacked[identifier] = marshal.loads(self._packed[identifier])
        return cause

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


class Pack(NamedTuple):
    """All messages and causes of the loaded rule folders.

    causes: id -> the cause's fields as plain data, with ``when``, ``supports``, ``weakens`` and ``severity_if``
        compiled by `rulebook.signs`, and ``explained`` = the ids it explains (effects resolved).
    releases: engine -> the releases that its wordings name: those that were looked through.
    watchers: "message:ID" or fact kind -> ids of the causes whose ``when`` looks at it.
    """

    messages: list[CompiledMessage]
    wordings: list[CompiledWording]
    causes: Mapping[str, dict[str, Any]]
    watchers: dict[str, list[str]]
    releases: dict[str, list[str]]
    problems: list[str]

    def as_plain(self) -> list[Any]:
        return [
            FORMAT,
            [tuple(message) for message in self.messages],
            [tuple(wording) for wording in self.wordings],
            {identifier: marshal.dumps(cause, MARSHAL) for identifier, cause in self.causes.items()},
            self.watchers,
            self.releases,
            self.problems,
        ]

    @classmethod
    def from_plain(cls, plain: list[Any]) -> "Pack":
        """Raises ValueError for tables of another format."""
        if plain[0] != FORMAT:
            raise ValueError("another pack format")
        return cls(
            [CompiledMessage(*message) for message in plain[1]],
            [CompiledWording(*wording) for wording in plain[2]],
            KeptCauses(plain[3]),
            plain[4],
            plain[5],
            plain[6],
        )
