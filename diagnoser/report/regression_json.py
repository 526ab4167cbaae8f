"""What made the later side different, as JSON: the contract ``diagnoser/regression/1``."""

import math
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from diagnoser.compare.attribution import Attribution
from diagnoser.compare.differences import Difference
from diagnoser.compare.regression import Cause, Regression, Word
from diagnoser.compare.speeds import Speed
from diagnoser.inference.diagnosis import Finding
from diagnoser.sources import escaped

SCHEMA: Literal["diagnoser/regression/1"] = "diagnoser/regression/1"

Value = str | int | float | bool | None


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True, populate_by_name=True)


class EffectRange(_Model):
    """A relative change with its interval: 0.10 is ten percent better."""

    effect: float
    low: float
    high: float


class DifferenceRead(_Model):
    """What both sides say of one subject; null: not stated. assumed: a side's value is its release's default."""

    area: str
    subject: str
    before: Value
    after: Value
    assumed: bool
    rules: list[str] = []


class CauseFound(_Model):
    """A cause that one side has alone. one_sided: the other side holds nothing that would show it."""

    finding: Finding
    differences: list[DifferenceRead]
    one_sided: bool


class ShareFound(_Model):
    """A cause's part of the change; null where nobody has measured it."""

    rule: str
    share: EffectRange | None
    measured: str | None


class Unexplained(EffectRange):
    """What the shares leave. carries_over: whether the shares agree with what was seen here."""

    shares_exceed_change: bool
    carries_over: bool


class SpeedRead(_Model):
    """Medians of one metric on both sides at the same number of running requests (null: at any), each of which holds so
    many tokens (the lower end of a range; null: not told)."""

    metric: str
    running: int | None
    context: int | None
    before: float
    after: float
    lines: list[int]


class Moved(_Model):
    """A metric of the load, or of what the server does under it, that moved."""

    metric: str
    before: float
    after: float


class MomentFound(_Model):
    """When the later side changed inside of its own log: seconds since the epoch, the first minute of the new level."""

    source: str
    at: float
    by: Literal["server", "load"]
    what: Literal["tok/s", "running requests", "tokens a request"]
    before: float
    after: float
    just_before: list[str]


class RegressionFound(_Model):
    """The whole answer. metric, before, after, effect: what decides; null where no speed is common. at: the load
    that it was seen under, where loads did not change alike."""

    schema_: Literal["diagnoser/regression/1"] = Field(default=SCHEMA, alias="schema")
    word: Word
    metric: str | None
    before: float | None
    after: float | None
    effect: EffectRange | None
    at: SpeedRead | None
    came: list[CauseFound]
    went: list[CauseFound]
    on_both: list[str]
    not_it: list[Finding]
    shares: list[ShareFound]
    unexplained: Unexplained | None
    context: list[DifferenceRead]
    folded: list[DifferenceRead]
    speeds: list[SpeedRead]
    load: list[Moved]
    behaviour: list[Moved]
    moments: list[MomentFound]
    notes: list[str]


def as_json(found: Regression) -> str:
    """The answer as text; every key is there, and no character in it moves a terminal."""
    one, split = found.measure, found.attribution
    answer = RegressionFound(
        word=found.word,
        metric=one.metric if one else None,
        before=one.before if one else None,
        after=one.after if one else None,
        effect=_range(one.effect, one.half) if one else None,
        at=_speed(one.at) if one and one.at else None,
        came=[_cause(cause) for cause in found.came],
        went=[_cause(cause) for cause in found.went],
        on_both=list(found.shared),
        not_it=list(found.innocent),
        shares=[
            ShareFound(
                rule=share.rule,
                share=None if share.effect is None else _range(share.effect, share.half),
                measured=share.measured,
            )
            for share in (split.shares if split else ())
        ],
        unexplained=_unexplained(split) if split else None,
        context=[_difference(pair, rules) for pair, rules in found.context],
        folded=[_difference(pair) for pair in found.folded],
        speeds=[_speed(speed) for change in found.speeds for speed in change.speeds],
        load=[Moved(**moved._asdict()) for moved in found.load],
        behaviour=[Moved(**moved._asdict()) for moved in found.behaviour],
        moments=[
            MomentFound(**{**moment._asdict(), "just_before": list(moment.just_before)})
            for moment in found.moments
        ],
        notes=list(found.notes),
    )
    return escaped(answer.model_dump_json(by_alias=True, indent=2)) + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema of the answer."""
    return RegressionFound.model_json_schema(by_alias=True, mode="serialization")


def _range(effect: float, half: float) -> EffectRange:
    return EffectRange(
        effect=math.expm1(effect), low=math.expm1(effect - half), high=math.expm1(effect + half)
    )


def _speed(speed: Speed) -> SpeedRead:
    return SpeedRead(**{**speed._asdict(), "lines": list(speed.lines)})


def _unexplained(split: Attribution) -> Unexplained:
    return Unexplained(
        **_range(split.left, split.left_half).model_dump(),
        shares_exceed_change=split.exceeds,
        carries_over=split.carries_over,
    )


def _cause(cause: Cause) -> CauseFound:
    return CauseFound(
        finding=cause.finding,
        differences=[_difference(one) for one in cause.differences],
        one_sided=cause.one_sided,
    )


def _difference(one: Difference, rules: tuple[str, ...] = ()) -> DifferenceRead:
    sides = [side for side in (one.before, one.after) if side is not None]
    return DifferenceRead(
        area=one.subject.area,
        subject=str(one.subject),
        before=one.before.value if one.before else None,
        after=one.after.value if one.after else None,
        assumed=any(side.assumed is not None for side in sides),
        rules=list(rules),
    )
