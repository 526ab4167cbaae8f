"""FactBase: bounded, counted, mergeable in any grouping."""

from hypothesis import given
from hypothesis import strategies as st

from diagnoser.facts.engine import Message, Ready, ServerArg
from diagnoser.facts.factbase import KEPT_FAMILIES, KEPT_PLACES, FactBase, Sighting, merge_all


def base_of(seen: list[tuple[str, int]], start: int = 0) -> FactBase:
    base = FactBase()
    for offset, (name, minute) in enumerate(seen):
        line = start + offset + 1
        base.add(
            Message(id="m", fields=(("x", name),)),
            Sighting("s", line, line, f"line {line}", None, minute * 60.0),
        )
    return base


def contents(base: FactBase) -> object:
    facts = {fact: (places.count, places.first, places.last) for fact, places in base.facts()}
    tallies = {name: (tally.count, tally.bins) for name, tally in base.tallies.items()}
    return facts, tallies


SEEN = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 30)), max_size=60)


@given(SEEN, st.integers(0, 60), st.integers(0, 60))
def test_merging_the_parts_equals_reading_the_whole(seen: list[tuple[str, int]], one: int, two: int) -> None:
    first, second = sorted((min(one, len(seen)), min(two, len(seen))))
    parts = [base_of(seen[:first]), base_of(seen[first:second], first), base_of(seen[second:], second)]
    assert contents(merge_all(parts)) == contents(base_of(seen))
    left = parts[0].merge(parts[1]).merge(parts[2])
    right = parts[0].merge(parts[1].merge(parts[2]))
    assert contents(left) == contents(right)


def test_a_million_different_facts_keep_the_first_and_count_all() -> None:
    base = base_of([(str(number), 0) for number in range(5000)])
    kept = [fact for fact, _ in base.of("message")]
    assert len(kept) == Message.kept + KEPT_PLACES
    assert kept[0] == Message(id="m", fields=(("x", "0"),))
    assert kept[-1] == Message(id="m", fields=(("x", "4999"),))
    tally = base.tally("message:m")
    assert tally is not None
    assert tally.count == 5000


@given(st.lists(st.integers(0, 400), max_size=60), st.integers(0, 500), st.integers(0, 500))
def test_merging_holds_beyond_what_is_kept(again: list[int], one: int, two: int) -> None:
    """Beyond the kept ones each value comes once: its further sightings are counted with the family alone."""
    seen = [(str(number), number) for number in range(300)] + [(f"{i} {n}", n) for i, n in enumerate(again)]
    first, second = sorted((min(one, len(seen)), min(two, len(seen))))
    parts = [base_of(seen[:first]), base_of(seen[first:second], first), base_of(seen[second:], second)]
    assert contents(merge_all(parts)) == contents(base_of(seen))


def test_families_named_by_the_text_are_bounded() -> None:
    def options(start: int, stop: int) -> FactBase:
        base = FactBase()
        for line in range(start, stop):
            base.add(ServerArg(name=f"option_{line}", value=line), Sighting("s", line, line, ""))
        return base

    whole = options(0, 5000)
    assert [fact.value for fact, _ in whole.of("server_arg")] == list(range(KEPT_FAMILIES))  # type: ignore[attr-defined]
    assert whole.overfull == {"server_arg"}
    merged = options(0, 700).merge(options(700, 1500)).merge(options(1500, 5000))
    assert contents(merged) == contents(whole)
    assert merged.overfull == whole.overfull


def test_one_fact_keeps_its_first_and_last_places() -> None:
    base = FactBase()
    for line in range(1, 101):
        base.add(Ready(), Sighting("s", line, line, "ready"))
    (places,) = [places for _, places in base.of("ready")]
    assert places.count == 100
    assert [place.line for place in places.first] == list(range(1, 1 + KEPT_PLACES))
    assert [place.line for place in places.last] == list(range(101 - KEPT_PLACES, 101))


def test_the_busiest_stretch_of_minutes_is_found() -> None:
    base = base_of([("a", 1), ("a", 1), ("a", 2), ("a", 10), ("a", 11), ("a", 12), ("a", 12)])
    tally = base.tally("message:m")
    assert tally is not None
    assert tally.most_within(60) == 2
    assert tally.most_within(180) == 4


def test_a_burst_over_the_turn_of_a_minute_is_one_burst() -> None:
    base = FactBase()
    for line in range(10):
        base.add(Ready(), Sighting("s", line, line, "", None, 55.0 + line))
    tally = base.tally("ready")
    assert tally is not None
    assert tally.most_within(20) == 10
