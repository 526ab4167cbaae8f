"""Whether a pipeline may go on: a log that was read, or two sides held beside each other, against a policy."""

from collections.abc import Sequence
from typing import NamedTuple

from diagnoser.compare.effects import effect_text
from diagnoser.compare.regression import Regression
from diagnoser.inference.diagnosis import SEVERITY_RANK, Diagnosis, Finding


class Policy(NamedTuple):
    """What a pipeline lets pass.

    fail_on: the lowest severity that fails. min_confidence: a cause less likely than this is only told. allow: rules
    that are known and accepted. require_ready: the server must have said that it serves. max_loss: the relative loss of
    speed that is accepted, 0.03 for three percent. strict: fail too where a larger loss cannot be ruled out.
    """

    fail_on: str = "low"
    min_confidence: float = 0.35
    allow: frozenset[str] = frozenset()
    require_ready: bool = False
    max_loss: float = 0.0
    strict: bool = False


class Gate(NamedTuple):
    """passed None: it cannot be judged, and ``reasons`` say why. reasons: sentences about what failed besides causes.
    failed: the causes that fail it. told: causes that the policy lets pass."""

    passed: bool | None
    reasons: tuple[str, ...]
    failed: tuple[Finding, ...]
    told: tuple[Finding, ...]


def judge(diagnosis: Diagnosis, policy: Policy) -> Gate:
    """One diagnosis against the policy."""
    failed, told = _split(diagnosis.causes, policy)
    reasons = []
    if policy.require_ready and diagnosis.server != "ready":
        reasons.append("the server did not say that it serves")
    return Gate(not failed and not reasons, tuple(reasons), failed, told)


def judge_change(found: Regression, policy: Policy) -> Gate:
    """Two sides against the policy: only what came with the change counts."""
    came = [one.finding for one in found.came if one.finding.severity != "info" and not one.one_sided]
    failed, told = _split(came, policy)
    if found.word == "does not start":
        return Gate(False, ("the later side does not start, and the earlier did",), failed, told)
    if found.measure is None:
        return Gate(None, ("no speed is shown by both sides under like load",), failed, told)
    _, low, high = found.measure.interval
    loss = f"a loss above {policy.max_loss:.1%}"
    if high < -policy.max_loss:
        return Gate(False, (f"{loss} is shown: {_interval(found)}",), failed, told)
    if policy.strict and low < -policy.max_loss:
        return Gate(False, (f"{loss} cannot be ruled out: {_interval(found)}",), failed, told)
    # Not slower: a cause that came and costs nothing that can be measured does not stop a pipeline.
    return Gate(True, (), (), (*failed, *told))


def _split(causes: Sequence[Finding], policy: Policy) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    failed = tuple(one for one in causes if _fails(one, policy))
    return failed, tuple(one for one in causes if one not in failed)


def _fails(one: Finding, policy: Policy) -> bool:
    return (
        one.rule not in policy.allow
        and one.confidence >= policy.min_confidence
        and SEVERITY_RANK[one.severity] >= SEVERITY_RANK[policy.fail_on]
    )


def _interval(found: Regression) -> str:
    assert found.measure is not None
    return effect_text(*found.measure.interval)
