"""Which differences to keep bad in the next launch, and when the culprit is known.

Hypotheses: no difference explains it, one does, two do only together, two do half each. A measurement is the fraction
of the gap that is left, with normal noise and three percent of outliers. While no revert has a fair chance to restore
the gap, the subset with the largest expected information is launched; as soon as one difference (or two that add up)
has 35 %, exactly that revert is launched, because a success then names and proves the culprit in one restart. It ends
when the revert that was measured restores the gap with 95 %.

Published simulation of the method: 2.4, 2.9 and 3.3 restarts for 5, 10 and 20 differences and a good prior, 98 % right;
one at a time in random order needs 3.0, 5.4 and 10.3.
"""

import math
import random
from collections.abc import Sequence
from itertools import combinations
from typing import Literal, NamedTuple

DIRECT, PROVEN = 0.35, 0.95
OUTLIERS, WIDER = 0.03, 5.0
"""Share of measurements that are off, and how many times wider they scatter."""

P_NONE, P_SINGLE, P_PAIR = 0.02, 0.80, 0.09
"""Prior of: none, a single one, two together, two that add up."""

FLAT = 0.1
"""Share of the prior that is spread evenly, whatever the rules say."""

RANDOM_SUBSETS = 150
GRID = tuple(-0.6 + 2.2 * step / 44 for step in range(45))

Kind = Literal["none", "single", "and", "add"]
Subset = frozenset[int]
"""The differences that are kept bad; the others are reverted."""


class _Hypothesis(NamedTuple):
    kind: Kind
    members: Subset


class Found(NamedTuple):
    """The differences whose revert brings the gap back. probability: that it does so. proven: it was measured."""

    members: Subset
    probability: float
    proven: bool


