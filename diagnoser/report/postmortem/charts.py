"""Charts as inline SVG: no script, no font and no picture from anywhere else."""

import math
import re
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from diagnoser.compare.attribution import Attribution
from diagnoser.report.postmortem.proof import ARMS, Look, Measured
from diagnoser.report.postmortem.timeline import BEGINS, ENDS, Moment, Series

_COMMENTS = re.compile(r"<!--.*?-->", re.DOTALL)
MAX_EVENTS = 6
SHORT_S = 900
"""Up to so long a time the axis shows seconds, so that no two marks are alike."""

COLORS = ("#2f6fb0", "#c46a16", "#3c8d5a", "#9a4fb3", "#b0392f", "#6b7a12", "#3f8f94", "#8a6d3b", "#666666")
"""Each stands out from white and from near-black."""


def speed(series: Series, moments: Sequence[Moment]) -> str | None:
    """Means of minutes over time, events as dashed lines with their words in the legend.

    None where there are too few minutes to draw.
    """
    drawn = {name: points for name, points in series.items() if len(points) > 1}
    if not drawn:
        return None
    top = max(mean for points in drawn.values() for _, mean in points)
    first = min(minute for points in drawn.values() for minute, _ in points) * 60
    last = max(minute for points in drawn.values() for minute, _ in points) * 60 + 60
    told = (moment for moment in moments if moment.what not in (BEGINS, ENDS))
    events = [moment for moment in told if first <= moment.at <= last][:MAX_EVENTS]
    clock = _clock if last - first > SHORT_S else _seconds
    chart = _chart("speed", len(drawn) + len(events), x_value_formatter=clock, range=(0, top * 1.05))
    for name, points in sorted(drawn.items()):
        chart.add(f"{name}, tok/s", [(minute * 60, round(mean, 2)) for minute, mean in points])
    for moment in events:
        line = [(moment.at, 0), (moment.at, top * 1.05)]
        dashed = {"width": 2, "dasharray": "5, 4"}
        chart.add(f"{clock(moment.at)} {moment.what}", line, show_dots=False, stroke_style=dashed)
    return _inline(chart, "Speed of decoding over time, with the events of the timeline")


def runs(launches: Sequence[Measured], metric: str) -> str | None:
    """Every run of every launch, one dot a run, and the mean of the launch as a line."""
    if not launches:
        return None
    values = [value for launch in launches for value in launch.values]
    low, high = min(values), max(values)
    space = (high - low) * 0.1 or high * 0.05 or 1
    chart = _chart(
        "runs", len(ARMS), range=(max(0, low - space), high + space), xrange=(0.4, len(launches) + 0.6)
    )
    chart.x_labels = [{"value": at, "label": launch.name} for at, launch in enumerate(launches, 1)]
    chart.y_title = metric.replace("_", " ")
    for arm, name in ARMS.items():
        dots: list[tuple[float, float] | None] = []
        means: list[tuple[float, float] | None] = []
        for at, launch in enumerate(launches, 1):
            if launch.arm != arm:
                continue
            many = len(launch.values)
            dots += [
                (at + (place - (many - 1) / 2) * 0.08, value) for place, value in enumerate(launch.values)
            ]
            mean = statistics.fmean(launch.values)
            means += [(at - 0.35, mean), (at + 0.35, mean), None]
        chart.add(name, dots, stroke=False, dots_size=4)
        chart.add(None, means, show_dots=False, allow_interruptions=True)
    # Both series of an arm have one colour.
    chart.config.style.colors = tuple(color for color in COLORS[: len(ARMS)] for _ in range(2))
    return _inline(chart, "Every run of every launch, and the mean of each launch")


