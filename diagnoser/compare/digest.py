"""Many diagnoses over time: which causes came how often, what they cost, what is new. Pure.

A cause's cost is what undoing it brought where it was measured, so sums of it are assumed and are told as such.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from diagnoser.inference.resolve import FATAL

WEEK_S = 7 * 86_400


class Cause(NamedTuple):
    """A cause as one diagnosis named it. lost: the share of speed that it cost where it was measured, 0 to 1."""

    rule: str
    title: str
    effect: str
    severity: str
    lost: float | None = None
    fix: str | None = None


class Incident(NamedTuple):
    """One diagnosis. at: seconds since the epoch. where: the host or file. odd: it has lines that no rule knows."""

    at: float
    where: str
    causes: tuple[Cause, ...]
    odd: bool = False


class Row(NamedTuple):
    """A cause over a time. times: how often. places: how many hosts or files. before: how often in the time before.

    lost: the sum of the shares of speed, so 2.0 is the speed of two servers; None where nobody has measured it.
    stopped: it keeps servers from serving.
    """

    cause: Cause
    times: int
    places: int
    before: int
    lost: float | None
    stopped: bool


class Week(NamedTuple):
    """One week from Monday, 00:00 UTC. rows: the costliest first. gone: rules of the week before that came no more.
    unknown: diagnoses without a known cause and with lines that no rule knows; well: with nothing wrong."""

    start: datetime
    incidents: int
    unknown: int
    well: int
    rows: tuple[Row, ...]
    gone: tuple[str, ...]

    @property
    def name(self) -> str:
        """ISO 8601, such as 2026-W09."""
        year, week, _ = self.start.isocalendar()
        return f"{year}-W{week:02d}"


def weeks(incidents: Iterable[Incident]) -> list[Week]:
    """The newest week first; weeks without a diagnosis are left out."""
    by_start: dict[datetime, list[Incident]] = {}
    for one in incidents:
        by_start.setdefault(monday(one.at), []).append(one)
    return [
        _week(start, found, by_start.get(start - timedelta(seconds=WEEK_S), []))
        for start, found in sorted(by_start.items(), reverse=True)
    ]


def monday(at: float) -> datetime:
    """The beginning of the week of a time."""
    day = datetime.fromtimestamp(at, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day - timedelta(days=day.weekday())


def _week(start: datetime, found: Sequence[Incident], before: Sequence[Incident]) -> Week:
    earlier = Counter(cause.rule for one in before for cause in one.causes)
    named: dict[str, list[tuple[Cause, str]]] = {}
    for one in sorted(found, key=lambda one: (one.at, one.where)):
        for cause in one.causes:
            named.setdefault(cause.rule, []).append((cause, one.where))
    rows = [_row(seen, earlier[rule]) for rule, seen in named.items()]
    rows.sort(key=lambda row: (not row.stopped, -(row.lost or 0.0), -row.times, row.cause.rule))
    bare = [one for one in found if not one.causes]
    odd = sum(one.odd for one in bare)
    gone = sorted(rule for rule in earlier if rule not in named)
    return Week(start, len(found), odd, len(bare) - odd, tuple(rows), tuple(gone))


def _row(seen: Sequence[tuple[Cause, str]], before: int) -> Row:
    cause = seen[-1][0]
    measured = [one.lost for one, _ in seen if one.lost is not None]
    return Row(
        cause,
        len(seen),
        len({where for _, where in seen}),
        before,
        sum(measured) if measured else None,
        cause.effect in FATAL,
    )