class Search:
    """The state of a search over ``count`` differences.

    prior: suspicion of each (any positive scale, or none). noise: standard deviation of a measured fraction of the gap.
    """

    def __init__(self, count: int, noise: float, prior: Sequence[float] | None = None, seed: int = 0) -> None:
        if count < 1:
            raise ValueError("there is no difference to search")
        self.count = count
        self.noise = noise * 1.1
        self._dice = random.Random(seed)
        weights = _spread(count, prior)
        pairs = list(combinations(range(count), 2))
        together = sum(weights[i] * weights[j] for i, j in pairs) or 1.0
        self._hypotheses = [_Hypothesis("none", frozenset())]
        self._p = [P_NONE]
        for i in range(count):
            self._hypotheses.append(_Hypothesis("single", frozenset([i])))
            self._p.append(P_SINGLE * weights[i])
        for kind in ("and", "add"):
            for i, j in pairs:
                self._hypotheses.append(_Hypothesis(kind, frozenset([i, j])))
                self._p.append(P_PAIR * weights[i] * weights[j] / together)
        self._normalise()
        self._tried: dict[Subset, int] = {}
        self._measured: dict[Subset, float] = {}
        self._unresolved: set[Subset] = set()

    @property
    def everything(self) -> Subset:
        return frozenset(range(self.count))

    def next(self) -> Subset:
        """The subset to keep bad in the next launch."""
        revert, chance = self._best_revert()
        limit = 3 if chance >= PROVEN else 2
        wanted = self.everything - revert
        if chance >= DIRECT and self._tried.get(revert, 0) < limit and wanted not in self._unresolved:
            self._tried[revert] = self._tried.get(revert, 0) + 1
            return wanted
        return self._most_informative()

    def measured(self, kept: Subset, fraction: float) -> None:
        """Learn from a launch: which part of the gap it had (0: as good, 1: as bad)."""
        self._measured[kept] = fraction
        for at, one in enumerate(self._hypotheses):
            off = (fraction - expected(one.kind, one.members, kept)) / self.noise
            likely = (1 - OUTLIERS) * math.exp(-0.5 * off**2)
            self._p[at] *= likely + OUTLIERS / WIDER * math.exp(-0.5 * (off / WIDER) ** 2)
        self._normalise()

    def crashed(self, kept: Subset) -> None:
        """A launch that did not come up says nothing of speed; it is not tried again."""
        self._unresolved.add(kept)

    def found(self) -> Found | None:
        """The culprit, once its revert was measured and restores the gap with `PROVEN`."""
        best: Found | None = None
        for kept, fraction in self._measured.items():
            revert = self.everything - kept
            if not revert or not kept or fraction >= 0.5 or len(revert) > 2:
                continue
            chance = self._restores(revert)
            if len(revert) == 2 and self._adds(revert) < DIRECT:
                continue  # one of the two may do
            if chance >= PROVEN and (best is None or len(revert) < len(best.members)):
                best = Found(revert, chance, True)
        if best is None and self.count == 1 and self._restores(frozenset([0])) >= PROVEN:
            return Found(frozenset([0]), self._restores(frozenset([0])), True)
        return best

    def likeliest(self) -> Found:
        """The best guess so far."""
        revert, chance = self._best_revert()
        return Found(revert, chance, False)

    def suspicion(self) -> list[float]:
        """The probability of each difference to have a part in it."""
        return [
            sum(p for p, one in zip(self._p, self._hypotheses, strict=True) if i in one.members)
            for i in range(self.count)
        ]

    def _restores(self, revert: Subset) -> float:
        """The probability that this revert alone restores the whole gap."""
        return sum(
            p
            for p, one in zip(self._p, self._hypotheses, strict=True)
            if one.kind != "none" and (one.members <= revert if one.kind == "add" else one.members & revert)
        )

    def _adds(self, pair: Subset) -> float:
        """The probability that two differences do half each."""
        at = self._hypotheses.index(_Hypothesis("add", pair))
        return self._p[at]

    def _best_revert(self) -> tuple[Subset, float]:
        """One difference, or two that add up where no single one has a fair chance."""
        single = max((frozenset([i]) for i in range(self.count)), key=self._restores)
        chance = self._restores(single)
        if chance < DIRECT:
            adds = [(p, one) for p, one in zip(self._p, self._hypotheses, strict=True) if one.kind == "add"]
            p, pair = max(adds, default=(0.0, _Hypothesis("add", single)))
            if p >= DIRECT:
                return pair.members, self._restores(pair.members)
        return single, chance

    def _most_informative(self) -> Subset:
        """The subset whose measurement says most, among prefixes by suspicion, single reverts and random ones."""
        suspicion = self.suspicion()
        order = sorted(range(self.count), key=lambda i: -suspicion[i])
        candidates: dict[Subset, None] = {}
        for size in range(1, self.count):
            prefix = frozenset(order[:size])
            candidates[prefix] = None
            candidates[self.everything - prefix] = None
        for i in range(self.count):
            candidates[self.everything - {i}] = None
        for _ in range(RANDOM_SUBSETS):
            share = self._dice.uniform(0.25, 0.85)
            candidates[frozenset(i for i in range(self.count) if self._dice.random() < share)] = None
        open_ = [one for one in candidates if one not in self._unresolved] or [self.everything]
        return max(open_, key=self._information)

    def _information(self, kept: Subset) -> float:
        """Expected information of a launch, in nats: entropy of the mixture less that of its parts."""
        weights = {0.0: 0.0, 0.5: 0.0, 1.0: 0.0}
        for p, one in zip(self._p, self._hypotheses, strict=True):
            weights[expected(one.kind, one.members, kept)] += p
        levels = {level: self._level(level) for level in weights}
        mixture = [sum(weights[level] * levels[level][at] for level in weights) for at in range(len(GRID))]
        return _entropy(mixture) - sum(weights[level] * _entropy(levels[level]) for level in weights)

    def _level(self, level: float) -> list[float]:
        density = [math.exp(-0.5 * ((y - level) / self.noise) ** 2) for y in GRID]
        total = sum(density) or 1.0
        return [one / total for one in density]

    def _normalise(self) -> None:
        total = sum(self._p)
        self._p = [p / total for p in self._p] if total > 0 else [1 / len(self._p)] * len(self._p)


def expected(kind: Kind, members: Subset, kept: Subset) -> float:
    """The fraction of the gap that a hypothesis expects when ``kept`` stays bad.

    >>> expected("and", frozenset([1, 2]), frozenset([1])), expected("add", frozenset([1, 2]), frozenset([1]))
    (0.0, 0.5)
    """
    if kind == "none":
        return 0.5  # nothing explains it: a level in the middle, whatever is kept
    hit = len(members & kept)
    if kind == "add":
        return hit / len(members)
    return float(hit == len(members))


def _spread(count: int, prior: Sequence[float] | None) -> list[float]:
    total = sum(prior) if prior else 0.0
    if not prior or total <= 0:
        return [1 / count] * count
    return [(1 - FLAT) * one / total + FLAT / count for one in prior]


def _entropy(density: Sequence[float]) -> float:
    return -sum(one * math.log(one) for one in density if one > 1e-15)
