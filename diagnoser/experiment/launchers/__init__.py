"""The ways in which servers are started."""

from typing import Any

from diagnoser.experiment.launchers.base import Launcher
from diagnoser.experiment.launchers.process import ProcessLauncher


def launcher_from(kept: dict[str, Any]) -> Launcher:
    """A launcher as its `plain` gave it."""
    kinds: dict[str, Any] = {"process": ProcessLauncher}
    made: Launcher = kinds[kept["kind"]].from_plain(kept)
    return made
