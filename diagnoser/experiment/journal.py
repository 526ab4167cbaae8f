"""What an experiment did, written and synced before each step, so that a death at any point can be undone.

One file of JSON lines for each experiment in the user's state folder. The first line holds the original configuration;
an experiment whose last line is no ending is pending, and its original server must be brought back.
"""

import fcntl
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from diagnoser.experiment.change import Config

ENDINGS = frozenset(["restored", "kept", "rollback-failed"])


class Process(NamedTuple):
    """A process that is told from a later one of the same number by when it started (clock ticks since boot)."""

    pid: int
    started: int

    def alive(self) -> bool:
        return started_at(self.pid) == self.started


def started_at(pid: int) -> int | None:
    """When a process was started; None where there is none, or only its remains."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def folder() -> Path:
    """``$DIAGNOSER_STATE``, or the user's state folder."""
    named = os.environ.get("DIAGNOSER_STATE")
    if named:
        return Path(named) / "experiments"
    from platformdirs import user_state_path

    return user_state_path("diagnoser", appauthor=False) / "experiments"


class BusyError(RuntimeError):
    """Another experiment is under way, or an earlier one was not undone; the message is one sentence."""


class Journal:
    """The journal of one experiment, locked as long as it is open. Raises OSError where it cannot be written."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._descriptor)
            raise BusyError(f"the experiment {file.stem} is under way in another process") from error

    def note(self, event: str, **details: Any) -> None:
        """Write an event; it is on the disk when this returns."""
        os.write(self._descriptor, (json.dumps({"event": event, **details}) + "\n").encode())
        os.fsync(self._descriptor)

    def events(self) -> list[dict[str, Any]]:
        return read(self.file)

    def close(self) -> None:
        os.close(self._descriptor)


def read(file: Path) -> list[dict[str, Any]]:
    """The events; a line that was cut by a death is left out."""
    found = []
    for line in file.read_text("utf-8", "replace").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def pending() -> list[Path]:
    """The journals of experiments that were not ended, oldest first."""
    files = sorted(folder().glob("*.jsonl")) if folder().is_dir() else []
    return [file for file in files if (events := read(file)) and events[-1]["event"] not in ENDINGS]


def config_of(event: dict[str, Any]) -> Config:
    """A configuration as `as_plain` wrote it."""
    pairs = tuple((name, value) for name, value in event["environment"])
    return Config(tuple(event["command"]), event["folder"], pairs)


def as_plain(config: Config) -> dict[str, Any]:
    pairs = [list(pair) for pair in config.environment]
    return {"command": list(config.command), "folder": config.folder, "environment": pairs}
