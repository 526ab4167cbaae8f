"""Facts with the places they were read, kept in bounded memory and mergeable in any grouping."""

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import NamedTuple

from diagnoser.facts.base import Evidence, Fact

KEPT_PLACES = 8
"""How many of the first, and how many of the last, places of one fact are kept."""

KEPT_FAMILIES = 1024
"""How many families of one kind are kept: the first by position. No engine has as many options or packages."""

SHOWN_TEXT = 2000
"""How much of a place's text is shown as evidence."""

BIN_S = 10
"""Width of the bins in which a family's sightings are counted over time, in seconds."""

KEPT_BINS = 20_160
"""How many bins with a sighting are kept: more than two days without a pause."""


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
    """How often a family was seen, in all and over time (bins of `BIN_S`)."""

    __slots__ = ("bins", "count")

    def __init__(self) -> None:
        self.count = 0
        self.bins: dict[int, int] = {}

    def add(self, at: float | None) -> None:
        self.count += 1
        if at is not None:
            self._add(int(at // BIN_S), 1)

    def _add(self, number: int, count: int) -> None:
        if number in self.bins or len(self.bins) < KEPT_BINS:
            self.bins[number] = self.bins.get(number, 0) + count

    def merge(self, other: "Tally") -> "Tally":
        merged = Tally()
        merged.count = self.count + other.count
        merged.bins = dict(self.bins)
        for number, count in other.bins.items():
            merged._add(number, count)
        return merged

    def most_within(self, within_s: float) -> int:
        """The highest count in any stretch of so many seconds, in steps of `BIN_S`."""
        width = max(1, round(within_s / BIN_S))
        numbers = sorted(self.bins)
        best = inside = first = 0
        for number in numbers:
            inside += self.bins[number]
            while numbers[first] <= number - width:
                inside -= self.bins[numbers[first]]
                first += 1
            best = max(best, inside)
        return best


class FactBase:
    """A bag of facts with their sightings.

    Of a family the first facts by position are kept, as many as the kind says (`Fact.kept`); of what comes after
    them the last `KEPT_PLACES` sightings are kept too, because the error that ends a storm of errors is the one
    that matters. Everything is counted in the tally. Memory stays flat on hostile logs, and ``merge`` is
    associative when the operands are in the order of the text.

    overfull: kinds of which further families were seen than are kept.
    """

    __slots__ = ("families", "kinds", "late", "overfull", "tallies")

    def __init__(self) -> None:
        self.families: dict[str, dict[Fact, Sightings]] = {}
        self.kinds: dict[str, list[str]] = {}
        self.tallies: dict[str, Tally] = {}
        self.late: dict[str, list[tuple[Fact, Sighting]]] = {}
        self.overfull: set[str] = set()

    def add(self, fact: Fact, sighting: Sighting) -> None:
        """Note that ``fact`` is stated at ``sighting``, which stands after all noted so far."""
        family = fact.family
        tally = self.tallies.get(family)
        if tally is None:
            if len(self.kinds.get(fact.kind, ())) >= KEPT_FAMILIES:
                self.overfull.add(fact.kind)
                return
            tally = self.open_family(family)
        tally.add(sighting.at)
        kept = self.families[family]
        sightings = kept.get(fact)
        if sightings is None:
            if len(kept) >= fact.kept:
                late = self.late.setdefault(family, [])
                late.append((fact, sighting))
                del late[:-KEPT_PLACES]
                return
            sightings = kept[fact] = Sightings()
        sightings.add(sighting)

    def merge(self, other: "FactBase") -> "FactBase":
        """The facts of both, as if read from one text."""
        if not other:
            return self
        if not self:
            return other
        merged = FactBase()
        merged.overfull = self.overfull | other.overfull
        for family in _first_families(self, other, merged.overfull):
            left, right = self.families.get(family, {}), other.families.get(family, {})
            both = {fact: _join(left.get(fact), right.get(fact)) for fact in dict.fromkeys([*left, *right])}
            late = self.late.get(family, []) + other.late.get(family, [])
            limit = next(iter(both)).kept
            if len(both) > limit:
                order = sorted(both, key=lambda fact: (both[fact].first[0].place, repr(fact)))
                late += [(fact, place) for fact in order[limit:] for place in both[fact].last]
                both = {fact: both[fact] for fact in order[:limit]}
            for fact, place in late:
                if fact in both:
                    both[fact] = both[fact].merge(_one(place))
            late = sorted((one for one in late if one[0] not in both), key=_late_place)[-KEPT_PLACES:]
            merged.open_family(family)
            merged.families[family] = both
            if late:
                merged.late[family] = late
            merged.tallies[family] = _join_tally(self.tallies.get(family), other.tallies.get(family))
        return merged

    def open_family(self, family: str) -> Tally:
        """Begin a family that was not seen yet; its tally."""
        self.families[family] = {}
        self.kinds.setdefault(family.split(":", 1)[0], []).append(family)
        tally = self.tallies[family] = Tally()
        return tally

    def of(self, kind: str) -> Iterator[tuple[Fact, Sightings]]:
        """All facts of a kind or of one family; a kind may have several ("message:x" belongs to "message")."""
        for family in (kind,) if ":" in kind else self.kinds.get(kind, ()):
            yield from self._of_family(family)

    def _of_family(self, family: str) -> Iterator[tuple[Fact, Sightings]]:
        yield from self.families.get(family, {}).items()
        late: dict[Fact, Sightings] = {}
        for fact, sighting in self.late.get(family, ()):
            late.setdefault(fact, Sightings()).add(sighting)
        yield from late.items()

    def tally(self, family: str) -> Tally | None:
        return self.tallies.get(family)

    def facts(self) -> Iterator[tuple[Fact, Sightings]]:
        for family in self.families:
            yield from self._of_family(family)

    def __bool__(self) -> bool:
        return bool(self.families)


def _first_families(left: FactBase, right: FactBase, overfull: set[str]) -> list[str]:
    """The families of both that are kept."""
    names = list(dict.fromkeys([*left.families, *right.families]))
    for kind in left.kinds.keys() & right.kinds.keys():
        both = [family for family in names if family.split(":", 1)[0] == kind]
        if len(both) > KEPT_FAMILIES:
            overfull.add(kind)
            late = set(sorted(both, key=lambda name: _first_place(name, left, right))[KEPT_FAMILIES:])
            names = [family for family in names if family not in late]
    return names


def _first_place(family: str, *bases: FactBase) -> tuple[tuple[str, int], str]:
    facts = (base.families.get(family, {}).values() for base in bases)
    return min(sightings.first[0].place for one in facts for sightings in one), family


def merge_all(bases: Iterable[FactBase]) -> FactBase:
    """One bag of all."""
    return reduce(FactBase.merge, bases, FactBase())


def _place(sighting: Sighting) -> tuple[tuple[str, int], str]:
    return (sighting.place, sighting.text)


def _late_place(late: tuple[Fact, Sighting]) -> tuple[tuple[str, int], str, str]:
    return (*_place(late[1]), repr(late[0]))


def _one(sighting: Sighting) -> Sightings:
    sightings = Sightings()
    sightings.add(sighting)
    return sightings


def _join(left: Sightings | None, right: Sightings | None) -> Sightings:
    if left is None or right is None:
        joined = left or right
        assert joined is not None
        return joined
    return left.merge(right)


def _join_tally(left: Tally | None, right: Tally | None) -> Tally:
    return (left or Tally()).merge(right or Tally())
