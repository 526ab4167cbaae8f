"""FactBase: bounded, counted, mergeable in any grouping."""

from hypothesis import given
from hypothesis import strategies as st

from diagnoser.facts.engine import Message, Ready
from diagnoser.facts.factbase import KEPT_FACTS, KEPT_PLACES, FactBase, Sighting, merge_all


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
    tallies = {name: (tally.count, tally.minutes) for name, tally in base.tallies.items()}
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
    assert len(kept) == KEPT_FACTS
    assert kept[0] == Message(id="m", fields=(("x", "0"),))
    tally = base.tally("message:m")
    assert tally is not None
    assert tally.count == 5000


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
    assert tally.most_within(1) == 2
    assert tally.most_within(3) == 4
