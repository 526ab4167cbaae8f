"""Two sets of benchmark results held beside each other: only like with like, with what limits the answer."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from diagnoser.compare.effects import effect_text
from diagnoser.experiment.measured import OFF_LENGTH, Measured
from diagnoser.experiment.statistics import (
    FLOORS,
    LOWER_IS_BETTER,
    SMALLEST_WORTH,
    Arm,
    Interval,
    Launch,
    Noise,
    detectable,
    difference,
    run_scatter,
)

PRIMARY = (
    "output_tok_s_wall",
    "output_tok_s_request",
    "decode_ms_per_token",
    "e2e_ms",
    "e2e_ms_per_token",
    "ttft_ms",
    "prompt_tok_s",
    "total_tok_s_wall",
)
"""The first of these that both sides have decides; the others are told beside it."""

SCHEMA = "diagnoser/comparison/1"
Word = Literal["faster", "slower", "no difference seen", "the same"]


class NotComparableError(ValueError):
    """Two results that say nothing about each other; the message is one sentence."""


class Row(NamedTuple):
    """One metric: the means of both sides, and how much better B is, whatever direction better is."""

    metric: str
    before: float
    after: float
    better: Interval


class Comparison(NamedTuple):
    """The answer. word: of the deciding metric, the first row. detectable: what could have been seen with as many
    launches. differs: what else is different. limits: why the answer is no stronger."""

    word: Word
    rows: tuple[Row, ...]
    detectable: float
    launches: tuple[int, int]
    differs: tuple[str, ...]
    limits: tuple[str, ...]


def compare(before: Sequence[Measured], after: Sequence[Measured]) -> Comparison:
    """Raises `NotComparableError`."""
    common = [metric for metric in PRIMARY if _has(before, metric) and _has(after, metric)]
    if not common:
        names = [
            ", ".join(sorted({name for one in side for run in one.runs for name in run}))
            for side in (before, after)
        ]
        raise NotComparableError(
            f"the two sides measure different things: {names[0] or 'nothing'} and {names[1] or 'nothing'}"
        )
    _same_load(before[0], after[0])
    rows = tuple(_row(metric, before, after) for metric in common)
    first = rows[0]
    sides = _launches(common[0], before, Arm.A), _launches(common[0], after, Arm.B)
    pairs = min(map(len, sides))
    floor = Noise(FLOORS.get(common[0], 0.0075))
    seen = detectable(pairs, run_scatter([*sides[0], *sides[1]]), floor, max(1, len(sides[0][0].values)))
    return Comparison(
        _word(first.better),
        rows,
        seen,
        (len(sides[0]), len(sides[1])),
        tuple(_differences(before[0].identity, after[0].identity)),
        tuple(_limits(before, after, pairs)),
    )


def _has(side: Sequence[Measured], metric: str) -> bool:
    return bool(side) and all(any(metric in run for run in one.runs) for one in side)


def _launches(metric: str, side: Sequence[Measured], arm: Arm) -> list[Launch]:
    return [Launch(arm, tuple(run[metric] for run in one.runs if metric in run)) for one in side]


def _row(metric: str, before: Sequence[Measured], after: Sequence[Measured]) -> Row:
    a, b = _launches(metric, before, Arm.A), _launches(metric, after, Arm.B)
    better = difference(
        a, b, lower_is_better=metric in LOWER_IS_BETTER, noise=Noise(FLOORS.get(metric, 0.0075))
    )
    return Row(metric, _mean(a), _mean(b), better)


def _mean(launches: Sequence[Launch]) -> float:
    values = [value for launch in launches for value in launch.values]
    return sum(values) / len(values)


def _word(better: Interval) -> Word:
    if better.low > 0:
        return "faster"
    if better.high < 0:
        return "slower"
    if better.low > -SMALLEST_WORTH and better.high < SMALLEST_WORTH:
        return "the same"
    return "no difference seen"


def _same_load(before: Measured, after: Measured) -> None:
    for name in ("prompt_tokens", "output_tokens", "concurrency", "rate_per_s", "depth"):
        one, other = before.workload.get(name), after.workload.get(name)
        if one is None or other is None:
            continue
        if abs(one - other) > OFF_LENGTH * max(abs(one), abs(other)):
            words = name.replace("_", " ")
            raise NotComparableError(
                f"the loads differ: {words} {one:g} and {other:g}; measure both sides alike"
            )


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(before.keys() & after.keys()):
        if before[name] != after[name] and name not in ("random_seed", "port"):
            yield f"{name}: {before[name]} and {after[name]}"


def _limits(before: Sequence[Measured], after: Sequence[Measured], pairs: int) -> Iterator[str]:
    if pairs < 2:
        yield (
            "one launch on a side: launches differ by more than runs do, so small differences may be luck; "
            "start each side once more and measure again"
        )
    if len({one.tool.split()[0] for one in [*before, *after]}) > 1:
        yield f"measured by different tools: {before[0].tool} and {after[0].tool}"
    missing = [one.file for one in (*before, *after) if not one.workload]
    if missing:
        yield f"{missing[0]} does not say what load it was measured under"
    for one in (*before, *after):
        for flag in one.flags:
            yield f"{one.file}: {flag}"


def as_text(found: Comparison) -> str:
    """What a person reads."""
    first = found.rows[0]
    lines = [f"B is {found.word}: {_change(first.better)} {first.metric}" if found.word in ("faster", "slower") else
             f"{found.word.capitalize()}: {_change(first.better)} {first.metric}", ""]  # fmt: skip
    width = max(len(row.metric) for row in found.rows)
    for row in found.rows:
        lines.append(
            f"  {row.metric:<{width}}  {row.before:>10.2f} -> {row.after:>10.2f}   better by {_change(row.better)}"
        )
    counts = f"{found.launches[0]} and {found.launches[1]} launches"
    lines += ["", f"  with {counts} a change of {found.detectable:.1%} is seen in 4 of 5 cases"]
    lines += [f"  differs: {words}" for words in found.differs[:12]]
    lines += [f"  limit: {words}" for words in found.limits]
    return "\n".join(lines) + "\n"


def _change(better: Interval) -> str:
    return effect_text(better.effect, better.low, better.high)


def as_json(found: Comparison) -> dict[str, Any]:
    """Effects as relative improvements of B, 0.10 for ten percent."""
    return {
        "schema": SCHEMA,
        "word": found.word,
        "metrics": [
            {"metric": row.metric, "before": row.before, "after": row.after, "better": row.better._asdict()}
            for row in found.rows
        ],
        "detectable": found.detectable,
        "launches": list(found.launches),
        "differs": list(found.differs),
        "limits": list(found.limits),
    }
