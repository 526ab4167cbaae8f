"""A bag of facts as plain data and back, so that what was read once can be judged again later."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from diagnoser.facts.factbase import FactBase, Sighting, Sightings
from diagnoser.facts.registry import kinds

KEPT_BINS = 5000
"""How many stretches of time of one family are kept: half a day without a pause."""

KEPT_TEXT = 16_000
"""How much of a place's text is kept: evidence is narrowed to lines inside of a whole card's report."""


def as_plain(base: FactBase) -> dict[str, Any]:
    """``{"texts", "facts", "tallies", "overfull"}``; texts are kept once, however many facts a line states."""
    texts: dict[str, int] = {}

    def place(one: Sighting) -> list[Any]:
        text = texts.setdefault(one.text[:KEPT_TEXT], len(texts))
        return [one.source, one.line, one.end_line, text, one.rank, one.at]

    facts = [
        [
            family,
            fact.kind,
            fact.model_dump(mode="json", exclude_none=True),
            seen.count,
            [place(one) for one in seen.first],
            [place(one) for one in seen.last if one not in seen.first],
        ]
        for family in base.families
        for fact, seen in base.families[family].items()
    ]
    tallies = {
        family: [tally.count, sorted(tally.bins.items())[-KEPT_BINS:]]
        for family, tally in base.tallies.items()
    }
    return {"texts": list(texts), "facts": facts, "tallies": tallies, "overfull": sorted(base.overfull)}


def from_plain(plain: Mapping[str, Any]) -> FactBase:
    """The bag again. Facts of kinds that are not known (any more) are left out.

    Raises KeyError, TypeError, ValueError or IndexError where the data is not what `as_plain` gives.
    """
    base, classes, texts = FactBase(), kinds(), plain["texts"]

    def place(one: list[Any]) -> Sighting:
        source, line, end_line, text, rank, at = one
        return Sighting(source, line, end_line, texts[text], rank, at)

    for family, kind, fields, count, first, last in plain["facts"]:
        try:
            fact = classes[kind].model_validate(fields)
        except (KeyError, ValidationError):
            continue
        seen = Sightings()
        seen.count = count
        seen.first = [place(one) for one in first]
        seen.last = [*seen.first, *map(place, last)][-max(len(last), len(first)) :]
        if family not in base.families:
            base.open_family(family)
        base.families[family][fact] = seen
    for family, (count, bins) in plain["tallies"].items():
        tally = base.tallies.get(family)
        if tally is not None:
            tally.count, tally.bins = count, dict(bins)
    base.overfull = set(plain["overfull"])
    return base
