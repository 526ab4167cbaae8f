"""The bisection on a real server: the bad configuration, the good one, then what the search asks for.

Every launch is a step of an experiment as any other: journal, undo, guards, roll-back. Every `CONTROL_EVERY` launches
the bad configuration is launched again, and what it drifted by is taken out. A launch that does not come up says
nothing of speed; its subset is left out.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from diagnoser.experiment import journal
from diagnoser.experiment.bisect.differences import Difference
from diagnoser.experiment.bisect.search import Found, Search, Subset
from diagnoser.experiment.change import Changes
from diagnoser.experiment.confirm import Experiment, Outcome
from diagnoser.experiment.hands import Hands
from diagnoser.experiment.journal import BusyError, Journal
from diagnoser.experiment.measuring import VoidError
from diagnoser.experiment.outpost import Outpost, settle
from diagnoser.experiment.plan import Plan
from diagnoser.experiment.starting import Reader, StartError, Told
from diagnoser.experiment.statistics import LOWER_IS_BETTER, Arm, Launch, Look, Verdict, look, run_scatter

CONTROL_EVERY = 4


class Culprit(NamedTuple):
    """What was found. recovered: which part of the gap its revert brought back, as measured; launches: how many."""

    differences: list[Difference]
    probability: float
    proven: bool
    recovered: float | None
    launches: int


def bisect(
    plan: Plan,
    differences: Sequence[Difference],
    prior: Sequence[float],
    most: int,
    hands: Hands,
    told: Told,
    reader: Reader,
) -> tuple[Outcome, Culprit | None]:
    """Search the culprit among the differences. plan: its changes revert all of them. most: launches at the most.

    Raises as `diagnoser.experiment.confirm.run` does.
    """
    if journal.pending(plan.host):
        raise BusyError("an earlier experiment was not ended; bring its server back with --rollback first")
    outpost = settle(hands, plan.launcher)
    kept = Journal(journal.new_file())
    try:
        work = _Bisection(plan, outpost, kept, told, reader, differences, prior, most)
        return work.begin(), work.culprit
    finally:
        kept.close()


class _Bisection(Experiment):
    def __init__(
        self, plan: Plan, outpost: Outpost, kept: Journal, told: Told, reader: Reader,
        differences: Sequence[Difference], prior: Sequence[float], most: int,
    ) -> None:  # fmt: skip
        super().__init__(plan, outpost, kept, told, reader)
        self.guard.mixed = True
        self._differences = differences
        self._prior = prior
        self._most = most
        self._sign = -1.0 if plan.metric in LOWER_IS_BETTER else 1.0
        self._drift = 0.0
        self.culprit: Culprit | None = None

    def _decide(self) -> tuple[Verdict, Look | None]:
        self.kept.note("bisecting", differences=[str(one) for one in self._differences])
        self._launch(Arm.A)
        self._launch(Arm.B)
        bad, good = self.launches
        first = look(self.launches, lower_is_better=self._sign < 0, noise=self.plan.noise)
        if first.verdict is not Verdict.CONFIRMED:
            return Verdict.INCONCLUSIVE, first
        gap = self._sign * (good.mean - bad.mean)
        inside = run_scatter(self.launches) ** 2 / len(bad.values)
        noise = math.sqrt(2 * (self.plan.noise.floor**2 + inside)) / gap
        search = Search(len(self._differences), noise, self._prior)
        fractions: dict[Subset, float] = {}
        if search.count == 1:
            self._learn(search, fractions, frozenset(), 0.0)
        while (found := search.found()) is None and len(self.launches) < self._most:
            if len(self.launches) % CONTROL_EVERY == 2 and len(self.launches) > 2:
                self._control(bad)
            kept = search.next()
            name = f"T{len(self.launches) - 1}"
            try:
                launch = self._test(name, kept)
            except StartError as error:
                self.told(f"{name}: {error}; it says nothing of speed and is left out")
                search.crashed(kept)
                continue
            fraction = self._sign * (good.mean + self._drift - launch.mean) / gap
            self._learn(search, fractions, kept, fraction)
        self.culprit = self._told(search, found or search.likeliest(), fractions)
        return Verdict.CONFIRMED if found else Verdict.INCONCLUSIVE, first

    def _learn(self, search: Search, fractions: dict[Subset, float], kept: Subset, fraction: float) -> None:
        fractions[kept] = fraction
        search.measured(kept, fraction)
        names = [self._differences[one].name for one in sorted(kept)]
        self.kept.note("tested", kept=names, fraction=round(fraction, 4))
        self.told(f"with {', '.join(names) or 'nothing'} left bad {fraction:.0%} of the gap remain")

    def _test(self, name: str, kept: Subset) -> Launch:
        """Launch with some differences left bad, the others reverted."""
        reverts: Changes = tuple(
            change for at, one in enumerate(self._differences) if at not in kept for change in one.revert
        )
        self._stop()
        self._start(name, reverts)
        measured = self._measure(name, Arm.B if reverts else Arm.A, reverts)
        launch = Launch(Arm.B, tuple(measured.values))
        self.launches.append(launch)
        return launch

    def _control(self, bad: Launch) -> None:
        """The bad configuration once more: what it moved by, everything moved by."""
        again = self._test(f"C{len(self.launches) - 1}", frozenset(range(len(self._differences))))
        self._drift = again.mean - bad.mean
        self.told(
            f"the bad configuration again: {math.expm1(self._sign * self._drift):+.1%} since the beginning"
        )
        if abs(self._drift) > 0.5 * abs(self.launches[1].mean - bad.mean):
            raise VoidError("drift: the bad configuration itself moved by more than half of the gap")

    def _told(self, search: Search, found: Found, fractions: dict[Subset, float]) -> Culprit:
        left = fractions.get(search.everything - found.members)
        named = [self._differences[one] for one in sorted(found.members)]
        recovered = None if left is None else 1 - left
        return Culprit(named, found.probability, found.proven, recovered, len(self.launches))
