"""Yesterday it was fast, today it is slow: both sides read, then held beside each other (`compare.regression`)."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from diagnoser.agent.session import CallError, Options, catalog_of, run
from diagnoser.compare.regression import Measure, Regression, Side
from diagnoser.compare.regression import explain as held_beside
from diagnoser.experiment.comparison import NotComparableError, compare
from diagnoser.experiment.importers import Measured, NotABenchmarkError, read
from diagnoser.experiment.statistics import FLOORS, Arm, Launch, Noise, difference
from diagnoser.facts.factbase import FactBase, merge_all

RESULTS = frozenset([".json", ".jsonl", ".csv", ".md"])
"""What benchmark tools name their results; whether one is a result its content says."""


class Given(NamedTuple):
    """A side as it was given: its texts judged, and the launches that benchmark results tell of."""

    side: Side
    measured: list[Measured]


def explain(before: Sequence[str], after: Sequence[str], options: Options) -> Regression:
    """What made the later side different. Raises `CallError` where a side cannot be read or holds nothing."""
    good, bad = _given(before, options), _given(after, options)
    notes: list[str] = []
    measured = _benchmark(good.measured, bad.measured, notes)
    causes = catalog_of(options).pack.causes
    return held_beside(good.side, bad.side, causes, floor=_floor(), measured=measured, notes=notes)


def _given(paths: Sequence[str], options: Options) -> Given:
    """Logs and benchmark results among these paths, told apart by content."""
    measured: list[Measured] = []
    texts: list[str] = []
    for path in paths:
        inside = (
            sorted(file for file in Path(path).rglob("*") if file.is_file()) if Path(path).is_dir() else []
        )
        for file in inside or [Path(path)]:
            results = _measured(file)
            measured += results
            if not results:
                texts.append(str(file))
    name = ", ".join(paths)
    judged = run(texts, options) if texts else []
    if isinstance(judged, list):
        if not measured:
            raise CallError(f"{name}: nothing could be read: {'; '.join(judged) or 'it is empty'}")
        return Given(Side(name, None, FactBase()), measured)
    facts = merge_all(part.case.facts for part in judged.parts)
    return Given(Side(name, judged, facts), measured)


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
