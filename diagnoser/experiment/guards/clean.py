"""Whether GPUs were free before a start, and whether a stranger came while it was measured."""

from collections.abc import Iterable, Iterator

from diagnoser.experiment.guards.gpus import App, State
from diagnoser.experiment.load.guards import Finding, Level

CLEAN_MIB, BUSY_MIB = 15.0, 500.0
"""Up to the first a GPU is free; above the second something computes there."""


def used_by(before: State, after: State) -> frozenset[str]:
    """The GPUs that the server took when it started (or, the other way round, left when it ended)."""
    had = {gpu.uuid: gpu.memory_used_mib or 0.0 for gpu in before.gpus}
    grown = {
        gpu.uuid
        for gpu in after.gpus
        if gpu.uuid in had and (gpu.memory_used_mib or 0.0) - had[gpu.uuid] > CLEAN_MIB
    }
    known = {app.pid for app in before.apps}
    return frozenset(grown | {app.uuid for app in after.apps if app.uuid and app.pid not in known})


def before_start(state: State, used: frozenset[str] | None, first: State | None) -> list[Finding]:
    """The GPUs before a start. used: those of the server, where known. first: what was there at the beginning."""
    found = []
    if first is not None and len(state.gpus) < len(first.gpus):
        text = f"{len(state.gpus)} GPUs are left of {len(first.gpus)}"
        found.append(Finding("gpu-missing", "void", text))
    for gpu in state.gpus:
        mine = used is None or gpu.uuid in used
        strangers = [app for app in state.apps if app.uuid in ("", gpu.uuid)]
        memory = gpu.memory_used_mib or 0.0
        if strangers:
            level: Level = "void" if mine and used is not None else "warn"
            text = f"before the start {_who(strangers)} computed on GPU {gpu.number}"
            found.append(Finding("gpu-foreign", level, text))
        elif memory > BUSY_MIB and mine:
            level = "void" if used is not None else "warn"
            text = (
                f"before the start {memory:.0f} MiB of GPU {gpu.number} were taken, by no process that shows"
            )
            found.append(Finding("gpu-memory", level, text))
        elif memory > CLEAN_MIB and mine:
            text = f"before the start {memory:.0f} MiB of GPU {gpu.number} were taken"
            found.append(Finding("gpu-memory", "warn", text))
    return found


def strangers(samples: Iterable[State], ours: State, used: frozenset[str]) -> Iterator[Finding]:
    """Processes that came to the server's GPUs after it was ready. ours: the state then."""
    known = {app.pid for app in ours.apps}
    came = {
        app.pid: app
        for state in samples
        for app in state.apps
        if app.pid not in known and (app.uuid in used or not used or not app.uuid)
    }
    if came:
        yield Finding("gpu-foreign", "void", f"{_who(list(came.values()))} computed on the server's GPUs")


def _who(apps: list[App]) -> str:
    named = ", ".join(f"{app.name or 'a process'} ({app.pid})" for app in apps[:3])
    return named if len(apps) < 4 else f"{named} and {len(apps) - 3} more"
