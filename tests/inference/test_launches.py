"""Launches: cut where a server starts again, whatever way the text was cut before."""

from hypothesis import given
from hypothesis import strategies as st

from diagnoser.facts.engine import Message
from diagnoser.facts.factbase import Sighting
from diagnoser.inference.launches import Launches

MARKS = ["opens", "progress", "ready", "exit", ""]


def read(marks: list[str], start: int = 0) -> Launches:
    launches = Launches()
    launch = launches.current(start)
    for offset, mark in enumerate(marks):
        line = start + offset
        if mark == "opens":
            launch = launches.open(line)
        elif mark:
            launch.marks[mark] += 1
        launch.facts.add(Message(id=f"m{line}"), Sighting("s", line, line, mark))
        launch.last_line = line
    return launches


def shape(launches: Launches) -> list[tuple[list[str], bool]]:
    return [(sorted(launch.facts.families), launch.progressed) for launch in launches.settled()]


@given(st.lists(st.sampled_from(MARKS), max_size=14), st.integers(0, 14))
def test_reading_in_parts_gives_the_same_last_launch(marks: list[str], cut: int) -> None:
    cut = min(cut, len(marks))
    whole, joined = read(marks), read(marks[:cut]).merge(read(marks[cut:], cut))
    assert joined.count == whole.count
    assert shape(joined)[-1:] == shape(whole)[-1:]


def test_what_a_server_says_before_it_does_anything_belongs_to_its_launch() -> None:
    marks = ["opens", "opens", "progress", "exit", "opens", "opens", "progress", "ready"]
    first, second = read(marks).settled()
    assert sorted(first.facts.families) == [f"message:m{number}" for number in range(4)]
    assert sorted(second.facts.families) == [f"message:m{number}" for number in range(4, 8)]
    assert second.marks["ready"] == 1


def test_a_thousand_restarts_are_counted_and_the_last_is_kept() -> None:
    launches = read(["opens", "progress", "exit"] * 1000)
    assert launches.count == 1000
    assert len(launches.items) < 10
    assert "message:m2999" in launches.settled()[-1].facts.families
