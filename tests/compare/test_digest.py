"""The digest: weeks, counts and costs by hand, from files and from the history."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from diagnoser.compare.digest import Cause, Incident, monday, weeks

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SLOW, FAST = FIXTURES / "story" / "step6-triton-default.log", FIXTURES / "story" / "step7-flashinfer.log"
RULE = "triton-attn-default-sm120"

SLOWER = Cause("slower", "Slower", "decode_slower", "high", 0.2)
COSTLY = Cause("costly", "Costly", "decode_slower", "low", 0.9)
UNMEASURED = Cause("unmeasured", "Nobody knows", "decode_slower", "high")
DEAD = Cause("dead", "Dead", "crash", "low")


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_weeks_begin_on_monday_at_midnight_utc() -> None:
    # 2026-03-02 is a Monday, ISO week 10.
    assert monday(at("2026-03-02T00:00:00")) == datetime(2026, 3, 2, tzinfo=UTC)
    assert monday(at("2026-03-01T23:59:59")) == datetime(2026, 2, 23, tzinfo=UTC)
    found = weeks(
        [Incident(at("2026-03-01T23:59:59"), "a", ()), Incident(at("2026-03-02T00:00:00"), "a", ())]
    )
    assert [week.name for week in found] == ["2026-W10", "2026-W09"]
    # 2027-01-01 is a Friday of 2026's last week.
    assert weeks([Incident(at("2027-01-01T12:00:00"), "a", ())])[0].name == "2026-W53"


def test_what_stops_comes_first_then_what_costs_most() -> None:
    day = at("2026-03-03T10:00:00")
    (week,) = weeks(
        [
            Incident(day, "a", (SLOWER, DEAD)),
            Incident(day + 60, "b", (SLOWER, UNMEASURED)),
            Incident(day + 90, "b", (SLOWER,)),
            Incident(day + 95, "c", (COSTLY,)),
            Incident(day + 99, "c", (), odd=True),
            Incident(day + 99, "d", ()),
        ]
    )
    assert [(row.cause.rule, row.times, row.places) for row in week.rows] == [
        ("dead", 1, 1), ("costly", 1, 1), ("slower", 3, 2), ("unmeasured", 1, 1),
    ]  # fmt: skip
    assert week.rows[2].lost == pytest.approx(0.6)
    assert week.rows[3].lost is None
    assert (week.incidents, week.unknown, week.well) == (6, 1, 1)


def test_what_is_new_and_what_came_no_more() -> None:
    found = weeks(
        [
            Incident(at("2026-02-25T10:00:00"), "a", (SLOWER, DEAD)),
            Incident(at("2026-03-04T10:00:00"), "a", (SLOWER, COSTLY)),
            Incident(at("2026-03-20T10:00:00"), "a", (SLOWER,)),
        ]
    )
    assert [week.name for week in found] == ["2026-W12", "2026-W10", "2026-W09"]
    assert {row.cause.rule: row.before for row in found[1].rows} == {"slower": 1, "costly": 0}
    assert found[1].gone == ("dead",)
    # Week 11 has none, so nothing of week 12 was there the week before.
    assert found[0].rows[0].before == 0
    assert found[0].gone == ()


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "diagnoser", *map(str, arguments)],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip


def test_a_folder_of_diagnoses(tmp_path: Path) -> None:
    for number, log in enumerate((SLOW, FAST)):
        run(log, "-f", "json", "-o", tmp_path / f"{number}.json")
    (tmp_path / "copy.json").write_bytes((tmp_path / "0.json").read_bytes())
    (tmp_path / "other.json").write_text('{"a": 1}')
    told = run("digest", tmp_path, "-f", "json")
    assert told.returncode == 0, told.stderr
    answer = json.loads(told.stdout)
    weeks_told = {week["week"]: week for week in answer["weeks"]}
    # The story's log is of 2026-02-27, ISO week 9; one of the two has a cause, and the copy counts once.
    week = weeks_told["2026-W09"]
    assert [(one["rule"], one["count"]) for one in week["causes"]] == [(RULE, 1)]
    # +10.4 % undone is 1 - 1/1.104 = 9.4 % lost
    assert week["causes"][0]["lost_servers"] == pytest.approx(1 - 1 / 1.104)
    assert week["causes"][0]["fix"] == "--attention-backend flashinfer"
    assert any("other.json: it is no diagnosis" in note for note in answer["notes"])
    text = run("digest", tmp_path / "0.json").stdout
    assert text.startswith("2026-W09 (from 2026-02-23): 1 diagnosis, 1 with a known cause")
    assert "cost the speed of 0.09 servers (assumed" in text
    assert f"({RULE.join('``')})" in run("digest", tmp_path, "-f", "markdown").stdout


def test_of_the_history(tmp_path: Path) -> None:
    home = {"DIAGNOSER_HISTORY": str(tmp_path / "h.sqlite3")}
    assert run("digest", "history:", **home).returncode == 2
    assert run(SLOW, "--save", **home).returncode == 1
    told = run("digest", "history:", "-f", "json", **home)
    assert told.returncode == 0, told.stderr
    (week,) = json.loads(told.stdout)["weeks"]
    assert [one["rule"] for one in week["causes"]] == [RULE]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["/nowhere"], "no such file"),
        ([SLOW], "no diagnosis"),
        ([FIXTURES / "bad_rules"], "no diagnosis"),
        (["--weeks", "0", "/nowhere"], "above 0"),
    ],
)
def test_wrong_calls_are_one_sentence(arguments: list[str | Path], sentence: str) -> None:
    told = run("digest", *arguments)
    assert told.returncode == 2
    assert sentence in told.stderr
    assert "Traceback" not in told.stderr
