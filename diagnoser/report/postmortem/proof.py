"""An experiment as a postmortem tells it, read from the events of its journal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from diagnoser.compare.effects import effect_text
from diagnoser.experiment.change import Change, told
from diagnoser.report.postmortem.timeline import Moment
from diagnoser.sources import printable, redaction

ARMS = {"A": "A: as found", "B": "B: with the change"}


class Look(NamedTuple):
    """The state after a pair of launches. effect, low, high: relative, 0.10 for ten percent better with the change."""

    verdict: str
    effect: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.verdict}, {effect_text(self.effect, self.low, self.high)}"


class Measured(NamedTuple):
    """One launch: "A1", "B1", ... values: the metric of each of its runs."""

    name: str
    arm: str
    values: tuple[float, ...]


class Proof(NamedTuple):
    """What was changed, how it was measured, every launch, every look; the last look decides."""

    change: str
    workload: str
    metric: str
    launches: tuple[Measured, ...]
    looks: tuple[Look, ...]
    moments: tuple[Moment, ...]

    @property
    def words(self) -> str:
        """The verdict in one clause."""
        last = self.looks[-1]
        by = effect_text(last.effect, last.low, last.high)
        return f"{last.verdict}: {self.change} changes {self.workload} by {by}"


def proof_from(events: Sequence[Mapping[str, Any]], name: str) -> Proof | None:
    """None where this is no experiment that came to a look. name: the journal's, for the timeline. Raises ValueError,
    KeyError or TypeError where an event is not as `confirm` writes it."""
    planned = next((event for event in events if event.get("event") == "planned"), None)
    looks = tuple(
        Look(str(one["verdict"]), float(one["effect"]), float(one["low"]), float(one["high"]))
        for one in events
        if one.get("event") == "look"
    )
    if planned is None or not looks:
        return None
    plan = planned.get("plan") or planned
    # A variable that was set may hold a secret.
    change = _masked(str(plan.get("change") or told(Change(*one) for one in plan["changes"])))
    workload = str(plan["workload"])
    return Proof(
        change,
        workload,
        str(plan.get("metric", workload)),
        tuple(_launches(events)),
        looks,
        tuple(_moments(events, change, name)),
    )


def _masked(text: str) -> str:
    data = bytearray(text.encode("utf-8", "replace"))
    redaction.redact(data)
    return printable(data.decode("utf-8", "replace"))


def _launches(events: Sequence[Mapping[str, Any]]) -> Iterator[Measured]:
    counted = dict.fromkeys(ARMS, 0)
    for event in events:
        if event.get("event") == "measured" and event["arm"] in counted:
            arm = str(event["arm"])
            counted[arm] += 1
            values = tuple(float(value) for value in event["values"])
            if values:
                yield Measured(f"{arm}{counted[arm]}", arm, values)


def _moments(events: Sequence[Mapping[str, Any]], change: str, name: str) -> Iterator[Moment]:
    """Journals of older versions carry no times; then there are none."""
    said: set[str] = set()
    for line, event in enumerate(events, 1):
        at, what = event.get("at"), None
        if event.get("event") == "starting" and event.get("arm") == "B" and "B" not in said:
            said.add("B")
            what = f"The fix is put to the test: {change}"
        elif event.get("event") == "look":
            what = f"Verdict so far: {event['verdict']}, {float(event['effect']):+.1%}"
        elif event.get("event") == "kept":
            what = "The fix stays in place"
        elif event.get("event") == "restored":
            what = "The server runs again as it was found"
        if what is not None and isinstance(at, int | float):
            yield Moment(float(at), what, name, line)
