"""What an experiment did, written and synced before each step, so that a death at any point can be undone.

One file of JSON lines for each experiment in the user's state folder, on the machine from where it is led. The first
line holds the plan with the original configuration; an experiment whose last line is no ending is pending, and its
original server must be brought back. One without a verdict may be resumed, unless it gave up by itself.
"""

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from diagnoser.experiment.outpost import BusyError

__all__ = ["BusyError", "Journal", "Process"]

ENDINGS = frozenset(["restored", "kept"])

CONCLUDED = frozenset(["verdict", "gave-up", "bisecting"])
"""After one of these there is nothing to go on with; a bisection is begun again."""


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


class Journal:
    """The journal of one experiment, locked as long as it is open.

    wait_s: how long another process may hold it; its watcher, for instance, while it brings the server back. Raises
    OSError where it cannot be written, `BusyError` where it is held.
    """

    def __init__(self, file: Path, *, wait_s: float = 0.0) -> None:
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError as error:
                if time.monotonic() < deadline:
                    time.sleep(0.2)
                    continue
                os.close(self._descriptor)
                words = f"the experiment {file.stem} is under way in another process"
                raise BusyError(words) from error

    def note(self, event: str, **details: Any) -> None:
        """Write an event; it is on the disk when this returns."""
        row = {"event": event, "at": round(time.time(), 3), **details}
        os.write(self._descriptor, (json.dumps(row) + "\n").encode())
        os.fsync(self._descriptor)

    def events(self) -> list[dict[str, Any]]:
        return read(self.file)

    def log(self, name: str) -> Path:
        """The file for our copy of a server's log."""
        return self.file.with_suffix(f".{name}.log")

    def close(self) -> None:
        os.close(self._descriptor)


def new_file() -> Path:
    return folder() / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}.jsonl"


def read(file: Path) -> list[dict[str, Any]]:
    """The events; a line that was cut by a death is left out."""
    found = []
    for line in file.read_text("utf-8", "replace").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def pending(host: str | None = None) -> list[Path]:
    """The journals of experiments (on one machine, or all) that were not ended, oldest first."""
    return [file for file, events in _all(host) if events[-1]["event"] not in ENDINGS]


def resumable() -> list[Path]:
    """The journals of experiments that were cut before their verdict, oldest first."""
    return [file for file, events in _all(None) if not any(one["event"] in CONCLUDED for one in events)]


def _all(host: str | None) -> list[tuple[Path, list[dict[str, Any]]]]:
    files = sorted(folder().glob("*.jsonl")) if folder().is_dir() else []
    found = [(file, events) for file in files if (events := read(file)) and events[0]["event"] == "planned"]
    return [(file, events) for file, events in found if host is None or events[0]["plan"]["host"] == host]


def ourselves() -> Process:
    return Process(os.getpid(), started_at(os.getpid()) or 0)
