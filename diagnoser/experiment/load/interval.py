"""How far the mean of a few runs may be off."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

# Student's t, two-sided 95 %, 1 to 30 degrees of freedom (any printed table).
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


def mean_interval(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and half width of its 95 % interval over runs of one launch; no width for a single run.

    It says nothing about the next launch of the server: launches differ by more than runs do.
    """
    mean = fmean(values)
    if len(values) < 2:
        return mean, None
    free = len(values) - 1
    # Above the table: Cornish and Fisher's first term beyond the normal quantile.
    quantile = _T[free - 1] if free <= len(_T) else 1.960 + 2.372 / free
    return mean, quantile * stdev(values) / math.sqrt(len(values))
