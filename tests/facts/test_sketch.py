"""Sketches and minutes: exact while small, within their error when large, the same in any grouping."""

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnoser.facts.sketch import KEPT_MINUTES, KEPT_VALUES, SCALE, Minutes, Sketch, bin_of, middle_of

values = st.lists(st.integers(0, 10**13), max_size=60)
rates = st.lists(st.integers(1, 10**7).map(lambda cents: cents * SCALE // 100), max_size=900)
many = st.integers(0, 2**30).map(
    lambda seed: [Random(seed + i).randint(1, 10**7) * SCALE // 100 for i in range(600)]
)


def sketch_of(numbers: list[int], first_line: int = 1) -> Sketch:
    sketch = Sketch()
    sketch.extend(numbers, range(first_line, first_line + len(numbers)))
    return sketch


def state(sketch: Sketch) -> object:
    return (
        sketch.count,
        sketch.total,
        sketch.first,
        sketch.last,
        sketch.low,
        sketch.high,
        sketch.binned,
        dict(sketch.counts),
    )


def nearest_rank(numbers: list[int], share: Fraction) -> int:
    ordered = sorted(numbers)
    return ordered[max(1, -(-(share * len(ordered)) // 1)) - 1]


@given(st.integers(0, 2**62))
def test_the_middle_of_a_bin_is_near(value: int) -> None:
    assert abs(middle_of(bin_of(value)) - value) <= value / 256 + 1


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_bins_keep_the_order(a: int, b: int) -> None:
    assert (bin_of(a) <= bin_of(b)) if a <= b else (bin_of(a) >= bin_of(b))


@given(values.filter(bool))
def test_few_values_are_exact(numbers: list[int]) -> None:
    sketch = sketch_of(numbers)
    assert not sketch.binned
    for share in (Fraction(5, 100), Fraction(1, 2), Fraction(95, 100)):
        assert sketch.quantile(float(share)) == nearest_rank(numbers, share) / SCALE


@settings(max_examples=40)
@given(many)
def test_many_values_are_within_one_percent(numbers: list[int]) -> None:
    sketch = sketch_of(numbers)
    assert len(set(numbers)) > KEPT_VALUES
    assert sketch.binned
    for share in (Fraction(5, 100), Fraction(1, 2), Fraction(95, 100)):
        assert sketch.quantile(float(share)) == pytest.approx(nearest_rank(numbers, share) / SCALE, rel=0.01)


@settings(max_examples=60)
@given(st.one_of(rates, many), st.integers(0, 900), st.integers(0, 900))
def test_any_grouping_gives_the_same(numbers: list[int], i: int, j: int) -> None:
    i, j = sorted((min(i, len(numbers)), min(j, len(numbers))))
    a, b, c = sketch_of(numbers[:i]), sketch_of(numbers[i:j], i + 1), sketch_of(numbers[j:], j + 1)
    whole = state(sketch_of(numbers))
    assert state(a.merge(b).merge(c)) == state(a.merge(b.merge(c))) == whole


def test_first_last_and_extremes_keep_their_lines() -> None:
    sketch = sketch_of([3, 1, 4, 1, 5])
    assert sketch.first is not None
    assert sketch.last is not None
    assert sketch.low is not None
    assert sketch.high is not None
    assert [mark[:2] for mark in (sketch.first, sketch.last, sketch.low, sketch.high)] == [
        (3, 1),
        (5, 5),
        (1, 2),
        (5, 5),
    ]


def test_minutes_stay_bounded_and_merge() -> None:
    whole, parts = Minutes(), [Minutes(), Minutes(), Minutes()]
    for minute in range(5000):
        whole.add(minute, 2, minute * SCALE)
        parts[minute * 3 // 5000].add(minute, 2, minute * SCALE)
    left = parts[0].merge(parts[1]).merge(parts[2])
    right = parts[0].merge(parts[1].merge(parts[2]))
    assert (whole.width, whole.buckets) == (left.width, left.buckets) == (right.width, right.buckets)
    assert len(whole.buckets) <= KEPT_MINUTES
    assert sum(count for count, _ in whole.buckets.values()) == 10_000
    assert whole.width == 4