def effect(looks: Sequence[Look]) -> str | None:
    """The interval of the effect after each pair of launches, beside the line of no effect."""
    if not looks:
        return None
    chart = _chart(
        "effect", 0, height=110 + 34 * len(looks), show_legend=False, range=(0.4, len(looks) + 0.6)
    )
    chart.x_value_formatter = lambda value: f"{value:+.1f}%"
    chart.y_labels = [
        {"value": len(looks) + 1 - number, "label": f"look {number}: {look.verdict}"}
        for number, look in enumerate(looks, 1)
    ]
    chart.x_title = "better with the change"
    for number, look in enumerate(looks, 1):
        at = len(looks) + 1 - number
        points = [(100 * value, at) for value in (look.low, look.effect, look.high)]
        chart.add(f"look {number}", points, dots_size=5, stroke_style={"width": 4})
    chart.add(
        "no effect", [(0, 0.4), (0, len(looks) + 0.6)], show_dots=False, stroke_style={"dasharray": "4, 4"}
    )
    chart.config.style.colors = (*[COLORS[0]] * len(looks), COLORS[1])
    return _inline(chart, "; ".join(f"look {number}: {look}" for number, look in enumerate(looks, 1)))


def waterfall(split: Attribution, metric: str) -> str | None:
    """The change since the good time, taken apart: what each cause costs, and what is left."""
    parts = [(share.rule, share.effect) for share in split.shares if share.effect is not None]
    if not parts:
        return None
    steps: list[tuple[str, float, float]] = []
    at = 0.0
    for name, size in [*parts, ("unexplained", split.left)]:
        steps.append((f"{name} {_percent(size):+.1f}%", _percent(at), _percent(at + size)))
        at += size
    steps.append((f"the whole change {_percent(split.total):+.1f}%", 0.0, _percent(split.total)))
    chart = _chart("waterfall", 0, kind="StackedBar", show_legend=False, height=300)
    chart.x_labels = [name for name, _, _ in steps]
    chart.y_title = f"change of {metric.replace('_', ' ')}, %"
    chart.value_formatter = lambda value: f"{value:+.1f}%"
    colors = [*(COLORS[1 if end < start else 2] for _, start, end in steps[:-1]), COLORS[0]]
    base, below, above = [], [], []
    for (_, start, end), color in zip(steps, colors, strict=True):
        near = 0.0 if start * end < 0 else min(start, end, key=abs)
        base.append({"value": near, "style": "fill: none; stroke: none"})
        below.append({"value": min(start, end, 0) - min(near, 0), "color": color})
        above.append({"value": max(start, end, 0) - max(near, 0), "color": color})
    for rows in (base, below, above):
        chart.add("", rows)
    return _inline(chart, f"The change taken apart: {'; '.join(name for name, _, _ in steps)}")


def _percent(logarithm: float) -> float:
    return 100 * math.expm1(logarithm)


def _chart(name: str, legend: int, *, kind: str = "XY", height: int = 270, **settings: Any) -> Any:
    """legend: how many rows it has; they stand one under the other so that no word is cut."""
    import pygal
    from pygal.style import Style

    style = Style(
        background="transparent", plot_background="transparent", foreground="#808080", foreground_strong="#808080",
        foreground_subtle="#808080", colors=COLORS, font_family="sans-serif", label_font_size=13,
        major_label_font_size=13, legend_font_size=13, title_font_size=13, stroke_opacity="1", opacity="1",
        guide_stroke_color="#999999", major_guide_stroke_color="#999999", guide_stroke_dasharray="1,5",
        major_guide_stroke_dasharray="1,5",
    )  # fmt: skip
    options: dict[str, Any] = {
        "style": style, "js": [], "width": 860, "height": height + 22 * legend, "legend_at_bottom": True,
        "legend_at_bottom_columns": 1, "truncate_legend": -1, "truncate_label": -1, "dots_size": 2,
        "disable_xml_declaration": True, "include_x_axis": kind != "XY",
    }  # fmt: skip
    chart = getattr(pygal, kind)(**(options | settings))
    chart.uuid = name
    chart.add_xml_filter(_without_scripts)
    return chart


def _without_scripts(root: Any) -> Any:
    """The library writes its settings into a script even where it is told to use none."""
    for parent in root.iter():
        for child in [child for child in parent if str(child.tag).endswith("script")]:
            parent.remove(child)
    return root


def _seconds(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M")


def _inline(chart: Any, words: str) -> str:
    """The library escapes the texts in its charts. words: what a screen reader says of it."""
    text: str = chart.render(is_unicode=True)
    return _COMMENTS.sub("", text).replace("<svg ", f'<svg role="img" aria-label="{escape(words)}" ', 1)
