"""Facts with the places they were read, kept in bounded memory and mergeable in any grouping."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from diagnoser.facts.base import Evidence, Fact

KEPT_PLACES = 8
"""How many of the first, and how many of the last, places of one fact are kept."""

KEPT_FACTS = 256
"""How many different facts of one family are kept: the first by position. Later ones are only counted."""

SHOWN_TEXT = 2000
"""How much of a place's text is shown as evidence."""

KEPT_MINUTES = 20_160
"""Length of a family's histogram over time: two weeks of minutes."""


class Sighting(NamedTuple):
    """One place where a fact was stated. ``at``: seconds since the epoch, ``source``: the text's name."""

    source: str
    line: int
    end_line: int
    text: str
    rank: str | None = None
    at: float | None = None

    @property
    def place(self) -> tuple[str, int]:
        return (self.source, self.line)

    def evidence(self, document: str, host: str | None) -> Evidence:
        """The sighting as it is shown, with the name of its document."""
        return Evidence(
            document=document,
            host=host,
            line=self.line,
            end_line=self.end_line,
            text=self.text[:SHOWN_TEXT],
            rank=self.rank,
            at=self.at,
        )


class Sightings:
    """All sightings of one fact: how many, and the first and last `KEPT_PLACES` of them by position."""

    __slots__ = ("count", "first", "last")

    def __init__(self) -> None:
        self.count = 0
        self.first: list[Sighting] = []
        self.last: list[Sighting] = []

    def add(self, sighting: Sighting) -> None:
        """Note a sighting that stands after all noted so far."""
        self.count += 1
        if len(self.first) < KEPT_PLACES:
            self.first.append(sighting)
        self.last.append(sighting)
        if len(self.last) > KEPT_PLACES:
            del self.last[0]

    def merge(self, other: "Sightings") -> "Sightings":
        merged = Sightings()
        merged.count = self.count + other.count
        merged.first = sorted(self.first + other.first, key=_place)[:KEPT_PLACES]
        merged.last = sorted(self.last + other.last, key=_place)[-KEPT_PLACES:]
        return merged

    def kept(self) -> list[Sighting]:
        """The kept places, first to last, each once."""
        if self.count <= len(self.first):
            return self.first
        seen = set(self.first)
        return self.first + [sighting for sighting in self.last if sighting not in seen]


class Tally:
    """How often a family was seen, in all and by the minute."""

    __slots__ = ("count", "minutes")

    def __init__(self) -> None:
        self.count = 0
        self.minutes: dict[int, int] = {}

    def add(self, at: float | None) -> None:
        self.count += 1
        if at is not None:
            minute = int(at // 60)
            if minute in self.minutes or len(self.minutes) < KEPT_MINUTES:
                self.minutes[minute] = self.minutes.get(minute, 0) + 1

    def merge(self, other: "Tally") -> "Tally":
        merged = Tally()
        merged.count = self.count + other.count
        merged.minutes = dict(self.minutes)
        for minute, count in other.minutes.items():
            if minute in merged.minutes or len(merged.minutes) < KEPT_MINUTES:
                merged.minutes[minute] = merged.minutes.get(minute, 0) + count
        return merged

    def most_within(self, minutes: int) -> int:
        """The highest count in any stretch of so many whole minutes."""
        best = 0
        for start in self.minutes:
            best = max(best, sum(self.minutes.get(start + step, 0) for step in range(minutes)))
        return best


class FactBase:
    """A bag of facts with their sightings.

    Facts of one family beyond the first `KEPT_FACTS` are counted in the tally but not kept, so that memory
    stays flat on hostile logs. ``merge`` is associative when the operands are in the order of the text.
    """

    __slots__ = ("families", "kinds", "tallies")

    def __init__(self) -> None:
        self.families: dict[str, dict[Fact, Sightings]] = {}
        self.kinds: dict[str, list[str]] = {}
        self.tallies: dict[str, Tally] = {}

    def add(self, fact: Fact, sighting: Sighting) -> None:
        """Note that ``fact`` is stated at ``sighting``, which stands after all noted so far."""
        family = fact.family
        tally = self.tallies.get(family)
        if tally is None:
            tally = self.tallies[family] = Tally()
            self._new(family, {})
        tally.add(sighting.at)
        kept = self.families[family]
        sightings = kept.get(fact)
        if sightings is None:
            if len(kept) >= KEPT_FACTS:
                return
            sightings = kept[fact] = Sightings()
        sightings.add(sighting)

    def merge(self, other: "FactBase") -> "FactBase":
        """The facts of both, as if read from one text."""
        merged = FactBase()
        for family in dict.fromkeys([*self.families, *other.families]):
            left, right = self.families.get(family, {}), other.families.get(family, {})
            both = {fact: _join(left.get(fact), right.get(fact)) for fact in dict.fromkeys([*left, *right])}
            if len(both) > KEPT_FACTS:
                order = sorted(both, key=lambda fact: (both[fact].first[0].place, repr(fact)))
                both = {fact: both[fact] for fact in order[:KEPT_FACTS]}
            merged._new(family, both)
            merged.tallies[family] = _join_tally(self.tallies.get(family), other.tallies.get(family))
        return merged

    def _new(self, family: str, facts: dict[Fact, Sightings]) -> None:
        self.families[family] = facts
        self.kinds.setdefault(family.split(":", 1)[0], []).append(family)

    def of(self, kind: str) -> Iterator[tuple[Fact, Sightings]]:
        """All facts of a kind or of one family; a kind may have several ("message:x" belongs to "message")."""
        for family in (kind,) if ":" in kind else self.kinds.get(kind, ()):
            yield from self.families.get(family, {}).items()

    def tally(self, family: str) -> Tally | None:
        return self.tallies.get(family)

    def facts(self) -> Iterator[tuple[Fact, Sightings]]:
        for facts in self.families.values():
            yield from facts.items()

    def __bool__(self) -> bool:
        return bool(self.families)


def merge_all(bases: Iterable[FactBase]) -> FactBase:
    """One bag of all."""
    merged = FactBase()
    for base in bases:
        merged = merged.merge(base)
    return merged


def _place(sighting: Sighting) -> tuple[tuple[str, int], str]:
    return (sighting.place, sighting.text)


def _join(left: Sightings | None, right: Sightings | None) -> Sightings:
    if left is None or right is None:
        joined = left or right
        assert joined is not None
        return joined
    return left.merge(right)


def _join_tally(left: Tally | None, right: Tally | None) -> Tally:
    return (left or Tally()).merge(right or Tally())
