"""The history in real files, written by real processes."""

import json
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from diagnoser.agent.session import Options, catalog_of, run
from diagnoser.compare.history.entry import Entry, Service
from diagnoser.compare.history.store import History, HistoryError
from diagnoser.inference.kept import as_plain, judge_again

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
STORY = FIXTURES / "pairs" / "story"
CAPTURES = FIXTURES / "captures"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "history.sqlite3"


def cli(file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "diagnoser", *arguments],
        env={**os.environ, "DIAGNOSER_HISTORY": str(file), "COLUMNS": "100"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def entry(value: float, at: float, **fields: object) -> Entry:
    said = {
        "kind": "benchmark",
        "host": "gpu-07",
        "model": "kimi",
        "workload": "1 stream",
        "metric": "output_tok_s_wall",
    }
    return Entry.model_validate({**said, "value": value, "values": [value], "at": at, **fields})


def test_the_story_is_kept_and_held_beside_each_other_later(file: Path) -> None:
    saved = cli(file, str(STORY / "before"), "--save", "--save-as", "before the upgrade")
    assert saved.returncode == 0
    assert saved.stderr.startswith("kept as 1; too few earlier results")
    assert cli(file, "history", "baseline", "1").returncode == 0
    listed = cli(file, "history").stdout
    assert "1* 2026-02-12 16:08  89.5 decode_tok_s" in listed
    assert "before the upgrade" in listed
    for name in ("history:", "history:1", "before the upgrade", "history:before the upgrade"):
        held = cli(file, "--baseline", name, str(STORY / "after"))
        assert held.returncode == 1, held.stderr
        assert held.stdout.startswith("Slower: 89.5 -> 83.9 tok/s decoded, -6.3%")
        assert "triton-attn-default-sm120" in held.stdout
    files = cli(file, "--baseline", str(STORY / "before"), str(STORY / "after")).stdout
    assert [line for line in held.stdout.splitlines() if "before " not in line] == [
        line for line in files.splitlines() if "before " not in line
    ]


@pytest.mark.parametrize(
    "given",
    [
        CAPTURES / "sglang_h200" / "default.log",
        CAPTURES / "sglang_h200" / "mla-backend.log",
        CAPTURES / "h200",
        FIXTURES / "vllm" / "04_preemption_storm_v0.7.3.log",
        FIXTURES / "sglang" / "07_kv_cache_retraction_059.log",
        FIXTURES / "story",
    ],
    ids=lambda path: path.name,
)
def test_what_is_kept_is_judged_as_the_text_is(given: Path) -> None:
    judged = run([given], Options(year=2026))
    assert not isinstance(judged, list)
    kept = json.loads(json.dumps(as_plain(judged)))
    again = judge_again(kept, catalog_of(Options()).pack)
    assert again.diagnosis.server == judged.diagnosis.server
    told = [
        [
            (one.rule, one.role, one.confidence, one.severity, [place.line for place in one.evidence])
            for one in of.findings
        ]
        for of in (judged.diagnosis, again.diagnosis)
    ]
    assert told[0] == told[1]


def test_many_processes_write_at_the_same_time(file: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from tests.history.test_history import entry\n"
        "from diagnoser.compare.history.store import History\n"
        "from pathlib import Path\n"
        "who = int(sys.argv[2])\n"
        "for number in range(25):\n"
        "    History(Path(sys.argv[1])).add(entry(90 + number / 100, 1000 * who + number))\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(file), str(who)], cwd=ROOT) for who in range(6)
    ]
    assert [writer.wait(120) for writer in writers] == [0] * 6
    found = History(file).all()
    assert len(found) == 150
    assert len({one.number for one in found}) == 150
    assert [one.entry.at for one in found] == sorted(one.entry.at for one in found)


def test_a_writer_that_is_killed_leaves_what_was_there(file: Path) -> None:
    history = History(file)
    history.add(entry(90, 1))
    code = (
        "import sys, os, sqlite3\n"
        "database = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "database.execute('BEGIN IMMEDIATE'); database.execute('DELETE FROM entries'); os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(file)], check=False).returncode == -9
    assert history.add(entry(91, 2)) == 2
    assert [one.entry.value for one in history.all()] == [90, 91]


def test_looking_makes_no_file_and_what_is_made_is_the_owners_alone(file: Path) -> None:
    shown = cli(file, "history")
    assert shown.returncode == 0
    assert shown.stdout.startswith("Nothing is kept.")
    assert not file.parent.exists()
    History(file).add(entry(90, 1))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_the_same_result_is_kept_once_and_may_get_a_name(file: Path) -> None:
    history = History(file)
    assert history.add(entry(90, 1)) == history.add(entry(90, 1, name="good")) == history.add(entry(90, 1))
    (kept,) = history.all()
    assert kept.entry.name == "good"
    assert history.all(name="good") == [kept]


def test_a_baseline_for_each_host_model_and_load(file: Path) -> None:
    history = History(file)
    first, second, other = (
        history.add(entry(90, 1)),
        history.add(entry(91, 2)),
        history.add(entry(50, 3, host="gpu-08")),
    )
    service = Service("gpu-07", "kimi", "1 stream")
    assert history.baseline(service) is None
    assert history.set_baseline(first) == service
    history.set_baseline(other)
    history.set_baseline(second)
    kept = history.baseline(service)
    assert kept is not None
    assert kept.number == second
    assert [one.baseline for one in history.all()] == [False, True, True]
    assert history.remove(second)
    assert history.baseline(service) is None
    assert not history.remove(second)
    assert history.set_baseline(second) is None


