"""How good the rules are on labelled cases: ranks, false alarms, honesty, calibration, each with an interval."""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from diagnoser.agent.session import DEFAULTS, Options, run
from diagnoser.inference.diagnose import NO_KNOWN_CAUSE
from diagnoser.inference.diagnosis import Diagnosis

Z95 = 1.959963984540054
BINS = 10


class LabelledCase(NamedTuple):
    """One line of a cases file. kind is "incident", "healthy" or "unknown"; causes: any of them is right.

    group: the source thread; cases of one thread are never used to judge each other.
    """

    id: str
    kind: str
    input: Path
    causes: tuple[str, ...]
    decidable: bool
    category: str
    group: str


class Judgement(NamedTuple):
    """What the product said: its roots above info, best first, with their confidence; known: it named a cause."""

    case: LabelledCase
    causes: tuple[tuple[str, float], ...]
    known: bool

    @property
    def rank(self) -> int | None:
        """The place of the first right cause, from 1."""
        for number, (rule, _) in enumerate(self.causes, 1):
            if rule in self.case.causes:
                return number
        return None


class Share(NamedTuple):
    """So many of so many, with the Wilson interval at 95 % (Wilson 1927, JASA 22)."""

    hits: int
    of: int

    @property
    def value(self) -> float:
        return self.hits / self.of if self.of else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        if not self.of:
            return (0.0, 1.0)
        p, n, z2 = self.value, self.of, Z95 * Z95
        centre = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = Z95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
        return (max(0.0, centre - half), min(1.0, centre + half))

    def __str__(self) -> str:
        if not self.of:
            return "none"
        low, high = self.interval
        return f"{self.hits}/{self.of} = {self.value:.1%} [{low:.1%}, {high:.1%}]"


class Report(NamedTuple):
    """The evaluation of a set of cases."""

    judgements: list[Judgement]

    def of(self, kind: str, decidable: bool | None = None) -> list[Judgement]:
        return [
            one
            for one in self.judgements
            if one.case.kind == kind and decidable in (None, one.case.decidable)
        ]

    def top(self, judgements: Sequence[Judgement], rank: int) -> Share:
        return Share(sum(one.rank is not None and one.rank <= rank for one in judgements), len(judgements))

    def quiet(self, kind: str) -> Share:
        """Cases of a kind on which nothing above info was said; of unknown ones, on which no cause was named."""
        chosen = self.of(kind)
        return Share(sum(not (one.known if kind == "unknown" else one.causes) for one in chosen), len(chosen))

    def reciprocal_rank(self, judgements: Sequence[Judgement]) -> float:
        if not judgements:
            return math.nan
        return sum(1 / one.rank if one.rank else 0 for one in judgements) / len(judgements)

    def reliability(self) -> list[tuple[int, float, float]]:
        """Per bin of confidence of the first root of every incident: count, mean confidence, share right."""
        return reliability(self._first_roots())

    def calibration_error(self) -> float:
        """Expected calibration error over equal bins (Guo et al. 2017, ICML)."""
        return calibration_error(self._first_roots())

    def _first_roots(self) -> list[tuple[float, bool]]:
        """What was said of the first root of every incident, and whether it was right."""
        firsts = ((one.causes[0], one.case) for one in self.of("incident") if one.causes)
        return [(confidence, rule in case.causes) for (rule, confidence), case in firsts]


def reliability(judged: Sequence[tuple[float, bool]]) -> list[tuple[int, float, float]]:
    """Per equal bin of what was said (0 to 1): count, mean said, share right; zeros for an empty bin."""
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for said, right in judged:
        bins[min(BINS - 1, int(said * BINS))].append((said, right))
    return [
        (len(one), sum(said for said, _ in one) / len(one), sum(right for _, right in one) / len(one))
        if one
        else (0, 0.0, 0.0)
        for one in bins
    ]


def calibration_error(judged: Sequence[tuple[float, bool]]) -> float:
    """Expected calibration error; not a number where nothing was judged."""
    bins = reliability(judged)
    total = sum(count for count, _, _ in bins)
    return sum(count * abs(mean - right) for count, mean, right in bins) / total if total else math.nan


def load_cases(files: Iterable[Path]) -> list[LabelledCase]:
    """Cases of JSON-lines files; inputs lie in ``inputs/`` beside the file. Raises ValueError with a sentence."""
    cases = []
    for file in files:
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            if not line.strip():
                continue
            try:
                given = json.loads(line)
                cases.append(
                    LabelledCase(
                        given["id"],
                        given["kind"],
                        file.parent / "inputs" / given["input"],
                        tuple(given["causes"]),
                        given.get("decidable_from_input", "yes") != "needs_baseline_or_version_knowledge",
                        given.get("category", ""),
                        str(given.get("group") or given.get("source_url") or given["id"]),
                    )
                )
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{file}:{number}: not a case: {error}") from error
    return cases


def evaluate_cases(cases: Iterable[LabelledCase], options: Options = DEFAULTS) -> Report:
    """Diagnose every case by itself."""
    judgements = []
    for case in cases:
        judged = run([case.input], options)
        if isinstance(judged, list):
            judgements.append(Judgement(case, (), False))
        else:
            known = judged.diagnosis.headline != NO_KNOWN_CAUSE
            judgements.append(Judgement(case, _causes(judged.diagnosis), known))
    return Report(judgements)


def _causes(diagnosis: Diagnosis) -> tuple[tuple[str, float], ...]:
    return tuple((finding.rule, finding.confidence) for finding in diagnosis.causes)
