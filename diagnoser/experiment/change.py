"""A server's configuration as a command with its environment, and a change to it."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

Action = Literal["set_flag", "unset_flag", "set_env", "unset_env"]
ACTIONS: tuple[Action, ...] = ("set_flag", "unset_flag", "set_env", "unset_env")


class Config(NamedTuple):
    """How a server is started. environment: what is set besides (or, with None, unset from) the environment of ours."""

    command: tuple[str, ...]
    folder: str
    environment: tuple[tuple[str, str | None], ...] = ()


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
            value = (self.value or "") if self.action == "set_env" else None
            return config._replace(environment=(*others, (self.name, value)))
        words = list(_without(config.command, self.name))
        if self.action == "set_flag":
            words += [self.name] if self.value is None else [self.name, self.value]
        return config._replace(command=tuple(words))


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


def environment(config: Config, ours: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of the server."""
    whole = dict(ours)
    for name, value in config.environment:
        if value is None:
            whole.pop(name, None)
        else:
            whole[name] = value
    return whole
