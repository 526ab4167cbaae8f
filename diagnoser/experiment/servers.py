"""Starting and stopping a server on this machine, and knowing when it is ready."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from diagnoser.experiment.change import Config, environment
from diagnoser.experiment.journal import Process, started_at

GRACE_S = 120.0
"""How long a server may take to end by itself: SGLang and vLLM finish their requests first."""

NO_PROGRESS_S = 180.0
"""A start that prints nothing for so long has stopped."""


class StartError(RuntimeError):
    """A server that did not come up. rule, title: what its log says about it, where that is known."""

    def __init__(self, sentence: str, rule: str | None = None) -> None:
        super().__init__(sentence)
        self.rule = rule


class Started(NamedTuple):
    """A server that was started by us, and its log."""

    process: Process
    log: Path
    load_s: float


def start(config: Config, log: Path) -> Process:
    """Start a server in a session of its own, so that it outlives us. Raises `StartError`."""
    try:
        with log.open("ab") as output:
            child = subprocess.Popen(
                list(config.command),
                cwd=config.folder,
                env=environment(config, os.environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
    except OSError as error:
        raise StartError(f"{config.command[0]} cannot be started: {error.strerror}") from error
    started = started_at(child.pid)
    if started is None:
        raise StartError(f"{config.command[0]} ended at once; see {log}")
    return Process(child.pid, started)


def find(log: Path) -> Process | None:
    """The process that was started with this log as its output: the leader of a session."""
    for link in Path("/proc").glob("[0-9]*/fd/1"):
        with contextlib.suppress(OSError, ValueError):
            pid = int(link.parts[2])
            if os.readlink(link) == str(log) and os.getsid(pid) == pid and (started := started_at(pid)):
                return Process(pid, started)
    return None


def stop(process: Process, grace_s: float = GRACE_S) -> None:
    """End a server and what belongs to it: politely first. Raises `StartError` when it stays."""
    if not process.alive():
        return
    group = os.getpgid(process.pid)
    own = group == process.pid
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGTERM)
    if not _gone(process, grace_s):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL) if own else os.kill(process.pid, signal.SIGKILL)
        if not _gone(process, 30):
            raise StartError(f"process {process.pid} does not end, not even when it is killed")
    if own:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)  # workers that it left behind


def _gone(process: Process, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)
        if not process.alive():
            return True
        time.sleep(0.05)
    return False


def wait_ready(
    process: Process,
    log: Path,
    answers: Callable[[], bool],
    *,
    budget_s: float,
    told: Callable[[str], None],
    diagnose: Callable[[Path], tuple[str, str] | None],
) -> float:
    """Wait until a server generates; seconds it took.

    answers: asks it for one real completion. diagnose: reads the log so far; the rule and title of what is fatal in it.
    Raises `StartError` when the process ends, a fatal line is read, nothing moves any more, or the time is up.
    """
    begin = moved = time.monotonic()
    seen = 0
    while True:
        _reap(process)
        size = log.stat().st_size if log.exists() else 0
        if size != seen:
            seen, moved = size, time.monotonic()
            told(_last_line(log))
        if not process.alive():
            fatal = diagnose(log)
            why = f": {fatal[1]}" if fatal else f"; the end of its log: {_last_line(log)}"
            raise StartError(f"the server ended while it started{why}", fatal[0] if fatal else None)
        if answers():
            return time.monotonic() - begin
        now = time.monotonic()
        if now - begin > 1 and size and now - moved < 1 and (fatal := diagnose(log)):
            raise StartError(f"the server cannot come up: {fatal[1]}", fatal[0])
        if now - moved > NO_PROGRESS_S or now - begin > budget_s:
            fatal = diagnose(log)
            raise StartError(
                f"the server was not ready after {now - begin:.0f} s", fatal[0] if fatal else None
            )
        time.sleep(0.25)


def _reap(process: Process) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4000))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1][:200] if lines else ""


def connections(port: int) -> int:
    """How many connections from elsewhere a port of this machine holds right now."""
    wanted = f":{port:04X}"
    count = 0
    for file in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(file).read_text().splitlines()[1:]:
                fields = line.split()
                count += fields[1].endswith(wanted) and fields[3] == "01"
    return count
