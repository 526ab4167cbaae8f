"""Whether a change did it: launches as the unit of evidence, at most three planned looks, a floor under the noise.

Runs inside one launch share its luck (autotuning, memory layout, clocks), so five runs are one observation: their
mean. The scale of launches is not estimated from two of them alone but moderated: a floor that is known beforehand
counts like `PRIOR_DF` degrees of freedom and is corrected by what the launches show (the conjugate form of an inverse
chi-squared prior; Smyth 2004, Statistical Applications in Genetics 3(1):3).

Arms alternate, A B | A B | A B; a look is taken after each pair. From the second on the effect is the least-squares
coefficient of the arm beside a linear drift. The levels of the looks keep the chance of a false confirmation under
one percent at no effect as long as launches scatter by no more than the floor says; `tests/experiment` shows it.
"""

import math
import statistics
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from diagnoser.experiment.student import t_quantile

PRIOR_DF = 4.0
"""Degrees of freedom that the floor is worth."""

MAX_PRIOR_DF = 12.0
"""What a host's own history can raise them to."""

LOOK_LEVELS = (0.03, 0.04, 0.05)
"""Two-sided levels of the intervals at looks 1, 2 and 3."""

SMALLEST_WORTH = 0.01
"""The smallest relative effect worth having."""

FLOORS = {
    "decode_ms_per_token": 0.002,
    "output_tok_s_wall": 0.0075,
    "output_tok_s_request": 0.0075,
    "ttft_ms": 0.0075,
    "e2e_ms": 0.0075,
    "e2e_ms_per_token": 0.0075,
}
"""Relative scatter between launches where nothing is known of a host: eight launches of SGLang on an H200 repeat the
decode time per token within 0.05 % and tokens per second within 0.5 %, which leaves room for worse hosts."""

SMALLEST_FLOOR = 0.003
"""What a host's history can lower the floor of any other metric to."""

BIMODAL = 0.05
"""A larger difference between launches of one arm looks like two kinds of launches."""

LOWER_IS_BETTER = frozenset(["decode_ms_per_token", "ttft_ms", "e2e_ms", "e2e_ms_per_token", "chunk_gap_ms"])


class Arm(Enum):
    """A: as found. B: with the change."""

    A = "A"
    B = "B"


class Launch(NamedTuple):
    """One start of a server with its runs. values: the metric of each valid run, all positive."""

    arm: Arm
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean of the logarithms."""
        return statistics.fmean(map(math.log, self.values))


class Noise(NamedTuple):
    """What is known of the scatter between launches: relative standard deviation, and what it is worth."""

    floor: float = 0.0075
    df: float = PRIOR_DF


UNKNOWN = Noise()
"""Nothing is known of the host."""


class Interval(NamedTuple):
    """A relative effect, such as 0.10 for ten percent more, with its interval at ``level``."""

    effect: float
    low: float
    high: float
    level: float


class Verdict(Enum):
    """What a comparison says of a change."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    HARMFUL = "harmful"
    INCONCLUSIVE = "inconclusive"
    VOID = "void"


class Look(NamedTuple):
    """The state after some pairs of launches.

    pairs: how many. reproduced: every launch of B beat every launch of A, over at least two pairs. drift: relative
    change from a launch to the next, None before the second look. bimodal: launches of one arm differ so much that
    there may be two kinds. share: which part of the gap was recovered, where a gap was given. final: no look follows.
    """

    verdict: Verdict
    interval: Interval
    pairs: int
    reproduced: bool
    drift: float | None
    bimodal: bool
    share: Interval | None
    final: bool


def noise_from_history(metric: str, launches: Sequence[Sequence[float]]) -> Noise:
    """The noise of a metric on a host, learned from earlier launches of unchanged configurations.

    launches: for each configuration the launches' values. The pooled scatter replaces the floor and counts with its
    own degrees of freedom, up to `MAX_PRIOR_DF`.
    """
    floor = FLOORS.get(metric, 0.0075)
    squares = df = 0.0
    for values in launches:
        logs = [math.log(value) for value in values]
        if len(logs) > 1:
            squares += statistics.variance(logs) * (len(logs) - 1)
            df += len(logs) - 1
    if not df:
        return Noise(floor)
    learned = math.sqrt((PRIOR_DF * floor**2 + squares) / (PRIOR_DF + df))
    return Noise(max(learned, min(floor, SMALLEST_FLOOR)), min(PRIOR_DF + df, MAX_PRIOR_DF))


def run_scatter(launches: Sequence[Launch]) -> float:
    """The pooled standard deviation of the runs' logarithms inside their launches."""
    squares = df = 0.0
    for launch in launches:
        if len(launch.values) > 1:
            squares += statistics.variance(map(math.log, launch.values)) * (len(launch.values) - 1)
            df += len(launch.values) - 1
    return math.sqrt(squares / df) if df else 0.0


