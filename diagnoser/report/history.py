"""The history as a list, as a chart and as sentences."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from diagnoser.compare.effects import effect_text
from diagnoser.compare.history.entry import Kept, Service
from diagnoser.experiment.past import Past
from diagnoser.sources import label

_WIDTH = 32


def as_list(found: Sequence[Kept]) -> str:
    """A line for each result, grouped by service, in time; * marks the baseline."""
    lines = []
    for service in dict.fromkeys(one.entry.service for one in found):
        lines.append(str(service))
        lines += [f"  {_row(one)}" for one in found if one.entry.service == service]
    return "\n".join(label(line) for line in lines) + "\n"


def _row(one: Kept) -> str:
    entry = one.entry
    software = " ".join(part for part in (entry.engine, entry.version) if part) or "-"
    speed = f"{entry.value:.4g} {entry.metric}" if entry.value is not None else "no speed"
    causes = f"  {', '.join(entry.causes[:2])}{' ...' * (len(entry.causes) > 2)}" if entry.causes else ""
    mark = "*" if one.baseline else " "
    return f"{one.number:>4}{mark} {moment(entry.at)}  {speed:<26} {software:<16} {entry.name or ''}{causes}".rstrip()


def moment(at: float) -> str:
    """A time as it is shown, UTC.

    >>> moment(0)
    '1970-01-01 00:00'
    """
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def sentence(past: Past, metric: str | None) -> str:
    """What the newest result is against those before it; reads on behind "14: " or "kept as 14; "."""
    if past.better is None:
        return f"too few earlier results of this service to say what is usual ({past.against})"
    better = effect_text(*past.better[:3])
    usual = {"as usual": "as usual", "slower": "slower than usual", "faster": "faster than usual"}[past.word]
    return f"{usual}: {better} in {metric} (positive is better) against {past.against} earlier results"


def shifts(past: Past, series: Sequence[Kept]) -> Iterator[str]:
    """The changes of level, each with what changed with it."""
    for shift in past.shifts:
        if 0 < shift.place < len(series):
            before, after = series[shift.place - 1].entry, series[shift.place].entry
            software = [f"{one.engine or ''} {one.version or ''}".strip() for one in (before, after)]
            with_it = f"; {software[0]} -> {software[1]}" if software[0] != software[1] else ""
            yield (
                f"new level from {moment(after.at)} on (number {series[shift.place].number}): "
                f"{shift.before:.4g} -> {shift.after:.4g}, {shift.effect:+.1%}{with_it}"
            )


def as_chart(service: Service, series: Sequence[Kept], past: Past | None, width: int, height: int) -> str:
    """The results of one service over their order, with a line where the level changed."""
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(width, height)
    values = [one.entry.value or 0.0 for one in series]
    places = list(range(1, len(values) + 1))
    plotext.scatter(places, values, marker="*")
    for shift in past.shifts if past else ():
        plotext.vline(shift.place + 0.5)
    step = max(1, len(values) // 6)
    plotext.xticks(places[::step], [moment(one.entry.at)[5:] for one in series][::step])
    plotext.title(f"{series[0].entry.metric}: {label(str(service))}")
    text = plotext.build().replace("\x1b[0m", "")
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
