"""Charts as inline SVG: no script, no font and no picture from anywhere else."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from diagnoser.report.postmortem.timeline import Moment

_COMMENTS = re.compile(r"<!--.*?-->", re.DOTALL)
MAX_EVENTS = 8


def speed(series: Mapping[str, Sequence[tuple[int, float]]], moments: Sequence[Moment]) -> str | None:
    """Means of minutes over time, events marked on the lowest line. series: name -> (minute since the epoch, mean).

    None where there are too few minutes to draw.
    """
    drawn = {name: points for name, points in series.items() if len(points) > 1}
    if not drawn:
        return None
    chart = _chart("speed")
    for name, points in sorted(drawn.items()):
        chart.add(name, [(minute * 60, round(mean, 2)) for minute, mean in points])
    first = min(minute for points in drawn.values() for minute, _ in points) * 60
    last = max(minute for points in drawn.values() for minute, _ in points) * 60 + 60
    events = [moment for moment in moments if first <= moment.at <= last][:MAX_EVENTS]
    if events:
        chart.add(
            "events", [{"value": (moment.at, 0), "label": moment.what} for moment in events], stroke=False
        )
    return _inline(chart)


def intervals(arms: Mapping[str, Sequence[float]], unit: str) -> str | None:
    """The runs of each arm of an experiment, one dot a run."""
    if not arms:
        return None
    chart = _chart("arms", stroke=False)
    chart.x_value_formatter = lambda value: ""
    chart.x_title = unit
    for number, (name, values) in enumerate(sorted(arms.items())):
        chart.add(name, [(number + place / 20, value) for place, value in enumerate(values)])
    return _inline(chart)


def _chart(name: str, **settings: object) -> Any:
    import pygal
    from pygal.style import Style

    style = Style(
        background="transparent", plot_background="transparent", foreground="#808080", foreground_strong="#808080",
        foreground_subtle="#808080", colors=("#2f6fb0", "#c46a16", "#3c8d5a", "#9a4fb3"), font_family="sans-serif",
    )  # fmt: skip
    chart = pygal.XY(
        style=style, js=[], width=860, height=260, show_legend=True, legend_at_bottom=True, dots_size=2,
        disable_xml_declaration=True, x_value_formatter=_clock, include_x_axis=True, **settings,
    )  # fmt: skip
    chart.uuid = name
    return chart


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M")


def _inline(chart: Any) -> str:
    text: str = chart.render(is_unicode=True)
    return _COMMENTS.sub("", text).replace("<svg ", '<svg role="img" ', 1)
