"""The speed that a log's own minutes let expect under a load, whatever the server's level was at the time.

How speed moves with the number of running requests is learned from neighbouring minutes: a change of the server's level
falls between two of them alone, so a median does not see it. The slopes of log speed over log requests are learned
octave by octave, for throughput grows ever slower with the batch; the slope over the tokens that each request holds
likewise. Where the load hardly moves, the medians of the whole log under each load stand in (`SeriesStore` keeps them).
"""

import math
import statistics
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from diagnoser.facts.loads import CELL, CONTEXTS
from diagnoser.facts.series import SeriesStore
from diagnoser.facts.sketch import Sketch

METRIC = "decode_tok_s"
MIN_LINES = 3

MIN_PAIRS = 8
"""So many pairs of minutes with another load tell a slope."""

MIN_STEP = 0.05
"""Smaller steps of the load (logarithm of requests, or thousands of tokens) tell nothing of it."""


class Minute(NamedTuple):
    """Means of one minute. running: requests. held: tokens of each. None: not told."""

    minute: int
    speed: float
    running: float | None
    held: float | None

    @property
    def octave(self) -> float:
        return math.log2(max(self.running or 1.0, 1.0))


class Usual(NamedTuple):
    """The usual speed of each minute's load, tokens a second, but for one factor that is the same for all.

    learned: from neighbouring minutes whose load differs; otherwise the medians of the whole log stand in, and they
    hold the server's own changes too.
    """

    speeds: list[float]
    learned: bool


def usual_speeds(series: SeriesStore, minutes: Sequence[Minute]) -> Usual:
    """What each minute's load lets expect."""
    medians = _medians(series)
    curve = _Curve(medians, minutes)
    by_context = _by_context(series, medians, minutes, curve)
    speeds = [math.exp(curve.at(one.octave) + by_context.at(one.held)) for one in minutes]
    return Usual(speeds, curve.learned)


class _Curve:
    """log speed over the number of requests."""

    def __init__(self, medians: Mapping[int, float], minutes: Sequence[Minute]) -> None:
        self._points = sorted((math.log2(running), value) for running, value in medians.items())
        pairs: dict[int, list[tuple[float, float]]] = {}
        for before, after in pairwise(minutes):
            step = (after.octave - before.octave) * math.log(2)
            if abs(step) >= MIN_STEP:
                place = int((after.octave + before.octave) / 2)
                pairs.setdefault(place, []).append((step, math.log(after.speed / before.speed)))
        self._slopes = {place: _slope(steps) for place, steps in pairs.items() if len(steps) >= MIN_PAIRS}
        self._whole = [0.0]
        for place in range(int(max((one.octave for one in minutes), default=0.0))):
            self._whole.append(self._whole[place] + self._part(place, place + 1.0))

    @property
    def learned(self) -> bool:
        return bool(self._slopes)

    def at(self, octave: float) -> float:
        """The sum of the slopes up to here."""
        place = min(int(octave), len(self._whole) - 1)
        return self._whole[place] + self._part(place, octave)

    def _part(self, place: int, high: float) -> float:
        slope = self._slopes.get(place)
        if slope is None:
            return _between(self._points, high) - _between(self._points, float(place))
        return slope * (high - place) * math.log(2)


class _Contexts(NamedTuple):
    """log speed over the tokens held: a slope per thousand, or the effect of each range of `CONTEXTS`."""

    slope: float | None
    ranges: dict[int, float]

    def at(self, held: float | None) -> float:
        if held is None:
            return 0.0
        if self.slope is not None:
            return self.slope * held / 1000
        return self.ranges.get(sum(held >= low for low in CONTEXTS), 0.0)


def _by_context(
    series: SeriesStore, medians: Mapping[int, float], minutes: Sequence[Minute], curve: _Curve
) -> _Contexts:
    steps = []
    for before, after in pairwise(minutes):
        if before.held is not None and after.held is not None:
            step = (after.held - before.held) / 1000
            if abs(step) >= MIN_STEP:
                load = curve.at(after.octave) - curve.at(before.octave)
                steps.append((step, math.log(after.speed / before.speed) - load))
    if len(steps) >= MIN_PAIRS:
        # Longer contexts never make a step faster.
        return _Contexts(min(0.0, _slope(steps)), {})
    apart: dict[int, list[float]] = {}
    for (metric, number), sketch in series.sketches.items():
        if metric == METRIC and number is not None and number >= CELL and sketch.count >= MIN_LINES:
            context, running = divmod(number, CELL)
            if running in medians and sketch.quantile(0.5) > 0:
                apart.setdefault(context, []).append(math.log(sketch.quantile(0.5)) - medians[running])
    return _Contexts(None, {context: statistics.median(values) for context, values in apart.items()})


def _medians(series: SeriesStore) -> dict[int, float]:
    """log of the median speed by number of running requests, whatever the contexts."""
    whole: dict[int, Sketch] = {}
    for (metric, number), sketch in series.sketches.items():
        if metric == METRIC and number is not None and number % CELL:
            known = whole.get(number % CELL)
            whole[number % CELL] = sketch if known is None else known.merge(sketch)
    return {
        running: math.log(sketch.quantile(0.5))
        for running, sketch in whole.items()
        if sketch.count >= MIN_LINES and sketch.quantile(0.5) > 0
    }


def _slope(steps: Sequence[tuple[float, float]]) -> float:
    """The line through the origin with the least absolute deviations: a median of the ratios, weighted by the steps."""
    ratios = sorted((change / step, abs(step)) for step, change in steps)
    half, weight = sum(size for _, size in ratios) / 2, 0.0
    for ratio, size in ratios:
        weight += size
        if weight >= half:
            return ratio
    return 0.0


def _between(points: Sequence[tuple[float, float]], x: float) -> float:
    """The value at x between two points; that of the nearest one outside of them; 0 without any."""
    if not points:
        return 0.0
    place = bisect_right(points, (x, math.inf))
    if place in (0, len(points)):
        return points[min(place, len(points) - 1)][1]
    (left, low), (right, high) = points[place - 1], points[place]
    return low + (high - low) * (x - left) / (right - left)
