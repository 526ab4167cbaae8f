"""The compiled pack: plain tables that load in milliseconds and need neither YAML nor pydantic's rule models.

Everything in it is made of lists, dicts, strings and numbers, so that `marshal` can keep it.
"""

from typing import Any, NamedTuple

FORMAT = 4
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


class Pack(NamedTuple):
    """All messages and causes of the loaded rule folders.

    causes: id -> the cause's fields as plain data, with ``when``, ``supports``, ``weakens`` and ``severity_if``
        compiled by `rulebook.signs`, and ``explained`` = the ids it explains (effects resolved).
    watchers: "message:ID" or fact kind -> ids of the causes whose ``when`` looks at it.
    """

    messages: list[CompiledMessage]
    wordings: list[CompiledWording]
    causes: dict[str, dict[str, Any]]
    watchers: dict[str, list[str]]
    problems: list[str]

    def as_plain(self) -> list[Any]:
        return [
            FORMAT,
            [tuple(message) for message in self.messages],
            [tuple(wording) for wording in self.wordings],
            self.causes,
            self.watchers,
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
            plain[3],
            plain[4],
            plain[5],
        )
