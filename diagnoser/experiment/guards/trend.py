"""Whether the runs of a launch still went somewhere while they were made."""

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

from diagnoser.experiment.load.guards import Finding

TREND_VOID = 0.01
"""Relative change from run to run, when every run goes the same way."""


def slope(values: Sequence[float]) -> float:
    """Theil and Sen's slope of the logarithms: the median over all pairs of runs, relative change a run.

    >>> round(slope([100, 102, 104.04, 106.12]), 4)
    0.0198
    """
    logs = [math.log(value) for value in values]
    pairs = [(logs[j] - logs[i]) / (j - i) for i in range(len(logs)) for j in range(i + 1, len(logs))]
    return statistics.median(pairs) if pairs else 0.0


def trending(values: Sequence[float]) -> Finding | None:
    """A finding when the runs rise or fall all the way, by more than `TREND_VOID` a run."""
    steps = [after - before for before, after in pairwise(values)]
    same = bool(steps) and (all(step > 0 for step in steps) or all(step < 0 for step in steps))
    change = slope(values)
    if len(values) < 3 or not same or abs(change) <= TREND_VOID:
        return None
    text = (
        f"the runs {'rise' if change > 0 else 'fall'} by {abs(change):.1%} from one to the next: not warm yet"
    )
    return Finding("trend", "void", text)
