"""Anything else that starts servers: a command of the user's own with four words.

    CMD start [CHANGE ...]   start the server with the changes and return; without any, as found
    CMD stop                 end it, whichever form of it runs; return when it is gone
    CMD alive                exit code 0 while it runs or starts
    CMD log                  print the log of the present start

A change is one word, as `diagnose confirm` takes it: ``--set-flag=--tp=8``, ``--unset-flag=--x``, ``--set-env=A=1``,
``--unset-env=A``.
"""

import shlex
from typing import Any, NamedTuple

from diagnoser.experiment.change import Change, Changes


class CustomLauncher(NamedTuple):
    """The words of the command."""

    command: tuple[str, ...]
    kind: str = "custom"

    @property
    def original(self) -> str:
        return shlex.join([*self.command, "start"])

    def lacks(self, changes: Changes) -> str | None:
        return None

    def start(self, changes: Changes, folder: str, log: str) -> str:
        return f"{shlex.join([*self.command, 'start', *map(word, changes)])} </dev/null"

    def stop(self, folder: str) -> str:
        return f"{shlex.join([*self.command, 'stop'])} </dev/null"

    def alive(self, folder: str) -> str:
        return f"{shlex.join([*self.command, 'alive'])} </dev/null"

    def log(self, folder: str, log: str) -> str:
        return f"{shlex.join([*self.command, 'log'])} </dev/null"

    def plain(self) -> dict[str, Any]:
        return {"kind": self.kind, "command": list(self.command)}

    @staticmethod
    def from_plain(kept: dict[str, Any]) -> "CustomLauncher":
        return CustomLauncher(tuple(kept["command"]))


def word(change: Change) -> str:
    """A change as one word."""
    value = "" if change.value is None else f"={change.value}"
    return f"--{change.action.replace('_', '-')}={change.name}{value}"
