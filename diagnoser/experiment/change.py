"""A server's configuration as a command with its environment, and a change to it."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

Action = Literal["set_flag", "unset_flag", "set_env", "unset_env"]
ACTIONS: tuple[Action, ...] = ("set_flag", "unset_flag", "set_env", "unset_env")


class Config(NamedTuple):
    """How a server is started.

    environment: what is set (or, with None, unset). whole: that is all of it, as read from a running process; otherwise
    it comes on top of what the machine gives to commands.
    """

    command: tuple[str, ...]
    folder: str
    environment: tuple[tuple[str, str | None], ...] = ()
    whole: bool = False

    def plain(self) -> dict[str, Any]:
        """As it is kept in a journal."""
        pairs = [list(pair) for pair in self.environment]
        return {
            "command": list(self.command),
            "folder": self.folder,
            "environment": pairs,
            "whole": self.whole,
        }

    @staticmethod
    def from_plain(kept: dict[str, Any]) -> "Config":
        """A configuration as `plain` gave it."""
        pairs = tuple((name, value) for name, value in kept["environment"])
        return Config(tuple(kept["command"]), kept["folder"], pairs, kept["whole"])


class Change(NamedTuple):
    """One change: of a flag ("--attention-backend", "triton") or of a variable. value None: a switch without value."""

    action: Action
    name: str
    value: str | None = None

    def __str__(self) -> str:
        if self.action == "unset_flag":
            return f"remove {self.name}"
        if self.action == "unset_env":
            return f"unset {self.name}"
        sign = "=" if self.action == "set_env" else " "
        return self.name if self.value is None else f"{self.name}{sign}{self.value}"

    def applied(self, config: Config) -> Config:
        """The configuration with this change; unchanged where it has it already."""
        if self.action in ("set_env", "unset_env"):
            others = tuple(pair for pair in config.environment if pair[0] != self.name)
            if self.action == "unset_env":
                return config._replace(environment=others if config.whole else (*others, (self.name, None)))
            return config._replace(environment=(*others, (self.name, self.value or "")))
        words = list(_without(config.command, self.name))
        if self.action == "set_flag":
            words += [self.name] if self.value is None else [self.name, self.value]
        return config._replace(command=tuple(words))


Changes = tuple[Change, ...]
"""Several changes, applied in this order; none: the configuration as found."""


def told(changes: Iterable[Change]) -> str:
    """The changes in words."""
    return ", ".join(map(str, changes)) or "as found"


def applied(config: Config, changes: Iterable[Change]) -> Config:
    """The configuration with all of the changes."""
    for change in changes:
        config = change.applied(config)
    return config


def _without(command: tuple[str, ...], flag: str) -> tuple[str, ...]:
    """The command without a flag and the value that follows it; underscores and dashes are alike."""
    kept: list[str] = []
    skip = False
    for word in command:
        if skip and not word.startswith("-"):
            continue
        skip = False
        name = word.partition("=")[0]
        if name.startswith("-") and name.replace("_", "-") == flag.replace("_", "-"):
            skip = "=" not in word
            continue
        kept.append(word)
    return tuple(kept)
