"""How fast two sides are under like load, and whether the load itself changed."""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from diagnoser.facts.base import Fact
from diagnoser.facts.engine import SeriesStat
from diagnoser.facts.factbase import FactBase, Sightings
from diagnoser.facts.loads import CONTEXTS
from diagnoser.facts.series_stats import SeriesAt

MIN_LINES = 3
"""Fewer lines under a load say nothing of the speed there."""

MIN_SHARE = 0.1

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
    """One metric on both sides under one load. Medians of the lines.

    running: how many requests ran (None: any number). context: how many tokens each of them held, by the lower end of
    a range (`facts.series.CONTEXTS`); None: not told.
    """

    metric: str
    running: int | None
    context: int | None
    before: float
    after: float
    lines: tuple[int, int]

    @property
    def better(self) -> float:
        """log(after / before), or its opposite where lower is better."""
        sign = -1.0 if self.metric in LOWER_IS_BETTER else 1.0
        return sign * math.log(self.after / self.before)


class Change(NamedTuple):
    """A metric's change over all like loads; effects are logarithms, positive is better."""

    metric: str
    speeds: tuple[Speed, ...]

    @property
    def effect(self) -> float:
        """The mean over all like loads, weighted by their lines."""
        weights = [min(speed.lines) for speed in self.speeds]
        total = sum(weight * one.better for weight, one in zip(weights, self.speeds, strict=True))
        return total / sum(weights)

    def worst(self, half: float) -> Speed | None:
        """The load that lost most, where loads differ by more than noise (half an interval) explains.

        A load with less than a tenth of the lines does not count. None: all loads changed alike.
        """
        most = sum(min(speed.lines) for speed in self.speeds)
        weighty = [speed for speed in self.speeds if min(speed.lines) >= MIN_SHARE * most]
        changed = [speed.better for speed in weighty]
        if not weighty or max(changed) - min(changed) <= 2 * half:
            return None
        return min(weighty, key=lambda speed: speed.better)


class LoadChange(NamedTuple):
    """A metric of the load, or of what the server does under it, that moved: its median or share on both sides."""

    metric: str
    before: float
    after: float


def changes(before: FactBase, after: FactBase) -> list[Change]:
    """Every speed that both sides show under a common load; the first decides."""
    found = []
    for metric in (*HIGHER_IS_BETTER, *LOWER_IS_BETTER):
        for by_load in (_by_context, _by_running):
            one, other = by_load(before, metric), by_load(after, metric)
            speeds = tuple(
                Speed(
                    metric, *load, one[load].median, other[load].median, (one[load].count, other[load].count)
                )
                for load in sorted(one.keys() & other.keys(), key=_order)
                if one[load].median > 0 and other[load].median > 0
            )
            if speeds:
                found.append(Change(metric, speeds))
                break
    return found


class MainSpeed(NamedTuple):
    """The speed of a server under the load that most lines show. load: in words."""

    metric: str
    load: str
    median: float


def main_speed(facts: FactBase) -> MainSpeed | None:
    """What stands for one log in a history; None where it shows no speed."""
    for metric in (*HIGHER_IS_BETTER, *LOWER_IS_BETTER):
        told = _by_context(facts, metric) or _by_running(facts, metric)
        if told:
            load = max(told, key=lambda one: (told[one].count, _order(one)))
            return MainSpeed(metric, in_words(load).removeprefix(" at ") or "any load", told[load].median)
    return None


def in_words(load: "Load") -> str:
    """A load as in " at 4 running with 1k to 4k tokens each"; empty where nothing is told of it."""
    running, context = load
    if running is None:
        return ""
    if context is None:
        return f" at {running} running"
    place = CONTEXTS.index(context)
    low, each = f"{context // 1024}k", " each" * (running > 1)
    if place + 1 == len(CONTEXTS):
        held = f"more than {low}"
    else:
        high = f"{CONTEXTS[place + 1] // 1024}k"
        held = f"{low} to {high}" if place else f"up to {high}"
    return f" at {running} running with {held} tokens{each}"


Load = tuple[int | None, int | None]
"""(running requests, tokens that each holds)."""


def _order(load: Load) -> tuple[int, int]:
    return (-1 if load[0] is None else load[0], -1 if load[1] is None else load[1])


def _by_context(facts: FactBase, metric: str) -> dict[Load, SeriesAt]:
    return {
        (fact.running, fact.context): fact
        for fact, _ in facts.of(f"series_at:{metric}")
        if isinstance(fact, SeriesAt) and fact.count >= MIN_LINES
    }


def _by_running(facts: FactBase, metric: str) -> dict[Load, SeriesStat]:
    """The statistics by number of running requests; those of all lines only where none is told."""
    told: dict[Load, SeriesStat] = {
        (stat.running, None): stat for stat in _stats(facts.of(f"series:{metric}")) if stat.count >= MIN_LINES
    }
    return {load: stat for load, stat in told.items() if load[0] is not None} or told


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
