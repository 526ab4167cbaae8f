"""A scan from its paths to its rows and the digest of the fleet."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from diagnoser.agent.scan.engines import Engine, Policy
from diagnoser.agent.scan.incidents import Incident, Row, Settings, group
from diagnoser.agent.scan.state import State
from diagnoser.agent.scan.work import SPLIT_BYTES, Work
from diagnoser.inference.diagnosis import SEVERITY_RANK
from diagnoser.sources import Limits, Unreadable
from diagnoser.sources.remote import list_files


class Spread(NamedTuple):
    """A cause over the fleet. since, until: of the first proofs of its incidents, in seconds since the epoch.

    example: the incident in which it is most likely, with its proof.
    """

    rule: str
    title: str
    severity: str
    incidents: int
    hosts: int
    since: float | None
    until: float | None
    example: str
    proof: str


class Digest(NamedTuple):
    """Which causes, how many hosts, since when. bytes: as they lie there, packed or not."""

    incidents: int
    hosts: int
    bytes: int
    with_cause: int
    failed: int
    causes: list[Spread]


class Scan(NamedTuple):
    """Rows in the order of their names."""

    rows: list[Row]
    unreadable: list[str]
    digest: Digest


Progress = Callable[[int, int, int], None]
"""Called with the incidents done, how many there are, and the bytes done."""


def scan(
    paths: Sequence[str],
    engine: Engine,
    settings: Settings,
    *,
    by: str = "file",
    policy: Policy = Policy(),  # noqa: B008 - immutable
    state: Path | None = None,
    progress: Progress | None = None,
    split_bytes: int = SPLIT_BYTES,
) -> Scan:
    """Read and judge every incident below these paths; files above ``split_bytes`` in shards.

    Raises SourceError, EngineError and OSError.
    """
    listed = list_files(paths, Limits())
    unreadable = [f"{one.name}: {one.reason}" for one in listed if isinstance(one, Unreadable)]
    incidents = group([one for one in listed if not isinstance(one, Unreadable)], by)
    kept = State(state, settings) if state is not None else None
    rows: list[Row] = []
    size = 0
    try:
        for row in _rows(incidents, engine, settings, policy, kept, split_bytes):
            rows.append(row)
            size += row.bytes
            if progress is not None:
                progress(len(rows), len(incidents), size)
    finally:
        if kept is not None:
            kept.close()
    rows.sort(key=lambda row: row.incident)
    return Scan(rows, unreadable, digest(rows))


def _rows(
    incidents: Sequence[Incident],
    engine: Engine,
    settings: Settings,
    policy: Policy,
    kept: State | None,
    split_bytes: int,
) -> Iterator[Row]:
    missing = []
    for incident in incidents:
        row = kept.row(incident) if kept is not None else None
        if row is None:
            missing.append(incident)
        else:
            yield row
    # The largest first: one that is begun last keeps all others waiting.
    missing.sort(key=lambda incident: (-incident.size, incident.name))
    work = Work(missing, settings, split_bytes)
    for job, result in engine.results(work, settings, policy):
        row = work.done(job, result)
        if row is not None:
            if kept is not None:
                kept.add(job.incident, row)
            yield row


def digest(rows: Sequence[Row]) -> Digest:
    """What the rows have in common, the cause on most hosts first."""
    spreads = []
    for rule in sorted({cause.rule for row in rows for cause in row.causes}):
        hits = [(row, cause) for row in rows for cause in row.causes if cause.rule == rule]
        times = [cause.at for _, cause in hits if cause.at is not None]
        row, best = max(hits, key=lambda hit: (hit[1].confidence, hit[0].incident))
        severity = max((cause.severity for _, cause in hits), key=lambda one: SEVERITY_RANK[one])
        spreads.append(
            Spread(
                rule, best.title, severity, len(hits), len({row.host for row, _ in hits}),
                min(times, default=None), max(times, default=None), row.incident, best.proof,
            )
        )  # fmt: skip
    spreads.sort(key=lambda one: (-one.hosts, -one.incidents, -SEVERITY_RANK[one.severity], one.rule))
    return Digest(
        len(rows),
        len({row.host for row in rows}),
        sum(row.bytes for row in rows),
        sum(bool(row.causes) for row in rows),
        sum(row.error is not None for row in rows),
        spreads,
    )