def test_out_as_json_and_in_again(file: Path, tmp_path: Path) -> None:
    assert (
        cli(
            file, "history", "add", str(FIXTURES / "bench" / "vllm_serve.json"), "--name", "a", "--host", "h"
        ).returncode
        == 0
    )
    cli(file, str(STORY / "after"), "--save")
    cli(file, "history", "baseline", "2")
    out, second = tmp_path / "out.json", tmp_path / "second.sqlite3"
    assert cli(file, "history", "export", "-o", str(out)).returncode == 0
    assert json.loads(out.read_text())["schema"] == "diagnoser/history/1"
    assert cli(second, "history", "import", str(out)).stdout == "2 new results; 0 were kept already.\n"
    assert cli(second, "history", "import", str(out)).stdout == "0 new results; 2 were kept already.\n"
    assert cli(second, "history", "export").stdout == cli(file, "history", "export").stdout == out.read_text()


BAD = {
    "not json": "{",
    "another schema": '{"schema": "diagnoser/history/2", "entries": []}',
    "a key too many": '{"entries": [], "extra": 1}',
    "a value of another kind": '{"entries": [{"at": "x", "kind": "benchmark"}]}',
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_wrong_file_is_one_sentence_and_nothing_is_taken_in(file: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    answer = cli(file, "history", "import", str(tmp_path / "bad.json"))
    assert answer.returncode == 2
    assert "nothing was taken in" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not file.exists()


def test_files_that_are_no_history_are_told(file: Path, tmp_path: Path) -> None:
    file.parent.mkdir()
    file.write_text("this is a text and no database, long enough to be one\n" * 10)
    answer = cli(file, "history")
    assert (answer.returncode, "cannot be used" in answer.stderr) == (2, True)
    foreign = tmp_path / "foreign.sqlite3"
    with sqlite3.connect(foreign) as database:
        database.execute("CREATE TABLE theirs (x)")
    with pytest.raises(HistoryError, match="something else"):
        History(foreign).add(entry(90, 1))
    newer = tmp_path / "newer.sqlite3"
    with sqlite3.connect(newer) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(HistoryError, match="newer"):
        History(newer).all()
    saved = cli(Path("/proc/history.sqlite3"), str(STORY / "after"), "--save")
    assert saved.returncode == 2
    assert "cannot be used" in saved.stderr
    assert "triton" in saved.stdout


def test_what_is_not_kept_is_told(file: Path) -> None:
    for arguments in (
        ["--baseline", "history:7", str(STORY / "after")],
        ["--baseline", "history:", str(STORY / "after")],
        ["history", "show", "7"],
        ["history", "baseline", "7"],
        ["history", "plot"],
        ["history", "add", "/nowhere.log"],
        ["--baseline", str(STORY / "before"), str(STORY / "after"), "--save"],
    ):
        answer = cli(file, *arguments)
        assert answer.returncode == 2, arguments
        assert len(answer.stderr.splitlines()) == 1


def test_a_secret_in_a_servers_options_is_not_kept(file: Path, tmp_path: Path) -> None:
    result = json.loads((FIXTURES / "bench" / "vllm_serve.json").read_text())
    one = {**result, "server_info": {"model_path": "kimi", "api_key": "sk-verysecretkey0123456789abcdef"}}
    log = (STORY / "after" / "server.log").read_text()
    (tmp_path / "x.log").write_text(log.replace("api_key=None", "api_key='sk-verysecretkey0123456789abcdef'"))
    (tmp_path / "x.json").write_text(json.dumps(one))
    cli(file, "history", "add", str(tmp_path / "x.json"), str(tmp_path / "x.log"))
    assert "verysecret" not in cli(file, "history", "export").stdout


def test_the_newest_result_against_its_past_in_the_terminal(file: Path) -> None:
    history = History(file)
    for day in range(30):
        slower = day >= 22
        history.add(
            entry(
                (93.0 if not slower else 84.0) + 0.2 * (day % 3),
                86400.0 * day,
                engine="sglang",
                version="0.5.9" if slower else "0.5.5",
            )
        )
    tested = cli(file, "history", "test")
    assert tested.returncode == 0
    assert "as usual: +0.2% [" in tested.stdout
    assert "against 7 earlier results" in tested.stdout
    assert (
        "new level from 1970-01-23 00:00 on (number 23): 93.2 -> 84.2, -9.7%; sglang 0.5.5 -> sglang 0.5.9"
        in tested.stdout
    )
    plotted = cli(file, "history", "plot", "--model", "kimi")
    assert plotted.returncode == 0
    assert plotted.stdout.count("*") >= 20
    assert "output_tok_s_wall: kimi on gpu-07, 1 stream" in plotted.stdout
    assert "\x1b" not in plotted.stdout
    history.add(entry(70.0, 86400.0 * 40))
    worse = cli(file, "history", "test")
    assert worse.returncode == 1
    assert "slower than usual" in worse.stdout
