"""Two sides judged and held beside each other: what changed, what came and went with it, and what share each has.

A cause of the change is a rule that fires on the later side and not on the earlier one. A rule that fires on both
explains nothing of the change; one that the earlier side could not show, for lack of such a document, is told apart.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from diagnoser.compare.attribution import Attribution, attribute
from diagnoser.compare.defaults import filled
from diagnoser.compare.differences import Difference, differences
from diagnoser.compare.moments import Moment, moments
from diagnoser.compare.speeds import Change, LoadChange, Speed, behaviour_changes, changes, load_changes
from diagnoser.compare.subjects import stated
from diagnoser.compare.watched import Watchers, fields_read
from diagnoser.facts.base import Fact
from diagnoser.facts.factbase import FactBase
from diagnoser.inference.diagnose import Judged
from diagnoser.inference.diagnosis import SEVERITY_RANK, Finding
from diagnoser.inference.resolve import FATAL

SLOWER = frozenset(
    ["decode_slower", "prefill_slower", "ttft_longer", "throughput_lower", "capacity_lower", "start_slower"]
)
"""Effects that change a speed."""

Word = Literal["does not start", "slower", "faster", "no difference seen", "cannot be compared"]


class Side(NamedTuple):
    """One side: its judged texts (None where there are none) and their facts."""

    name: str
    judged: Judged | None
    facts: FactBase

    @property
    def engines(self) -> dict[str, str | None]:
        """Engine name -> its release, of all servers of the side."""
        parts = self.judged.parts if self.judged else []
        return {name: version for part in parts for name, version in part.case.engines.items()}


class Measure(NamedTuple):
    """What decides: a metric, its value on both sides, and log(after / before) with half its interval.

    Positive is better, whatever the metric. at: the load that it was seen under, where others changed otherwise.
    """

    metric: str
    before: float
    after: float
    effect: float
    half: float
    at: Speed | None = None

    @property
    def interval(self) -> tuple[float, float, float]:
        """The relative effect with its interval, such as (-0.063, -0.090, -0.035)."""
        return (
            math.expm1(self.effect),
            math.expm1(self.effect - self.half),
            math.expm1(self.effect + self.half),
        )


class Cause(NamedTuple):
    """A finding that only one side has, with the differences that its signs read.

    one_sided: the other side holds no document that would show it, so nobody knows whether it is new.
    """

    finding: Finding
    differences: tuple[Difference, ...]
    one_sided: bool


class Regression(NamedTuple):
    """The answer. measure: None where no speed is common.

    came, went: causes that only the later or the earlier side has. shared: rules of causes on both. innocent: what
    only the later side says that looks guilty and is known not to be. context: differences that rules read though none
    of them fired for it, with these rules, and defaults that moved; folded: the rest. behaviour: what the server does
    otherwise; load: what is asked of it. moments: when the later side changed inside of its own log.
    """

    before: str
    after: str
    word: Word
    measure: Measure | None
    attribution: Attribution | None
    came: tuple[Cause, ...]
    went: tuple[Cause, ...]
    shared: tuple[str, ...]
    innocent: tuple[Finding, ...]
    context: tuple[tuple[Difference, tuple[str, ...]], ...]
    folded: tuple[Difference, ...]
    speeds: tuple[Change, ...]
    load: tuple[LoadChange, ...]
    behaviour: tuple[LoadChange, ...]
    moments: tuple[Moment, ...]
    notes: tuple[str, ...]


def explain(
    good: Side,
    bad: Side,
    causes: Mapping[str, Mapping[str, Any]],
    *,
    floor: float,
    measured: Measure | None = None,
    notes: Sequence[str] = (),
) -> Regression:
    """What made the later side different.

    floor: half the interval (a logarithm) of a log's speed against another's. measured: what a benchmark says; it
    decides before what the logs happen to say.
    """
    speeds = changes(good.facts, bad.facts)
    load = load_changes(good.facts, bad.facts)
    measure = measured or _of_logs(speeds, floor, load)
    found = differences(*filled(stated(good.facts), stated(bad.facts), good.engines, bad.engines))
    came, went = _only(bad, good, found, causes), _only(good, bad, found, causes)
    attribution = None
    if measure is not None:
        attribution = attribute(
            measure.effect, measure.half, measure.metric, _slowing(came), _slowing(went), causes
        )
    tied = {difference for one in (*came, *went) for difference in one.differences}
    watchers = Watchers(causes)
    rest = [(one, tuple(sorted(watchers.of(one.subject)))) for one in found if one not in tied]
    word = _word(good, bad, measure)
    rank = _order(word, attribution)
    unmeasured = () if measure else ("no speed is shown by both sides under a like load",)
    within = tuple(moments(bad.judged)) if bad.judged else ()
    return Regression(
        good.name,
        bad.name,
        word,
        measure,
        attribution,
        tuple(sorted(came, key=rank)),
        tuple(sorted(went, key=rank)),
        tuple(sorted(_rules(good) & _rules(bad))),
        tuple(_innocent(good, bad)),
        tuple(pair for pair in rest if pair[1] or pair[0].of_defaults),
        tuple(one for one, rules in rest if not rules and not one.of_defaults),
        tuple(speeds),
        tuple(load),
        tuple(behaviour_changes(good.facts, bad.facts)),
        within,
        (*notes, *unmeasured, *_unlike(found), *_in_parts(within)),
    )


def _in_parts(within: Sequence[Moment]) -> Iterator[str]:
    if any(moment.by == "server" for moment in within):
        yield (
            "the later side changed inside of its own log, and its figures are of the whole; --since and --until cut it"
        )


_LIKE = (("model", "architecture"), ("model", "path"), ("gpu_set", "arch"), ("gpu", "name"))
"""What must agree for a change of speed to be a regression of one service."""


def _unlike(found: Sequence[Difference]) -> Iterator[str]:
    said = [
        one for one in found if (one.subject.kind, one.subject.field) in _LIKE and one.before and one.after
    ]
    if said:
        yield f"the sides are not alike, so a change of speed is no regression: {'; '.join(map(str, said[:2]))}"


def _slowing(causes: Sequence[Cause]) -> list[str]:
    return [one.finding.rule for one in causes if not one.one_sided and one.finding.effect in SLOWER]


def _of_logs(speeds: Sequence[Change], half: float, load: Sequence[LoadChange]) -> Measure | None:
    """The speed of all like loads together, or of the one that lost most where they did not change alike.

    None where a speed is told of all loads together, as that of prompts is, and the load is not alike.
    """
    if not speeds or (speeds[0].speeds[0].running is None and load):
        return None
    first = speeds[0]
    one = first.worst(half)
    if one is not None:
        return Measure(first.metric, one.before, one.after, one.better, half, one)
    most = max(first.speeds, key=lambda speed: min(speed.lines))
    return Measure(first.metric, most.before, most.after, first.effect, half)


def _word(good: Side, bad: Side, measure: Measure | None) -> Word:
    if _died(bad) and not _died(good):
        return "does not start"
    if measure is None:
        return "cannot be compared"
    _, low, high = measure.interval
    return "slower" if high < 0 else "faster" if low > 0 else "no difference seen"


def _died(side: Side) -> bool:
    """Whether a cause keeps the side's server from serving."""
    if side.judged is None:
        return False
    diagnosis = side.judged.diagnosis
    return diagnosis.server != "ready" and any(one.effect in FATAL for one in diagnosis.causes)


