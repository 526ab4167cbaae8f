"""Change points on series whose truth is known, and on the lines of real logs whose load is known."""

import math
import random
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from diagnoser.compare.changepoints import MIN_POINTS, change_points

CAPTURES = Path(__file__).resolve().parents[2] / "fixtures" / "captures"
NEAR = 3
"""A change counts as found within so many points."""


class Shape(NamedTuple):
    """A series: points, scatter (a logarithm), correlation of neighbours, share of stalls, drift over the whole."""

    points: int
    scatter: float
    correlation: float = 0.0
    stalls: float = 0.0
    drift: float = 0.0


def series(shape: Shape, seed: int, changes: int, size: float | None = None) -> tuple[list[float], list[int]]:
    """Values about 100 and the places of the changes: 5 to 30 % each way, at least 10 points apart."""
    chance = random.Random(seed)
    margin = min(15, shape.points // 3)
    places: list[int] = []
    for place in sorted(chance.sample(range(margin, shape.points - margin), changes)):
        if not places or place - places[-1] >= 15:
            places.append(place)
    level = noise = 0.0
    values = []
    for index in range(shape.points):
        if index in places:
            level += chance.choice([-1, 1]) * (size or chance.uniform(0.05, 0.3))
        noise = shape.correlation * noise + math.sqrt(1 - shape.correlation**2) * chance.gauss(
            0, shape.scatter
        )
        stall = chance.uniform(0.3, 1) if chance.random() < shape.stalls else 0.0
        values.append(100 * math.exp(level + noise - stall + shape.drift * index / shape.points))
    return values, places


def measured(shape: Shape, seeds: int, changes: int, size: float | None = None) -> tuple[float, float]:
    """Recall, and false alarms per 1,000 points."""
    true = hit = false = 0
    for seed in range(seeds):
        values, places = series(shape, seed, changes, size)
        left = [shift.place for shift in change_points(values)]
        for place in places:
            close = [one for one in left if abs(one - place) <= NEAR]
            if close:
                hit += 1
                left.remove(min(close, key=lambda one: abs(one - place)))
        true, false = true + len(places), false + len(left)
    return hit / true if true else 1.0, 1000 * false / (seeds * shape.points)


STEADY = {
    "30 results, 1 %": Shape(30, 0.01),
    "100 points, 1 %": Shape(100, 0.01),
    "300 points, 3 %": Shape(300, 0.03),
    "300 points, 1 %, alike": Shape(300, 0.01, correlation=0.5),
    "300 points, 1 %, stalls": Shape(300, 0.01, stalls=0.03),
    "a day of minutes, 1 %": Shape(1440, 0.01),
    "a day of minutes, 3 %": Shape(1440, 0.03),
}


@pytest.mark.parametrize("shape", STEADY.values(), ids=STEADY)
def test_no_change_no_alarm_and_changes_of_5_to_30_percent_are_found(shape: Shape) -> None:
    """What docs/compare.md states: at least 95 % found, at most 0.2 false alarms per 1,000 points."""
    seeds = 12 if shape.points > 1000 else 60
    assert measured(shape, seeds, 0)[1] <= 0.2
    recall, false = measured(shape, seeds, max(1, shape.points // 60))
    assert recall >= 0.95
    assert false <= 0.2


def test_strong_correlation_costs_recall_and_some_false_alarms() -> None:
    shape = Shape(100, 0.02, correlation=0.7)
    recall, false = measured(shape, 60, 1)
    assert recall >= 0.95
    assert false <= 4
    assert measured(shape, 60, 1, size=0.05)[0] >= 0.4


def test_a_slow_drift_is_hardly_ever_a_change() -> None:
    assert measured(Shape(100, 0.01, drift=-0.2), 60, 0)[1] <= 2.5
    assert measured(Shape(1440, 0.01, drift=-0.2), 12, 0)[1] <= 0.2


def test_single_stalls_and_small_changes_are_no_change_and_few_points_have_no_past() -> None:
    steady = [100.0, 101.0, 99.0, 100.5] * 10
    assert change_points(steady) == []
    assert change_points([*steady[:20], 30.0, *steady[20:]]) == []
    assert change_points([100.0] * 20 + [98.0] * 20) == []  # 2 %
    assert [shift.place for shift in change_points([100.0] * 20 + [95.0] * 20)] == [20]
    assert change_points(([100.0] * 5 + [50.0] * 5)[: MIN_POINTS - 1]) == []
    assert change_points([100.0, 0.0] * 20) == []


LINE = re.compile(
    r"Decode batch.*?#running-req: (\d+).*?#token: (\d+).*?gen throughput \(token/s\): ([\d.]+)"
)


@pytest.mark.parametrize("name", ["default", "triton", "healthy-0.5.17"])
def test_lines_of_a_real_server_change_where_its_prompts_become_long(name: str) -> None:
    """The client sent prompts of 39 tokens, then of 10,000 (fixtures/captures/sglang_h200/README.md)."""
    lines = [
        (int(held), float(rate))
        for _, held, rate in LINE.findall((CAPTURES / "sglang_h200" / f"{name}.log").read_text())
    ]
    first_long = next(place for place, (held, _) in enumerate(lines) if held > 9000)
    (shift,) = change_points([rate for _, rate in lines])
    assert abs(shift.place - first_long) <= 1


@pytest.mark.parametrize("name", ["small-pool", "nograph"])
def test_false_alarms_on_real_lines(name: str) -> None:
    """nograph.log speeds up in its first 40 lines and differs by 4 % between prompts: three levels, none of them a fault."""
    rates = [
        float(rate) for _, _, rate in LINE.findall((CAPTURES / "sglang_h200" / f"{name}.log").read_text())
    ]
    assert len(change_points(rates)) == {"small-pool": 0, "nograph": 3}[name]
