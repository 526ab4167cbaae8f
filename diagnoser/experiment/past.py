"""A new result held against earlier ones of the same service: as usual, or a new level, and since when.

Up to `MANY` results the new one is one launch against all earlier ones, with the scatter that they show
(`experiment.statistics`); from then on the levels of the series are told apart (`compare.changepoints`) and the new one
is held against those of the present level.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from diagnoser.compare.changepoints import Shift, change_points
from diagnoser.experiment.statistics import (
    LOWER_IS_BETTER,
    Arm,
    Interval,
    Launch,
    difference,
    noise_from_history,
)

FEW = 3
"""Fewer earlier results than this say nothing of what is usual."""

MANY = 20

Word = Literal["too few to say", "as usual", "slower", "faster"]


class Past(NamedTuple):
    """The newest result against those before it.

    better: how much better it is, whatever direction better is. against: how many it was held against. shifts: the
    changes of level in the whole series, the newest included; empty below `MANY` results.
    """

    word: Word
    better: Interval | None
    against: int
    shifts: tuple[Shift, ...]


def against_past(metric: str, results: Sequence[Sequence[float]]) -> Past:
    """results: the values of each result's runs, in time; the last one is the new one."""
    *past, new = [values for values in results if values and min(values) > 0] or [()]
    if len(past) < FEW or not new:
        return Past("too few to say", None, len(past), ())
    shifts = _shifts(results) if len(past) + 1 >= MANY else []
    earlier = [shift for shift in shifts if shift.place <= len(past) - FEW]
    level = past[earlier[-1].place :] if earlier else past
    better = difference(
        [Launch(Arm.A, tuple(values)) for values in level],
        [Launch(Arm.B, tuple(new))],
        lower_is_better=is_time(metric),
        noise=noise_from_history(metric, [[sum(values) / len(values) for values in level]]),
    )
    word: Word = "faster" if better.low > 0 else "slower" if better.high < 0 else "as usual"
    return Past(word, better, len(level), tuple(shifts))


def is_time(metric: str) -> bool:
    """Whether less of it is better."""
    return metric in LOWER_IS_BETTER or metric.endswith(("_ms", "_ms_per_token", "_duration_s"))


def _shifts(results: Sequence[Sequence[float]]) -> list[Shift]:
    return change_points([sum(values) / len(values) for values in results if values and min(values) > 0])
