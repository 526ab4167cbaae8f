"""When a server became slower or faster inside of one log, whether it or its load changed, and what came just before.

The speed of a minute is held against the usual one under its load (`usual`); the ratio's changes of level
(`changepoints`) are the server's, those of the number of running requests are the traffic's. Where both change in the
same minute and the load never moves apart from it, no log can tell them apart, and the load is taken to be it.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from diagnoser.compare.changepoints import change_points
from diagnoser.compare.usual import Minute, usual_speeds
from diagnoser.facts.factbase import BIN_S, FactBase
from diagnoser.facts.series import SeriesStore
from diagnoser.inference.diagnose import Judged, Part
from diagnoser.inference.launches import Launch

METRIC = "decode_tok_s"
BEFORE_S, BEHIND_S = 180, 60
"""What happened just before: so long before the first minute of the new level, and inside of it."""

LOAD_EFFECT = 0.25
"""By how much the number of running requests changes before it is told: smaller steps are any server's day."""

TOGETHER = 2
"""Changes of the server and of the load within so many minutes cannot be told apart."""

RARE = 4.0
"""A message is told as having come just before where it was so many times as frequent as in the rest of the log."""

MAX_EVENTS = 3


class Moment(NamedTuple):
    """A change of level. at: seconds since the epoch, the first minute of the new level.

    by: whether the server changed or its load. what: in what before and after are told: tokens a second (at the load of
    the time), running requests, or tokens that a request holds. just_before: what was said then and hardly ever else,
    or what was found then.
    """

    source: str
    at: float
    by: Literal["server", "load"]
    what: Literal["tok/s", "running requests", "tokens a request"]
    before: float
    after: float
    just_before: tuple[str, ...]

    @property
    def effect(self) -> float:
        return self.after / self.before - 1

    def __str__(self) -> str:
        clock = datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d %H:%M")
        where = f"{self.source}, {clock}"
        if self.by == "load":
            return f"{where}: the load changed, not the server: {self.before:.4g} -> {self.after:.4g} {self.what}"
        word = "slower" if self.after < self.before else "faster"
        events = f"; just before: {'; '.join(self.just_before)}" if self.just_before else ""
        return (
            f"{where}: {word} from here on at like load, {self.before:.4g} -> {self.after:.4g} {self.what} "
            f"({self.effect:+.1%}){events}"
        )


def moments(judged: Judged) -> list[Moment]:
    """All changes of level in the logs that were judged, in time. Logs of less than twelve minutes have none."""
    found = []
    for part in judged.parts:
        for reading, launch in part.group:
            if launch is not None and METRIC in launch.series.minutes:
                found += list(_of_launch(reading.name, launch, part, judged))
    return sorted(dict.fromkeys(found), key=lambda one: (one.at, one.source, one.by))


def _of_launch(source: str, launch: Launch, part: Part, judged: Judged) -> Iterator[Moment]:
    series = launch.series
    minutes = _minutes(series)
    if not minutes:
        return
    usual = usual_speeds(series, minutes)
    width = 60.0 * series.minutes[METRIC].width
    loads = list(_of_load(source, minutes))
    yield from loads
    for shift in change_points([one.speed / speed for one, speed in zip(minutes, usual.speeds, strict=True)]):
        at = 60.0 * minutes[shift.place].minute
        if not usual.learned and any(abs(load.at - at) <= TOGETHER * width for load in loads):
            continue
        here = usual.speeds[shift.place]
        events = tuple(_just_before(at, width, part, launch.facts, judged))
        yield Moment(source, at, "server", "tok/s", shift.before * here, shift.after * here, events)


def _of_load(source: str, minutes: Sequence[Minute]) -> Iterator[Moment]:
    running = [one.running for one in minutes if one.running is not None]
    if len(running) == len(minutes):
        # One is added, so that a step from 1 to 2 requests is not taken for one from 10 to 20.
        for shift in change_points([one + 1 for one in running], min_effect=LOAD_EFFECT):
            at = 60.0 * minutes[shift.place].minute
            yield Moment(source, at, "load", "running requests", shift.before - 1, shift.after - 1, ())
    held = [one.held for one in minutes if one.held is not None]
    if len(held) == len(minutes):
        # A thousand likewise: up to there the length costs next to nothing.
        for shift in change_points([one + 1000 for one in held], min_effect=LOAD_EFFECT):
            at = 60.0 * minutes[shift.place].minute
            yield Moment(source, at, "load", "tokens a request", shift.before - 1000, shift.after - 1000, ())


def _minutes(series: SeriesStore) -> list[Minute]:
    """Every minute in which something was decoded."""
    speeds = series.minutes[METRIC]
    running = _means(series, "running_reqs", speeds.width)
    held = _means(series, "held_tokens", speeds.width)
    minutes = []
    for minute, speed in speeds.means():
        at_once, tokens = running.get(minute), held.get(minute)
        if speed > 0:
            each = tokens / at_once if tokens is not None and at_once else None
            minutes.append(Minute(minute, speed, at_once, each))
    return minutes


def _means(series: SeriesStore, metric: str, width: int) -> Mapping[int, float]:
    """The means of the buckets that the speeds have; none where they are of another width."""
    kept = series.minutes.get(metric)
    return dict(kept.means()) if kept is not None and kept.width == width else {}


def _just_before(at: float, width: float, part: Part, facts: FactBase, judged: Judged) -> Iterator[str]:
    """Findings whose line stands there, then messages that are rare elsewhere, the rarest first."""
    start, stop = at - max(BEFORE_S, width), at + max(BEHIND_S, width)
    told = 0
    for finding in judged.diagnosis.findings:
        if finding.kind in ("cause", "symptom") and any(
            place.at is not None and start <= place.at < stop for place in finding.evidence
        ):
            yield f"{finding.title} ({finding.rule})"
            told += 1
            if told == MAX_EVENTS:
                return
    seen = {item.candidate.rule: {fact.family for fact in item.candidate.facts} for item in part.ranked}
    shown = {family for families in seen.values() for family in families}
    rare = []
    for family, tally in facts.tallies.items():
        if (
            family.split(":", 1)[0] not in ("message", "exception", "xid")
            or family in shown
            or not tally.bins
        ):
            continue
        inside = sum(count for number, count in tally.bins.items() if start <= number * BIN_S < stop)
        whole = sum(tally.bins.values())
        span = (max(tally.bins) - min(tally.bins) + 1) * BIN_S
        outside = (whole - inside) / max(1.0, span - (stop - start)) * (stop - start)
        if inside > RARE * outside:
            rare.append((outside / inside, family, inside))
    for _, family, inside in sorted(rare)[: MAX_EVENTS - told]:
        text = _text(facts, family, start, stop)
        yield f"{text} ({inside} times)" if inside > 1 else text


def _text(facts: FactBase, family: str, start: float, stop: float) -> str:
    """A line of the family, of that time where one is kept."""
    places = [place for _, sightings in facts.of(family) for place in sightings.kept()]
    there = [place for place in places if place.at is not None and start <= place.at < stop]
    return (there or places)[0].text.splitlines()[0][:160]
