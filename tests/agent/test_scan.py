"""Many incidents: one row each, failures set apart, work that is done stays done, all engines alike."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from diagnoser.agent.scan import work
from diagnoser.agent.scan.engines import Policy
from diagnoser.agent.scan.incidents import Incident, Row, Settings, group, read_incident
from diagnoser.agent.scan.local import LocalEngine
from diagnoser.agent.scan.run import Scan, scan
from diagnoser.agent.scan.work import Job, Result
from diagnoser.agent.session import Options, run
from diagnoser.inference.diagnose import Judged
from diagnoser.sources import Limits
from diagnoser.sources.remote import File

STORY = Path(__file__).resolve().parents[2] / "fixtures" / "story"
SETTINGS = Settings(year=2026)
TRITON = "triton-attn-default-sm120"


def fleet(folder: Path, hosts: int = 4) -> Path:
    """Hosts with a healthy and a slow server each; on the first one a file that is packed and cut short."""
    slow = (STORY / "step6-triton-default.log").read_bytes()
    fine = (STORY / "step7-flashinfer.log").read_bytes()
    for number in range(hosts):
        place = folder / f"gpu-{number:02}"
        place.mkdir(parents=True)
        (place / "slow.log").write_bytes(slow.replace(b"2026-02-27", b"2026-02-%02d" % (10 + number)))
        (place / "fine.log").write_bytes(fine)
    (folder / "gpu-00" / "cut.log.gz").write_bytes(gzip.compress(slow)[:40])
    return folder


def test_a_row_for_each_incident_and_the_digest(tmp_path: Path) -> None:
    found = scan([str(fleet(tmp_path))], LocalEngine(2), SETTINGS)
    assert [row.incident for row in found.rows] == sorted(str(path) for path in tmp_path.rglob("*.*"))
    spread = next(one for one in found.digest.causes if one.rule == TRITON)
    assert (spread.incidents, spread.hosts) == (4, 4)
    # 2026-02-10 15:31:04 UTC: the stamp of the line that proves it, on the first host
    assert spread.since == 1770737464.0
    assert spread.until is not None
    assert spread.until - spread.since == 3 * 86_400
    assert found.digest.incidents == 9
    broken = next(row for row in found.rows if row.incident.endswith("cut.log.gz"))
    assert broken.error is not None
    assert found.digest.failed == 1


def test_a_row_says_what_a_diagnosis_says(tmp_path: Path) -> None:
    path = fleet(tmp_path) / "gpu-01" / "slow.log"
    judged = run([path], Options(year=2026))
    assert isinstance(judged, Judged)
    (row,) = scan([str(path)], LocalEngine(1), SETTINGS).rows
    assert [(cause.rule, cause.confidence) for cause in row.causes] == [
        (finding.rule, finding.confidence) for finding in judged.diagnosis.causes
    ]
    assert row.headline == judged.diagnosis.headline


def test_folders_as_incidents() -> None:
    files = [
        File("/logs/a/server.log", 5, ""),
        File("/logs/a/gpus.txt", 2, ""),
        File("/logs/b/server.log", 1, ""),
    ]
    incidents = group(files, "folder")
    assert [(one.name, one.host, one.size) for one in incidents] == [("/logs/a", "a", 7), ("/logs/b", "b", 1)]
    assert [one.host for one in group(files, "file")] == ["a", "a", "b"]


@pytest.mark.parametrize("workers", [1, 3])
def test_what_kills_its_reader_is_set_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    fleet(tmp_path)

    def poisoned(incident: Incident, settings: Settings) -> Row:
        if incident.name.endswith("gpu-02/slow.log"):
            os.kill(os.getpid(), signal.SIGKILL)
        if incident.name.endswith("gpu-02/fine.log"):
            raise RuntimeError("boom")
        if incident.name.endswith("gpu-03/fine.log"):
            time.sleep(60)
        return read_incident(incident, settings)

    wanted = {row.incident: row for row in scan([str(tmp_path)], LocalEngine(1), SETTINGS).rows}
    monkeypatch.setattr(work, "read_incident", poisoned)
    found = scan([str(tmp_path)], LocalEngine(workers), SETTINGS, policy=Policy(attempts=2, timeout_s=3))
    errors = {row.incident[len(str(tmp_path)) :]: row.error or "" for row in found.rows if row.error}
    assert "signal 9" in errors.pop("/gpu-02/slow.log")
    assert "RuntimeError: boom" in errors.pop("/gpu-02/fine.log")
    assert "too long" in errors.pop("/gpu-03/fine.log")
    assert list(errors) == ["/gpu-00/cut.log.gz"]
    assert all(row == wanted[row.incident] for row in found.rows if not row.error)


class Counting:
    """An engine that notes what it was given, and may give up."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.given: list[str] = []
        self._stop_after = stop_after

    def results(
        self, jobs: Iterable[Job], settings: Settings, policy: Policy
    ) -> Iterator[tuple[Job, Result]]:
        for job, result in LocalEngine(1).results(jobs, settings, policy):
            if len(self.given) == self._stop_after:
                raise KeyboardInterrupt
            self.given.append(job.name)
            yield job, result


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    logs, state = fleet(tmp_path / "logs"), tmp_path / "state.jsonl"
    whole = scan([str(logs)], LocalEngine(1), SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        scan([str(logs)], Counting(stop_after=3), SETTINGS, state=state)
    with state.open("a") as file:
        file.write('{"key": "half a li')
    first = Counting()
    assert scan([str(logs)], first, SETTINGS, state=state) == whole
    assert len(first.given) == 9 - 3
    again = Counting()
    (logs / "gpu-01" / "fine.log").write_bytes((STORY / "step7-flashinfer.log").read_bytes() + b"\n")
    scan([str(logs)], again, SETTINGS, state=state)
    # What changed, and what failed.
    assert sorted(Path(name).name for name in again.given) == ["cut.log.gz", "fine.log"]
    other = Counting()
    scan([str(logs)], other, Settings(year=2025), state=state)
    assert len(other.given) == 9


def test_a_driver_that_is_killed(tmp_path: Path) -> None:
    logs, state = fleet(tmp_path / "logs", hosts=40), tmp_path / "state.jsonl"
    command = [
        sys.executable,
        "-m",
        "diagnoser",
        "scan",
        str(logs),
        "--workers",
        "2",
        "--year",
        "2026",
        "-f",
        "json",
    ]
    driver = subprocess.Popen([*command, "--state", str(state)], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not state.exists() or state.read_bytes().count(b"\n") < 12):
        time.sleep(0.01)
    driver.kill()
    driver.wait()
    done = state.read_bytes().count(b"\n") - 1
    assert done < 81
    went_on = subprocess.run([*command, "--state", str(state)], capture_output=True, text=True, check=False)
    straight = subprocess.run(command, capture_output=True, text=True, check=False)
    assert went_on.returncode == straight.returncode == 1
    assert went_on.stdout == straight.stdout
    assert json.loads(straight.stdout)["digest"]["incidents"] == 81


@pytest.fixture
def memory_files(tmp_path: Path) -> Iterator[str]:
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    for path in fleet(tmp_path).rglob("*.*"):
        system.pipe("/fleet/" + path.relative_to(tmp_path).as_posix(), path.read_bytes())
    yield "memory://fleet"
    system.rm("/fleet", recursive=True)


def plain(found: Scan, root: str) -> list[dict[str, object]]:
    return [json.loads(json.dumps(row.as_plain()).replace(root, "")) for row in found.rows]


def test_urls_say_the_same_as_files(tmp_path: Path, memory_files: str) -> None:
    there = scan([memory_files], LocalEngine(1), SETTINGS)
    here = scan([str(tmp_path)], LocalEngine(1), SETTINGS)
    assert plain(there, "memory:///fleet") == plain(here, str(tmp_path))


def test_wrong_calls(capsys: pytest.CaptureFixture[str]) -> None:
    from diagnoser.cli.scan import run as command

    assert command(["/nowhere/at/all.log"]) == 2
    assert command(["nosuchscheme://bucket/x"]) == 2
    assert command(["x", "--workers", "0"]) == 2
    assert command(["x", "--address", "auto"]) == 2
    said = capsys.readouterr().err
    assert "there is no such file" in said
    assert said.count("diagnose:") == 4
    assert "Traceback" not in said


@pytest.mark.parametrize("workers", [1, 3])
def test_a_large_file_is_read_in_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    slow, table = (STORY / name for name in ("step6-triton-default.log", "step4-clean-gpus.txt"))
    running = [line for line in slow.read_bytes().splitlines(keepends=True) if b" batch, " in line]
    path = tmp_path / "server.log"
    path.write_bytes(slow.read_bytes() + (b"".join(running) + table.read_bytes()) * 60)
    (tmp_path / "long-line.log").write_bytes(
        slow.read_bytes() + b"x" * (3 << 20) + b"\n" + slow.read_bytes() * 9
    )
    whole = scan([str(tmp_path)], LocalEngine(1), SETTINGS)
    small = Limits(chunk_bytes=9000, hold_bytes=2000, segment_chunks=2)
    monkeypatch.setattr(
        Settings, "options", property(lambda self: Options(year=self.year, with_facts=False, limits=small))
    )
    monkeypatch.setattr(work, "SHARD_SEGMENTS", 3)
    found = scan([str(tmp_path)], LocalEngine(workers), SETTINGS, split_bytes=50_000)
    assert found == whole
