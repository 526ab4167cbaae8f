"""Yesterday it was fast, today it is slow: both sides read, then held beside each other (`compare.regression`)."""

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from diagnoser.agent import history
from diagnoser.agent.history import is_kept
from diagnoser.agent.session import CallError, Options, Progress, catalog_of, run_sources
from diagnoser.compare.history.entry import Service
from diagnoser.compare.regression import Measure, Regression, Side
from diagnoser.compare.regression import explain as held_beside
from diagnoser.experiment.comparison import NotComparableError, compare
from diagnoser.experiment.importers import NotABenchmarkError, read
from diagnoser.experiment.measured import Measured
from diagnoser.experiment.statistics import FLOORS, Arm, Launch, Noise, difference
from diagnoser.facts.factbase import FactBase, merge_all
from diagnoser.inference.diagnose import Judged
from diagnoser.sources import Source, SourceError, Unreadable, open_sources
from diagnoser.sources.hosts import bundle
from diagnoser.sources.hosts.collect import sources

RESULTS = frozenset([".json", ".jsonl", ".csv", ".md"])
"""What benchmark tools name their results; whether one is a result its content says."""


class Given(NamedTuple):
    """A side as it was given: its texts judged, and the launches that benchmark results tell of."""

    side: Side
    measured: list[Measured]


def explain(
    before: Sequence[str], after: Sequence[str], options: Options, progress: Progress | None = None
) -> Regression:
    """What made the later side different. Raises `CallError` where a side cannot be read or holds nothing."""
    return explain_with_later(before, after, options, progress)[0]


def explain_with_later(
    before: Sequence[str], after: Sequence[str], options: Options, progress: Progress | None = None
) -> tuple[Regression, Judged | None]:
    """`explain`, and the later side's texts judged (None where it has none)."""
    bad = _given(after, options, progress, None)
    good = _given(before, options, progress, bad)
    notes: list[str] = []
    measured = _benchmark(good.measured, bad.measured, notes)
    causes = catalog_of(options).pack.causes
    found = held_beside(good.side, bad.side, causes, floor=_floor(), measured=measured, notes=notes)
    return found, bad.side.judged


def _given(paths: Sequence[str], options: Options, progress: Progress | None, other: Given | None) -> Given:
    """Logs, bundles and benchmark results among these paths, told apart by content; or one kept result.

    other: the side that a baseline of the same service is looked up for.
    """
    if len(paths) == 1 and is_kept(paths[0]):
        return Given(*history.side(paths[0], _service(other), options))
    measured: list[Measured] = []
    texts: list[str] = []
    seen: list[Source | Unreadable] = []
    for file in _files(paths):
        if results := _measured(file):
            measured += results
        elif file.name.endswith(".zst") and bundle.is_bundle(file):
            seen += _collected(file)
        else:
            texts.append(str(file))
    seen += history.server_info(measured) if not texts and not seen else []
    name = ", ".join(paths)
    given = chain(open_sources(texts, limits=options.limits) if texts else (), seen)
    judged = run_sources(given, options, progress) if texts or seen else []
    if isinstance(judged, list):
        if not measured:
            raise CallError(f"{name}: nothing could be read: {'; '.join(judged) or 'it is empty'}")
        return Given(Side(name, None, FactBase()), measured)
    facts = merge_all(part.case.facts for part in judged.parts)
    return Given(Side(name, judged, facts), measured)


def _service(other: Given | None) -> Service | None:
    if other is None:
        return None
    if other.measured:
        return history.of_benchmark(other.measured, 0.0).service
    return history.of_diagnosis(other.side.judged).service if other.side.judged else None


def read_side(paths: Sequence[str], options: Options) -> Given:
    """What these paths hold, as one side. Raises `CallError`."""
    return _given(paths, options, None, None)


def _files(paths: Sequence[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        inside = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else []
        yield from inside or [path]


def _collected(file: Path) -> list[Source | Unreadable]:
    """What a bundle holds of its one machine. Raises `CallError`."""
    try:
        machines = bundle.read(file)
    except SourceError as error:
        raise CallError(str(error)) from error
    if len(machines) != 1:
        names = ", ".join(machine.host for machine in machines[:8])
        raise CallError(f"{file}: it holds {len(machines)} machines ({names}); collect the one that is meant")
    return list(sources(machines[0].items))


def _measured(file: Path) -> list[Measured]:
    if file.suffix not in RESULTS or not file.is_file():
        return []
    try:
        return read(file)
    except (NotABenchmarkError, OSError):
        return []


def _benchmark(good: list[Measured], bad: list[Measured], notes: list[str]) -> Measure | None:
    if not good or not bad:
        return None
    try:
        found = compare(good, bad)
    except NotComparableError as error:
        notes.append(str(error))
        return None
    first = found.rows[0]
    notes.extend(found.limits)
    low, high = math.log1p(first.better.low), math.log1p(first.better.high)
    metric = first.metric.removesuffix("_wall").removesuffix("_request")
    return Measure(metric, first.before, first.after, math.log1p(first.better.effect), (high - low) / 2)


def _floor() -> float:
    """Half the interval of one launch against another whose runs agree: only the scatter between launches is left."""
    noise = Noise(FLOORS["output_tok_s_request"])
    one, other = Launch(Arm.A, (1.0,)), Launch(Arm.B, (1.0,))
    return math.log1p(difference([one], [other], lower_is_better=False, noise=noise).high)
