"""The ways in which servers are started."""

from typing import Any

from diagnoser.experiment.launchers.base import Launcher
from diagnoser.experiment.launchers.container import ContainerLauncher
from diagnoser.experiment.launchers.custom import CustomLauncher
from diagnoser.experiment.launchers.process import ProcessLauncher
from diagnoser.experiment.launchers.systemd import SystemdLauncher

_KINDS: dict[str, Any] = {
    "process": ProcessLauncher,
    "container": ContainerLauncher,
    "systemd": SystemdLauncher,
    "custom": CustomLauncher,
}


def launcher_from(kept: dict[str, Any]) -> Launcher:
    """A launcher as its `plain` gave it."""
    made: Launcher = _KINDS[kept["kind"]].from_plain(kept)
    return made
