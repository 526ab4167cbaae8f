"""The facts that series come down to: statistics of a metric, under each load, and over time."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from diagnoser.facts.base import Fact
from diagnoser.facts.engine import SeriesStat
from diagnoser.facts.loads import CELL, CONTEXTS
from diagnoser.facts.sketch import SCALE, Mark, Minutes, Sketch

Key = tuple[str, int | None]


Stated = tuple[Fact, int, str]
"""A fact, the line that shows it, and that line's text."""


_WORST_IS_LOW = frozenset(
    {"decode_tok_s", "decode_mixed_tok_s", "prefill_tok_s", "accept_len", "accept_rate", "cuda_graph"}
)


_TREND_BUCKETS = 6


class SeriesTrend(Fact):
    """How a metric moved over the time of the text: the means of its first and last third of minutes.

    ratio: late / early. minutes: how long the text is, from the first to the last minute.
    """

    kind: ClassVar[str] = "series_trend"
    metric: str
    early: float
    late: float
    ratio: float
    minutes: int

    @property
    def family(self) -> str:
        return f"series_trend:{self.metric}"


class SeriesAt(Fact):
    """The speed under one load: so many running requests with contexts of so many tokens each, on the average.

    context: the lower end of a range of tokens (`CONTEXTS`). median within 0.4 %, as in `SeriesStat`.
    """

    kind: ClassVar[str] = "series_at"
    kept: ClassVar[int] = 512
    metric: str
    running: int
    context: int
    count: int
    median: float

    @property
    def family(self) -> str:
        return f"series_at:{self.metric}"


def statistics(metric: str, sketches: Mapping[Key, Sketch]) -> Iterator[Stated]:
    """A metric at all loads together, at each number of running requests, and at each length of their contexts."""
    loads: dict[int | None, Sketch] = {}
    for (name, number), sketch in sketches.items():
        if name == metric:
            running = None if number is None else number % CELL
            known = loads.get(running)
            loads[running] = sketch if known is None else known.merge(sketch)
    groups = sorted(loads.items(), key=_by_running)
    every = Sketch()
    for _, sketch in groups:
        every = every.merge(sketch)
    if metric in ("cached_tokens", "prompt_tokens"):
        return
    share = metric == "cuda_graph"
    yield from _stat(metric, None, every, every.mean if share else None)
    for running, sketch in groups:
        if running is not None:
            yield from _stat(metric, running, sketch, None)
    for (name, number), sketch in sorted(sketches.items(), key=lambda item: (item[0][0], item[0][1] or 0)):
        if name == metric and number is not None and number >= CELL and sketch.first is not None:
            context, running = divmod(number, CELL)
            yield (
                SeriesAt(
                    metric=metric,
                    running=running,
                    context=CONTEXTS[context - 1],
                    count=sketch.count,
                    median=round(sketch.quantile(0.5), 4),
                ),
                sketch.first.line,
                sketch.first.text,
            )


def totals(sketches: Mapping[Key, Sketch]) -> Iterator[Stated]:
    """Metrics that are sums: the cache's share of prompt tokens, all preemptions, all retractions."""
    cached, prompt = sketches.get(("cached_tokens", None)), sketches.get(("prompt_tokens", None))
    if cached is not None and prompt is not None and prompt.total:
        yield from _stat("cache_hit", None, cached, cached.total / prompt.total)
    retracted = sketches.get(("retracted_reqs", None))
    if retracted is not None:
        yield from _stat("retracted_total", None, retracted, retracted.total / SCALE)
    preempted, cumulative = (
        sketches.get(("preemptions", None)),
        sketches.get(("preemptions_cumulative", None)),
    )
    if preempted is not None:
        yield from _stat("preemptions_total", None, preempted, preempted.total / SCALE)
    elif cumulative is not None and cumulative.high is not None:
        yield from _stat("preemptions_total", None, cumulative, cumulative.high.value / SCALE)


def trend(metric: str, minutes: Minutes, sketches: Mapping[Key, Sketch]) -> Iterator[Stated]:
    """How a metric moved from the first third of its minutes to the last, where there are minutes enough."""
    means = minutes.means()
    third = len(means) // 3
    last = max(
        (sketch.last for (name, _), sketch in sketches.items() if name == metric and sketch.last),
        key=_line,
        default=None,
    )
    if len(means) < _TREND_BUCKETS or last is None:
        return
    early = sum(mean for _, mean in means[:third]) / third
    late = sum(mean for _, mean in means[-third:]) / third
    if early > 0:
        span = means[-1][0] - means[0][0] + minutes.width
        trend = SeriesTrend(
            metric=metric,
            early=round(early, 4),
            late=round(late, 4),
            ratio=round(late / early, 4),
            minutes=span,
        )
        yield trend, last.line, last.text


def _stat(metric: str, running: int | None, sketch: Sketch, all_same: float | None) -> Iterator[Stated]:
    if sketch.first is None or sketch.last is None or sketch.low is None or sketch.high is None:
        return
    low, high = sketch.low.value / SCALE, sketch.high.value / SCALE
    if all_same is None:
        p05, median, p95 = (min(max(sketch.quantile(share), low), high) for share in (0.05, 0.5, 0.95))
    else:
        low = p05 = median = p95 = high = all_same
    stat = SeriesStat(
        metric=metric,
        running=running,
        count=sketch.count,
        min=round(low, 4),
        p05=round(p05, 4),
        median=round(median, 4),
        p95=round(p95, 4),
        max=round(high, 4),
        first=round(sketch.first.value / SCALE if all_same is None else all_same, 4),
        last=round(sketch.last.value / SCALE if all_same is None else all_same, 4),
    )
    worst = sketch.low if metric in _WORST_IS_LOW else sketch.high
    for line, text in sorted({(sketch.first.line, sketch.first.text), (worst.line, worst.text)}):
        yield stat, line, text


def _line(mark: Mark) -> int:
    return mark.line


def _by_running(item: tuple[int | None, Sketch]) -> int:
    return -1 if item[0] is None else item[0]
