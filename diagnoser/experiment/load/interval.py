"""How far the mean of a few runs may be off."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from diagnoser.experiment.student import t_quantile


def mean_interval(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and half width of its 95 % interval over runs of one launch; no width for a single run.

    It says nothing about the next launch of the server: launches differ by more than runs do.
    """
    mean = fmean(values)
    if len(values) < 2:
        return mean, None
    return mean, t_quantile(0.975, len(values) - 1) * stdev(values) / math.sqrt(len(values))
