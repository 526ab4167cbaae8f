"""One GPU over several samples: statistics that a single snapshot cannot give."""

from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Any, TypeVar

from diagnoser.facts.base import Found
from diagnoser.facts.gpu_samples import GpuSeries
from diagnoser.parsers.nvidia_smi.derive import Values, derived
from diagnoser.parsers.nvidia_smi.values import Draft

T = TypeVar("T")

KEPT = 8
"""Samples of one GPU that become facts of their own: half from the beginning, half from the end."""


def ends(samples: Sequence[T]) -> list[T]:
    """The first and last samples, `KEPT` in all.

    >>> ends(range(20))
    [0, 1, 2, 3, 16, 17, 18, 19]
    """
    return list(samples) if len(samples) <= KEPT else [*samples[: KEPT // 2], *samples[-KEPT // 2 :]]


def gpu_series(samples: Sequence[Draft]) -> Iterator[Found]:
    """The series of drafts of one GPU, in the order of the text."""
    rows = [derived(sample) for sample in samples]
    util, power = _column(rows, "util_pct"), _column(rows, "power_w")
    clock, used = _column(rows, "clock_sm_mhz"), _column(rows, "memory_used_mib")
    low = [bool(row.get("under_load") and row.get("link_gen_below_limit")) for row in rows]
    fact = GpuSeries(
        gpu_index=rows[0].get("index"),
        bus_id=rows[0].get("bus_id"),
        samples=len(rows),
        loaded=_count(rows, "under_load"),
        link_low_run=_longest(low) if _column(rows, "link_gen_below_limit") else None,
        thermal=_count(rows, "throttled_thermal"),
        power_cap=_count(rows, "reason_sw_power_cap"),
        hw=_count(rows, "throttled_hw"),
        util_median_pct=_median(util),
        util_max_pct=max(util, default=None),
        power_median_w=_median(power),
        power_max_w=max(power, default=None),
        clock_sm_min_mhz=min(clock, default=None),
        clock_sm_median_mhz=_median(clock),
        clock_sm_max_mhz=max(clock, default=None),
        temp_max_c=max(_column(rows, "temp_c"), default=None),
        memory_used_min_mib=min(used, default=None),
        memory_used_max_mib=max(used, default=None),
    )
    yield Found(fact, samples[0].first, samples[-1].last)


def _column(rows: Sequence[Values], name: str) -> list[Any]:
    return [row[name] for row in rows if name in row]


def _count(rows: Sequence[Values], name: str) -> int | None:
    shown = _column(rows, name)
    return sum(shown) if shown else None


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _longest(flags: Iterable[bool]) -> int:
    """Length of the longest run of True."""
    best = run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        best = max(best, run)
    return best
