"""What a launcher is: how one kind of server is started, stopped and watched, as POSIX shell scripts.

Scripts and no calls, because the same ones are run from here, over SSH, and by the machine itself when nobody is left
to do it (`diagnoser.experiment.outpost`). Each script stands alone; exit code 0 is success.
"""

import shlex
from typing import Any, Protocol

from diagnoser.experiment.change import Changes

GRACE_S = 120.0
"""How long a server may take to end by itself: SGLang and vLLM finish their requests first."""

KILL_S = 30.0
"""And how long when it is killed: a driver may take its time."""

quote = shlex.quote


class LauncherError(ValueError):
    """A server that cannot be started in this way; the message is one sentence."""


class Launcher(Protocol):
    """A server that can be started with and without changes. folder: where the experiment keeps its files there."""

    @property
    def kind(self) -> str: ...

    @property
    def original(self) -> str:
        """What is started, as found, in words."""
        ...

    def lacks(self, changes: Changes) -> str | None:
        """The sentence why these changes cannot be made in this way, or that they change nothing; else None."""
        ...

    def start(self, changes: Changes, folder: str, log: str) -> str:
        """Start it with the changes (none: as found), so that it outlives us. log: the file for its output, if it has
        no other place."""
        ...

    def stop(self, folder: str) -> str:
        """End whichever of its forms runs; success when none does."""
        ...

    def alive(self, folder: str) -> str:
        """Whether it runs or is about to; exit code 0 if so."""
        ...

    def log(self, folder: str, log: str) -> str:
        """Print the log of the present start."""
        ...

    def plain(self) -> dict[str, Any]:
        """Itself as JSON, to be made again from a journal."""
        ...
