"""All that was read of one host, joined: what the rules are held against."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from packaging.version import Version

from diagnoser.facts.engine import Engine
from diagnoser.facts.factbase import FactBase
from diagnoser.facts.packages import Package
from diagnoser.inference import versions
from diagnoser.inference.lacks import LACKS, LOG, not_shown
from diagnoser.rulebook.words import ENGINES

FEW = 10
"""An engine with less than a tenth of the statements of the one that says most is not at work here."""


class Interval(NamedTuple):
    """What the wordings of a log tell of the version: None is open.

    first, last: the outermost sampled releases that have all of them. after, before: the nearest sampled releases
    on either side that do not; the version is newer than the one and older than the other.
    """

    first: Version | None = None
    last: Version | None = None
    after: Version | None = None
    before: Version | None = None


def interval(spans: Iterable[tuple[str | None, str | None]], sampled: Sequence[str] = ()) -> Interval:
    """The releases that all wordings have in common; open on both sides where they contradict each other.

    spans: first and last release of each wording. sampled: the releases that were looked through.
    """
    low: Version | None = None
    high: Version | None = None
    for since, until in spans:
        first = versions.parse(since) if since else None
        last = versions.parse(until) if until else None
        if first is not None and (low is None or first > low):
            low = first
        if last is not None and (high is None or last < high):
            high = last
    if low is not None and high is not None and low > high:
        return Interval()
    releases = [release for text in sampled if (release := versions.parse(text)) is not None]
    after = max((release for release in releases if low is not None and release < low), default=None)
    before = min((release for release in releases if high is not None and release > high), default=None)
    return Interval(low, high, after, before)


class Case:
    """The facts of one host with the context that rules need.

    engines: engine name -> its version where one was printed. intervals: engine name -> what the
    wordings seen tell of its version. covered: kinds of the documents read. last_at: the last time
    stamp of each source.
    """

    engine_names = frozenset(ENGINES)

    def __init__(
        self,
        facts: FactBase,
        covered: Iterable[str],
        *,
        intervals: Mapping[str, Interval] | None = None,
        last_at: Mapping[str, float] | None = None,
    ) -> None:
        self.facts = facts
        self.covered = frozenset(covered)
        self.intervals = dict(intervals or {})
        self.last_at = dict(last_at or {})
        self.packages = self._packages()
        self.engines = self._engines()
        self.driver = self._driver()

    def _packages(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for fact, _ in self.facts.of("package"):
            if isinstance(fact, Package) and fact.version:
                name = "triton-lang" if fact.name == "triton" else fact.name
                found.setdefault(name, fact.version)
        return found

    def _engines(self) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        said: Counter[str] = Counter()
        for fact, sightings in self.facts.of("engine"):
            if isinstance(fact, Engine):
                found[fact.name] = found.get(fact.name) or fact.version
                said[fact.name] += sightings.count
        # A few words of another engine (SGLang imports parts of vLLM) do not make it the server.
        most = max(said.values(), default=0)
        found = {name: version for name, version in found.items() if version or said[name] * FEW >= most}
        found = {name: version or self.packages.get(name) for name, version in found.items()}
        if not found:
            # A package list alone says which engine is meant; beside a log it may list others too.
            found = {
                name: self.packages[name] for name in ENGINES if name in self.packages and name != "triton"
            }
        return found

    def _driver(self) -> str | None:
        for kind, field in (("gpu", "driver_version"), ("smi", "driver_version"), ("driver", "version")):
            for fact, _ in self.facts.of(kind):
                value = getattr(fact, field, None)
                if value:
                    return str(value)
        return None

    def not_shown(self, kind: str) -> str | None:
        """None when a document that would show such facts was read; else what is lacking."""
        lack = not_shown(kind, self.covered, self.facts.kinds)
        return lack.what if lack else None

    def asks_for(self, kind: str) -> str:
        """What would tell more about facts of a kind."""
        return LACKS.get(kind, LOG).what
