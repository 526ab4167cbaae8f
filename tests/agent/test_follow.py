"""A growing log says what the whole log says, soon, through rotation and truncation, in flat memory."""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from diagnoser.agent.follow import Followed, Follower, follow
from diagnoser.agent.session import Options, catalog_of, run_text
from diagnoser.sources.tails import ROTATED, TRUNCATED, FileTail

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
STORY = FIXTURES / "story"
OPTIONS = Options(year=2026, with_facts=False)
TRITON = "triton-attn-default-sm120"


def follower(name: str = "stdin") -> Follower:
    return Follower(catalog_of(OPTIONS), name, None, OPTIONS)


@pytest.mark.parametrize(
    "name",
    ["step5-cudnn-check.log", "step6-triton-default.log", "step2-missing-libnvrtc.log", "step8-eagle.log"],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_what_came_in_pieces_is_judged_as_the_whole(name: str, seed: int) -> None:
    data = (STORY / name).read_bytes() + (STORY / "step4-clean-gpus.txt").read_bytes()
    whole = run_text(data, OPTIONS).diagnosis
    dice = random.Random(seed)
    one = follower()
    at = 0
    while at < len(data):
        size = dice.choice((1, 30, 200, 3000))
        one.feed(data[at : at + size])
        at += size
        if dice.random() < 0.1:
            one.judge()
    assert one.judge(settled=True).diagnosis.to_json() == whole.to_json()


@contextmanager
def following(path: Path) -> Iterator[Callable[[str, float], bool]]:
    """Follows a file in a thread; gives what waits until a rule is among the causes."""
    shown: list[Followed] = []
    going = threading.Event()
    tail = FileTail(path)
    thread = threading.Thread(
        target=follow,
        args=(tail, follower(str(path)), shown.append),
        kwargs={"going": lambda: not going.is_set()},
    )
    thread.start()

    def comes(rule: str, within_s: float) -> bool:
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if shown and rule in {one.rule for one in shown[-1].judged.diagnosis.causes}:
                return True
            time.sleep(0.02)
        return False

    try:
        yield comes
    finally:
        going.set()
        thread.join()
        tail.close()


def test_a_finding_comes_soon_after_its_line(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"")
    lines = (STORY / "step6-triton-default.log").read_bytes()
    with following(path) as comes:
        assert not comes(TRITON, 0.6)
        with path.open("ab", buffering=0) as file:
            file.write(lines)
        assert comes(TRITON, 3)  # the limit is a second; other tests may hold the cores


def test_rotation_and_truncation(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"[2026-02-27 15:17:28] one\n")
    tail = FileTail(path)
    assert tail.read() == (b"[2026-02-27 15:17:28] one\n", None)
    path.rename(tmp_path / "server.log.1")
    with (tmp_path / "server.log.1").open("ab") as old:
        old.write(b"late\n")
    assert tail.read() == (b"late\n", None)
    assert tail.read() == (b"", None)  # the new one is not there yet
    path.write_bytes(b"two\n")
    assert tail.read() == (b"two\n", ROTATED)
    os.truncate(path, 0)
    assert tail.read() == (b"", TRUNCATED)
    with path.open("ab") as file:
        file.write(b"3\n")
    assert tail.read() == (b"3\n", None)
    tail.close()


def test_facts_outlive_a_rotation(tmp_path: Path) -> None:
    lines = (STORY / "step6-triton-default.log").read_bytes().splitlines(keepends=True)
    one = follower("server.log")
    one.feed(b"".join(lines[:-2]))
    before = {finding.rule for finding in one.judge().diagnosis.causes}
    one.begin_anew(ROTATED)
    one.feed(b"".join(lines[-2:]))
    diagnosis = one.judge().diagnosis
    assert TRITON in before
    assert TRITON in {finding.rule for finding in diagnosis.causes}
    assert one.lines == len(lines)
    assert any("replaced" in note for document in diagnosis.coverage for note in document.notes)


def test_a_last_line_without_its_end_counts_once_it_settles() -> None:
    data = (STORY / "step2-missing-libnvrtc.log").read_bytes().rstrip(b"\n")
    one = follower()
    one.feed(data)
    assert (
        one.judge(settled=True).diagnosis.causes[0].rule == run_text(data, OPTIONS).diagnosis.causes[0].rule
    )


def test_a_line_without_end_costs_no_memory() -> None:
    one = follower()
    for _ in range(40):
        one.feed(b"x" * (1 << 18))
    assert len(one._open) <= OPTIONS.limits.line_bytes
    one.feed(b"\n" + (STORY / "step6-triton-default.log").read_bytes())
    assert TRITON in {finding.rule for finding in one.judge().diagnosis.causes}


@pytest.mark.slow
def test_memory_is_flat_over_days_of_log() -> None:
    import tracemalloc

    log = (FIXTURES / "captures" / "sglang_h200" / "triton.log").read_bytes()
    running = b"".join(line for line in log.splitlines(keepends=True) if b" batch, " in line)
    one = follower()
    one.feed(log)
    sizes = []
    tracemalloc.start()
    for _ in range(3):
        for _ in range(400):
            one.feed(running)
        one.judge()
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[2] < sizes[0] * 1.2 + (1 << 20)
