"""How fast two sides are under like load, and whether the load itself changed."""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from diagnoser.facts.base import Fact
from diagnoser.facts.engine import SeriesStat
from diagnoser.facts.factbase import FactBase, Sightings

MIN_LINES = 3
"""Fewer lines at a number of running requests say nothing of the speed there."""

HIGHER_IS_BETTER = ("decode_tok_s", "prefill_tok_s", "accept_len")
LOWER_IS_BETTER = ("step_ms", "host_step_ms")
LOAD = ("running_reqs", "queue_reqs", "prefill_new_tokens", "kv_usage")
EVICTIONS = ("retracted_total", "preemptions_total")

SHARE_CHANGED = 0.05
"""By how much a share (of steps with a graph, of cached prompt tokens) moves before it counts as changed."""

LOAD_CHANGED = 1.5
"""By which factor the median of a load metric moves before the load is said to have changed: the speed of a stream
at 1.5 times the batch differs by more than any noise (SGLang on an H200: 4.55 to 4.89 ms a token from 1 to 8)."""


class Speed(NamedTuple):
    """One metric on both sides at the same number of running requests (None: at any). Medians of the lines."""

    metric: str
    running: int | None
    before: float
    after: float
    lines: tuple[int, int]


class Change(NamedTuple):
    """A metric's change: log(after / before) over all like loads, weighted by lines; positive is better."""

    metric: str
    effect: float
    speeds: tuple[Speed, ...]


class LoadChange(NamedTuple):
    """A metric of the load, or of what the server does under it, that moved: its median or share on both sides."""

    metric: str
    before: float
    after: float


def changes(before: FactBase, after: FactBase) -> list[Change]:
    """Every speed that both sides show under a common load; the first decides."""
    found = []
    for metric in (*HIGHER_IS_BETTER, *LOWER_IS_BETTER):
        one, other = _by_load(before, metric), _by_load(after, metric)
        speeds = tuple(
            Speed(metric, running, one[running].median, other[running].median,
                  (one[running].count, other[running].count))
            for running in sorted(one.keys() & other.keys(), key=lambda key: -1 if key is None else key)
            if one[running].median > 0 and other[running].median > 0
        )  # fmt: skip
        if not speeds:
            continue
        sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
        weights = [min(speed.lines) for speed in speeds]
        logs = [sign * math.log(speed.after / speed.before) for speed in speeds]
        effect = sum(weight * log for weight, log in zip(weights, logs, strict=True)) / sum(weights)
        found.append(Change(metric, effect, speeds))
    return found


def _by_load(facts: FactBase, metric: str) -> dict[int | None, SeriesStat]:
    """The statistics by number of running requests; those of all lines only where none is told."""
    told = {stat.running: stat for stat in _stats(facts.of(f"series:{metric}")) if stat.count >= MIN_LINES}
    return {running: stat for running, stat in told.items() if running is not None} or told


def load_changes(before: FactBase, after: FactBase) -> list[LoadChange]:
    """What of the load moved by more than `LOAD_CHANGED`."""
    return [*_moved(before, after, LOAD), *_shifted(before, after, ("cache_hit",))]


def behaviour_changes(before: FactBase, after: FactBase) -> list[LoadChange]:
    """What the server does otherwise under its load: the share of steps with CUDA graphs, evictions of requests."""
    return [*_shifted(before, after, ("cuda_graph",)), *_moved(before, after, EVICTIONS, missing=0.0)]


def _moved(
    before: FactBase, after: FactBase, metrics: Iterable[str], missing: float | None = None
) -> Iterator[LoadChange]:
    for metric in metrics:
        one, other = _median(before, metric, missing), _median(after, metric, missing)
        if one is None or other is None:
            continue
        low, high = sorted((one, other))
        if high > max(1.0 if metric != "kv_usage" else 0.05, low * LOAD_CHANGED):
            yield LoadChange(metric, one, other)


def _shifted(before: FactBase, after: FactBase, metrics: Iterable[str]) -> Iterator[LoadChange]:
    for metric in metrics:
        one, other = _median(before, metric, None), _median(after, metric, None)
        if one is not None and other is not None and abs(one - other) >= SHARE_CHANGED:
            yield LoadChange(metric, one, other)


def _median(facts: FactBase, metric: str, missing: float | None) -> float | None:
    stat = _overall(facts, metric)
    return missing if stat is None else stat.median


def _overall(facts: FactBase, metric: str) -> SeriesStat | None:
    return next((stat for stat in _stats(facts.of(f"series:{metric}")) if stat.running is None), None)


def _stats(found: Iterable[tuple[Fact, Sightings]]) -> list[SeriesStat]:
    return [fact for fact, _ in found if isinstance(fact, SeriesStat)]