def detectable(
    pairs: int, run_cv: float, noise: Noise = UNKNOWN, runs: int = 5, worth: float = SMALLEST_WORTH
) -> float:
    """The smallest relative effect that is confirmed in 80 % of experiments of so many pairs.

    exp(log(1 + worth) + (t(0.975) + t(0.8)) * SE) - 1, with SE^2 = (floor^2 + run_cv^2 / runs) * 2 / pairs.
    """
    df = noise.df + 2 * (pairs - 1)
    error = math.sqrt((noise.floor**2 + run_cv**2 / runs) * 2 / pairs)
    return math.exp(math.log1p(worth) + (t_quantile(0.975, df) + t_quantile(0.8, df)) * error) - 1


def look(
    launches: Sequence[Launch],
    *,
    lower_is_better: bool = False,
    noise: Noise = UNKNOWN,
    gap: float | None = None,
    worth: float = SMALLEST_WORTH,
) -> Look:
    """Judge what there is. The launches stand in the order they were made, A and B in turn.

    A positive effect is an improvement whatever the metric. gap: the relative loss that the change should explain;
    a change that cannot carry half of it is refuted. Raises ValueError for launches that are no pairs.
    """
    pairs = len(launches) // 2
    arms = [launch.arm for launch in launches]
    if not launches or arms != [Arm.A, Arm.B] * pairs or any(not launch.values for launch in launches):
        raise ValueError("launches must come as A B, A B, ..., each with a valid run")
    sign = -1.0 if lower_is_better else 1.0
    means = [sign * launch.mean for launch in launches]
    runs = statistics.fmean(len(launch.values) for launch in launches)
    inside = run_scatter(launches) ** 2 / runs
    effect, weight, squares, df, drift = _contrast(means)
    variance = max((noise.df * (noise.floor**2 + inside) + squares) / (noise.df + df), inside)
    level = LOOK_LEVELS[min(pairs, len(LOOK_LEVELS)) - 1]
    half = t_quantile(1 - level / 2, noise.df + df) * math.sqrt(variance * weight)
    least = math.log1p(worth)
    wanted = max(least, math.log1p(gap) / 2) if gap else least
    low, high = effect - half, effect + half
    final = pairs >= len(LOOK_LEVELS)
    if low > least:
        verdict = Verdict.CONFIRMED
    elif high < -least:
        verdict = Verdict.HARMFUL
    elif high < wanted:
        verdict = Verdict.REFUTED
    else:
        verdict = Verdict.INCONCLUSIVE
    a, b = means[0::2], means[1::2]
    spread = max(max(arm) - min(arm) for arm in (a, b))
    share = None
    if gap:
        whole = math.log1p(gap)
        share = Interval(effect / whole, low / whole, high / whole, level)
    return Look(
        verdict,
        Interval(math.expm1(effect), math.expm1(low), math.expm1(high), level),
        pairs,
        pairs > 1 and min(b) > max(a),
        drift,
        spread > BIMODAL,
        share,
        final or verdict is not Verdict.INCONCLUSIVE,
    )


def _contrast(means: Sequence[float]) -> tuple[float, float, float, int, float | None]:
    """The effect of B with its variance factor, the residual sum of squares between launches, its degrees of freedom,
    and the drift from launch to launch.

    One pair: B - A. More: least squares on arm and position; for A B A B that is (3 B1 + B2 - A1 - 3 A2) / 4.
    """
    count = len(means)
    if count == 2:
        return means[1] - means[0], 2.0, 0.0, 0, None
    arm = [-0.5 if position % 2 == 0 else 0.5 for position in range(count)]
    place = [position - (count - 1) / 2 for position in range(count)]
    middle = statistics.fmean(means)
    y = [mean - middle for mean in means]
    aa, pp = sum(x * x for x in arm), sum(x * x for x in place)
    ap = sum(x * z for x, z in zip(arm, place, strict=True))
    ay = sum(x * v for x, v in zip(arm, y, strict=True))
    py = sum(z * v for z, v in zip(place, y, strict=True))
    determinant = aa * pp - ap * ap
    effect = (ay * pp - py * ap) / determinant
    drift = (py * aa - ay * ap) / determinant
    residual = sum((v - effect * x - drift * z) ** 2 for v, x, z in zip(y, arm, place, strict=True))
    return effect, pp / determinant, residual, count - 3, drift


def difference(
    before: Sequence[Launch],
    after: Sequence[Launch],
    *,
    lower_is_better: bool,
    noise: Noise = UNKNOWN,
    level: float = 0.05,
) -> Interval:
    """The improvement from one set of launches to another that was made at some other time: no order, no drift.

    Raises ValueError without a launch on each side.
    """
    if not before or not after:
        raise ValueError("a launch is needed on each side")
    sign = -1.0 if lower_is_better else 1.0
    sides = [[sign * launch.mean for launch in side] for side in (before, after)]
    launches = [*before, *after]
    inside = run_scatter(launches) ** 2 / statistics.fmean(len(launch.values) for launch in launches)
    squares = sum(statistics.variance(side) * (len(side) - 1) for side in sides if len(side) > 1)
    df = noise.df + len(launches) - 2
    variance = max((noise.df * (noise.floor**2 + inside) + squares) / df, inside)
    effect = statistics.fmean(sides[1]) - statistics.fmean(sides[0])
    half = t_quantile(1 - level / 2, df) * math.sqrt(variance * (1 / len(before) + 1 / len(after)))
    return Interval(math.expm1(effect), math.expm1(effect - half), math.expm1(effect + half), level)
