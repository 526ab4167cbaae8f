"""Fits the weights behind strong, medium and weak on labelled cases.

Logistic regression with a quadratic pull towards the present weights (a Gaussian prior), so that a term that few
cases show stays where it is. The quality is told by cross-validation over source threads: a case is never judged
with weights that its own thread helped to fit.
"""

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from diagnoser.agent.evaluation import LabelledCase, calibration_error
from diagnoser.agent.session import DEFAULTS, Options, run
from diagnoser.inference.weights import WEIGHTS, log_odds, probability

FOLDS = 5
PULL = 0.5
STEP = 0.05
ROUNDS = 1500

AGAINST = frozenset(["not_supported", "weakened", "applies_unknown", "none_unknown"])
"""Terms that may never speak for a cause, whatever a set of cases says: what was not checked proves nothing."""


class Sample(NamedTuple):
    """The first root of one incident: the terms of its confidence and whether it was right."""

    group: str
    terms: dict[str, int]
    right: bool


class Fit(NamedTuple):
    """Fitted weights, and what cross-validation says of the method: calibration error and log loss, before and
    after."""

    weights: dict[str, float]
    samples: int
    error_before: float
    error_after: float
    loss_before: float
    loss_after: float


def collect(cases: Sequence[LabelledCase], options: Options = DEFAULTS) -> list[Sample]:
    """The first root above info of every incident."""
    samples = []
    for case in cases:
        if case.kind != "incident":
            continue
        judged = run([case.input], options)
        if isinstance(judged, list) or not judged.diagnosis.causes:
            continue
        first = judged.diagnosis.causes[0].rule
        terms = next(dict(one.terms) for one in judged.found if one.rule == first)
        samples.append(Sample(case.group, terms, first in case.causes))
    return samples


def fit_weights(samples: Sequence[Sample], start: Mapping[str, float] = WEIGHTS) -> dict[str, float]:
    """Gradient descent on the penalised log loss; deterministic."""
    weights = dict(start)
    for _ in range(ROUNDS):
        slope = {term: PULL * (weights[term] - start[term]) for term in weights}
        for sample in samples:
            wrong = 1 / (1 + math.exp(-log_odds(sample.terms, weights))) - sample.right
            for term, count in sample.terms.items():
                slope[term] += wrong * count
        for term, change in slope.items():
            moved = weights[term] - STEP * change / max(1, len(samples)) * 10
            weights[term] = min(0.0, moved) if term in AGAINST else moved
    return weights


def calibrate(samples: Sequence[Sample]) -> Fit:
    """Weights fitted on all samples, judged by folds over their groups."""
    before = [(probability(log_odds(sample.terms)), sample.right) for sample in samples]
    after: list[tuple[float, bool]] = []
    for fold in range(FOLDS):
        held = [sample for sample in samples if _fold(sample.group) == fold]
        weights = fit_weights([sample for sample in samples if _fold(sample.group) != fold])
        after += [(probability(log_odds(sample.terms, weights)), sample.right) for sample in held]
    return Fit(
        fit_weights(samples),
        len(samples),
        calibration_error(before),
        calibration_error(after),
        _loss(before),
        _loss(after),
    )


def _fold(group: str) -> int:
    return zlib.crc32(group.encode()) % FOLDS


def _loss(judged: Sequence[tuple[float, bool]]) -> float:
    """Mean log loss."""
    return -sum(math.log(said if right else 1 - said) for said, right in judged) / max(1, len(judged))