def _rules(side: Side) -> set[str]:
    return {one.rule for one in _findings(side)}


def _findings(side: Side) -> list[Finding]:
    """Causes that play a part; of those that are mere notes only what touches a speed."""
    if side.judged is None:
        return []
    return [
        one
        for one in side.judged.diagnosis.findings
        if one.kind == "cause"
        and one.role in ("root", "consequence")
        and (one.severity != "info" or one.effect in SLOWER)
    ]


def _innocent(good: Side, bad: Side) -> list[Finding]:
    """Bystanders that only the later side has."""
    if bad.judged is None:
        return []
    before = good.judged.diagnosis.findings if good.judged else []
    known = {one.rule for one in before}
    found = {one.rule: one for one in bad.judged.diagnosis.findings if one.kind == "bystander"}
    return [one for rule, one in found.items() if rule not in known]


def _only(
    side: Side, other: Side, found: Sequence[Difference], causes: Mapping[str, Mapping[str, Any]]
) -> list[Cause]:
    """What fires on one side alone and follows from nothing else there, with the differences that its signs read."""
    if side.judged is None:
        return []
    elsewhere = _rules(other)
    alone = {one.rule for one in _findings(side)} - elsewhere
    read: dict[str, set[Fact]] = {}
    for part in side.judged.parts:
        for item in part.ranked:
            read.setdefault(item.candidate.rule, set()).update(item.candidate.facts)
    return [
        _cause(finding, read.get(finding.rule, set()), other, found, causes[finding.rule])
        for finding in _findings(side)
        if finding.rule in alone and finding.because_of not in alone
    ]


def _cause(
    finding: Finding, facts: set[Fact], other: Side, found: Sequence[Difference], cause: Mapping[str, Any]
) -> Cause:
    fields = fields_read(cause)
    named = {(fact.kind, str(getattr(fact, "name", ""))) for fact in facts}
    kinds = {kind for kind, _ in named}
    tied = tuple(
        one
        for one in found
        if (one.subject.kind, one.subject.name) in named
        or (one.subject.kind == "server_arg" and one.subject.name in kinds)
        or (one.subject.kind in kinds and one.subject.field in fields.get(one.subject.kind, ()))
        or any(kind == one.subject.kind and _same_choice(one, name) for kind, name in named)
    )
    return Cause(finding, tied, not tied and not _could_show(other, kinds))


def _same_choice(one: Difference, name: str) -> bool:
    """A backend is told by its phase or role; its facts are named by what was chosen."""
    return one.subject.area == "backends" and name in (
        str(one.before.value) if one.before else "", str(one.after.value) if one.after else "",
    )  # fmt: skip


def _could_show(side: Side, kinds: set[str]) -> bool:
    if side.judged is None:
        return False
    return any(all(part.case.not_shown(kind) is None for kind in kinds) for part in side.judged.parts)


def _order(word: Word, attribution: Attribution | None) -> Callable[[Cause], tuple[object, ...]]:
    """Fatal causes first where the server died, else by measured share, then by severity and confidence."""
    shares = {share.rule: share.effect or 0.0 for share in attribution.shares} if attribution else {}

    def key(one: Cause) -> tuple[object, ...]:
        fatal = word == "does not start" and one.finding.effect not in FATAL
        return (
            fatal,
            one.one_sided,
            one.finding.role != "root",
            -abs(shares.get(one.finding.rule, 0.0)),
            -SEVERITY_RANK[one.finding.severity],
            -one.finding.confidence,
            one.finding.rule,
        )

    return key
