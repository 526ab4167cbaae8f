"""Where the level of a series changes for good: seeded binary segmentation with the narrowest interval first.

Kovacs, Buehlmann, Li and Munk, Biometrika 110(1), 2023: CUSUM statistics over a fixed set of intervals, O(n log n); the
shortest interval over the threshold is split first (Baranowski, Chen and Fryzlewicz, JRSS B 81(3), 2019), so that a
change beside another one keeps its place. What is done around it, and why:

* logarithms: a server that loses a tenth loses it at every speed;
* single outliers are replaced by the median around them (Hampel, JASA 69, 1974): a stall is no new level;
* the scatter is that of neighbours' differences, by the median, so that the changes themselves do not hide changes;
* minutes of a server are alike their neighbours. Their correlation is estimated without regard to changes (Chakar,
  Lebarbier, Levy-Leduc and Robin, Bernoulli 23(2), 2017) and widens the scatter by sqrt((1 + r) / (1 - r));
* a slow drift is no change: the jump where it is said to be must be a good part of the difference of the levels, and a
  straight line through both levels must fit worse than they do.
"""

import math
import statistics
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

MIN_POINTS = 12
"""Fewer points have no past to change from."""

MIN_LENGTH = 4
"""A level holds for at least so many points."""

MIN_EFFECT = 0.03
"""Smaller changes than this are not told: launches of one configuration differ by as much."""

FLOOR = 0.003
"""Scatter that is assumed at least: series of equal numbers say nothing of their precision."""

THRESHOLD = 1.3
"""Times sqrt(2 log n): the threshold for CUSUM statistics, in units of the scatter."""

DECAY = 1 / math.sqrt(2)
ABRUPT = 0.5
NEAR = 3
SPIKE = 4.0
"""An outlier lies so many scatters from the median of its neighbours."""

MAX_CORRELATION = 0.8


class Shift(NamedTuple):
    """A change of level: the place of the first point of the new one, the levels (medians) before and behind it."""

    place: int
    before: float
    after: float

    @property
    def effect(self) -> float:
        """after / before - 1."""
        return self.after / self.before - 1


def change_points(values: Sequence[float], *, min_effect: float = MIN_EFFECT) -> list[Shift]:
    """The changes of level of a series of positive values, in order. Pure; O(n log n)."""
    if len(values) < MIN_POINTS or min(values) <= 0:
        return []
    logs = _without_spikes([math.log(value) for value in values])
    scatter = _scatter(logs)
    limit = THRESHOLD * scatter * math.sqrt(2 * math.log(len(logs)))
    sums = [0.0, *accumulate(logs)]
    found: list[int] = []
    over = [
        (stop - start, -height, start, stop, split)
        for start, stop in _intervals(len(logs))
        for height, split in [_highest(sums, start, stop)]
        if height > limit
    ]
    for _, _, start, stop, split in sorted(over):
        if not any(start < place < stop for place in found):
            found.append(split)
    return _levels(values, logs, _lasting(sums, sorted(found), limit), min_effect, scatter)


def _intervals(count: int) -> Iterator[tuple[int, int]]:
    """The seeded intervals: each layer's are shorter by `DECAY` and overlap by half."""
    length = float(count)
    while length >= 2 * MIN_LENGTH:
        number = 2 * math.ceil(count / length) - 1
        step = (count - length) / (number - 1) if number > 1 else 0.0
        for index in range(number):
            yield int(index * step), min(count, math.ceil(index * step + length))
        length *= DECAY


def _highest(sums: Sequence[float], start: int, stop: int) -> tuple[float, int]:
    """The highest CUSUM statistic inside an interval and where it splits; 0 where that is too near to an end.

    Near an end stands what another interval, which overlaps this one, has in its middle.
    """
    best, place = 0.0, start
    count, total = stop - start, sums[stop] - sums[start]
    for split in range(start + 1, stop):
        left = split - start
        height = abs(sums[split] - sums[start] - left * total / count) * math.sqrt(
            count / (left * (count - left))
        )
        if height > best:
            best, place = height, split
    return (best, place) if start + MIN_LENGTH <= place <= stop - MIN_LENGTH else (0.0, place)


def _lasting(sums: Sequence[float], places: list[int], limit: float) -> list[int]:
    """Those that still stand out between their neighbours; each is put where it fits best there."""
    while places:
        ends = [0, *places, len(sums) - 1]
        heights = [_highest(sums, ends[i], ends[i + 2]) for i in range(len(places))]
        weakest = min(range(len(places)), key=lambda i: heights[i][0])
        if heights[weakest][0] > limit:
            return sorted({place for _, place in heights})
        del places[weakest]
    return []


def _levels(
    values: Sequence[float], logs: Sequence[float], places: Sequence[int], min_effect: float, scatter: float
) -> list[Shift]:
    ends = [0, *places, len(values)]
    shifts = []
    for number, place in enumerate(places, 1):
        before, after = values[ends[number - 1] : place], values[place : ends[number + 1]]
        shift = Shift(place, statistics.median(before), statistics.median(after))
        jump = statistics.median(logs[place : place + NEAR]) - statistics.median(logs[place - NEAR : place])
        size = math.log(shift.after / shift.before)
        abrupt = jump * math.copysign(1, size) >= ABRUPT * abs(size) - scatter
        both = logs[ends[number - 1] : ends[number + 1]]
        if abs(math.expm1(size)) >= min_effect and abrupt and not _is_slope(both, place - ends[number - 1]):
            shifts.append(shift)
    return shifts


def _is_slope(logs: Sequence[float], split: int) -> bool:
    """Whether a straight line explains these points better than two levels do."""
    left, right = logs[:split], logs[split:]
    steps = sum((x - statistics.fmean(side)) ** 2 for side in (left, right) for x in side)
    middle, mean = (len(logs) - 1) / 2, statistics.fmean(logs)
    across = sum((index - middle) ** 2 for index in range(len(logs)))
    along = sum((index - middle) * (x - mean) for index, x in enumerate(logs))
    return sum((x - mean) ** 2 for x in logs) - along**2 / across <= steps


def _without_spikes(logs: Sequence[float]) -> list[float]:
    """Single points that stand out are replaced; two beside each other are kept, for they may be a level."""
    scatter = _deviation(logs, 1)
    clean = list(logs)
    for index in range(len(logs)):
        near = sorted([*logs[max(0, index - NEAR) : index], *logs[index + 1 : index + 1 + NEAR]])
        middle = statistics.median(near)
        inside = bisect_right(near, middle + SPIKE * scatter) - bisect_right(near, middle - SPIKE * scatter)
        if abs(logs[index] - middle) > SPIKE * scatter and inside >= len(near) - 1:
            clean[index] = middle
    return clean


def _scatter(logs: Sequence[float]) -> float:
    """The scatter of a mean's worth of points, as if they were independent."""
    one, two = _deviation(logs, 1), _deviation(logs, 2)
    correlation = min(max((two / one) ** 2 - 1, 0.0), MAX_CORRELATION) if one > FLOOR else 0.0
    # Of neighbours that are alike, differences show only a part of the scatter.
    alone = one / math.sqrt(1 - correlation)
    return alone * math.sqrt((1 + correlation) / (1 - correlation))


def _deviation(logs: Sequence[float], lag: int) -> float:
    """The standard deviation as the differences over a lag tell it: 1.4826 times their median, over sqrt(2)."""
    differences = [abs(after - before) for before, after in zip(logs, logs[lag:], strict=False)]
    return max(FLOOR, 1.4826 * statistics.median(differences) / math.sqrt(2))
