"""Smaller things that hosts say: numastat -p, systemctl status.

Unit nvidia-fabricmanager.service could not be found.
-> Service(name="nvidia-fabricmanager", state="missing")
"""

from collections.abc import Iterator
from typing import Literal

from diagnoser.facts.base import Found
from diagnoser.facts.host import NumaMemory, Service
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.by_literal import by_literal, text

_NUMA_HEAD = lazy(r"Per-node process memory usage \(in MBs\)(?: for PID (\d{1,10})(?: \(([^)]{1,64})\))?)?")
_NUMA_NODES = lazy(r"\s{2,60}Node \d")
_NUMA_ROW = lazy(r"(?:Heap|Stack|Private|Huge|-{8,}|Total)(?:\s|-|$)")
_AMOUNT = lazy(r"\d{1,12}\.\d{1,3}")


def _numa_extent(lines: Lines, i: int) -> range | None:
    if not _NUMA_HEAD.match(text(lines, i)):
        return None
    end = i + 1
    while end < min(len(lines), i + 60):
        line = text(lines, end)
        if not (_NUMA_NODES.match(line) or _NUMA_ROW.match(line) or line.startswith("        ")):
            break
        end += 1
    return range(i, end)


def _numa(lines: Lines, _i: int) -> Iterator[Found]:
    head = _NUMA_HEAD.match(text(lines, 0))
    if head is None:
        return
    nodes: list[float] = []
    last = 0
    for j in range(1, min(len(lines), 60)):
        line = text(lines, j)
        if line.startswith("Total"):
            nodes += [float(amount) for amount in _AMOUNT.findall(line)]
            last = j
    # The last column is the sum over nodes.
    whole = sum(nodes[:-1])
    if len(nodes) >= 3 and whole > 0:
        fact = NumaMemory(
            pid=int(head[1]) if head[1] else None,
            process=head[2],
            nodes_mib=tuple(nodes[:-1]),
            minor_share=round(1 - max(nodes[:-1]) / whole, 4),
        )
        yield Found(fact, 0, last)


State = Literal["active", "inactive", "failed", "activating", "deactivating", "reloading", "missing"]
_STATES: dict[str, State] = {
    "active": "active",
    "inactive": "inactive",
    "failed": "failed",
    "activating": "activating",
    "deactivating": "deactivating",
    "reloading": "reloading",
}
_MISSING = lazy(r"Unit ([\w@.-]{1,80}?)(?:\.service)? could not be found")
_UNIT = lazy(r"[●○×↻*x] ([\w@.-]{1,80}?)\.service(?: - |$)")
_ACTIVE = lazy(r"\s{1,12}Active: (\w{1,16})")


def _unit_missing(lines: Lines, i: int) -> Service | None:
    found = _MISSING.search(text(lines, i))
    return Service(name=found[1], state="missing") if found else None


def _unit_state(lines: Lines, i: int) -> Found | None:
    unit = _UNIT.match(text(lines, i).lstrip())
    if unit is None:
        return None
    for j in range(i + 1, min(i + 8, len(lines))):
        active = _ACTIVE.match(text(lines, j))
        if active and active[1] in _STATES:
            return Found(Service(name=unit[1], state=_STATES[active[1]]), i, j)
    return None


PARSERS = (
    Parser(
        name="numastat",
        literals=("Per-node process memory usage",),
        parse=_numa,
        extent=_numa_extent,
        document="numastat",
    ),
    by_literal("service", ((" could not be found", _unit_missing), (".service", _unit_state))),
)
