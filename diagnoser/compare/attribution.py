"""A change in speed split over the causes that came and went, by what each was measured to cost elsewhere.

Logarithms add where factors multiply: a loss of 9.4 % and a gain of 3.5 % together are a loss of 6.3 %. A gain that
was measured is one pair of launches somewhere else, so it is as uncertain as the change itself.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

_PERCENT = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*%")
_FACTOR = re.compile(r"(\d+(?:\.\d+)?)\s*x")

FAMILIES: Mapping[str, frozenset[str]] = {
    "decode_tok_s": frozenset(["decode_tok_s", "output_tok_s", "throughput", "total_tok_s"]),
    "output_tok_s": frozenset(["decode_tok_s", "output_tok_s", "throughput", "total_tok_s"]),
    "prefill_tok_s": frozenset(["prefill_tok_s", "input_tok_s"]),
    "ttft_ms": frozenset(["ttft_ms", "prefill_tok_s", "input_tok_s"]),
}
"""Which metrics a gain may have been measured on to be held against a change of this one."""

_LOWER_IS_BETTER = ("_ms", "_s", "latency", "_time", "rate")
_HIGHER = ("tok_s", "throughput")


class Share(NamedTuple):
    """A cause's part of the change as a logarithm, negative for a loss, and half its interval: what was measured once
    elsewhere is as uncertain as the change here. effect None: nobody has measured it."""

    rule: str
    effect: float | None
    half: float
    measured: str | None


class Attribution(NamedTuple):
    """total: log(after / before) and half its interval. left: what the shares leave unexplained, and half its interval.

    exceeds: the shares of one direction come to more than was seen.
    """

    total: float
    half: float
    shares: tuple[Share, ...]
    left: float
    left_half: float
    exceeds: bool

    @property
    def carries_over(self) -> bool:
        """Whether the measured shares agree with what was seen: they do not exceed it, or by no more than noise."""
        return not self.exceeds or self.left_is_noise

    @property
    def left_is_noise(self) -> bool:
        """Whether what is left cannot be told from nothing."""
        return abs(self.left) <= self.left_half


def gain_of(cause: Mapping[str, Any], metric: str) -> float | None:
    """log(with the fix / without) of a cause's measured gain, where it was measured on this kind of metric."""
    gain = cause.get("gain")
    if not gain or gain["metric"] not in FAMILIES.get(metric, frozenset([metric])):
        return None
    change = str(gain["change"])
    if percent := _PERCENT.search(change):
        factor = 1 + float(percent.group(1)) / 100
    elif ratio := _FACTOR.search(change):
        factor = float(ratio.group(1))
    else:
        return None
    if factor <= 0:
        return None
    lower = gain["metric"].endswith(_LOWER_IS_BETTER) and not gain["metric"].endswith(_HIGHER)
    return math.log(1 / factor if lower and "x" not in change else factor)


def attribute(
    total: float,
    half: float,
    metric: str,
    came: Iterable[str],
    went: Iterable[str],
    causes: Mapping[str, Mapping[str, Any]],
) -> Attribution:
    """Split a change. came: causes that only the later side has; went: causes that only the earlier side had.

    total and half are logarithms; half is taken as the noise of every measured gain too.
    """
    shares = [_share(rule, causes[rule], metric, -1, half) for rule in came]
    shares += [_share(rule, causes[rule], metric, 1, half) for rule in went]
    known = [share.effect for share in shares if share.effect is not None]
    shares.sort(key=lambda share: (share.effect is None, -abs(share.effect or 0), share.rule))
    left = total - sum(known)
    return Attribution(
        total, half, tuple(shares), left, half * math.sqrt(1 + len(known)), _exceeds(total, known, half)
    )


def _share(rule: str, cause: Mapping[str, Any], metric: str, sign: int, half: float) -> Share:
    gain = gain_of(cause, metric)
    where = cause.get("gain")
    measured = f"{where['change']}, {where['where']}" if where and gain is not None else None
    return Share(rule, None if gain is None else sign * gain, half, measured)


def _exceeds(total: float, known: Sequence[float], half: float) -> bool:
    losses, gains = sum(one for one in known if one < 0), sum(one for one in known if one > 0)
    return losses < min(total, 0.0) - half or gains > max(total, 0.0) + half
