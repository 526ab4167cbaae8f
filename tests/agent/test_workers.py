"""Any number of workers gives the answer of one, byte for byte."""

import gzip
import os
import signal
from pathlib import Path

import pytest

from diagnoser.agent import workers
from diagnoser.agent.session import Options, catalog_of, run
from diagnoser.inference.catalog import Catalog
from diagnoser.inference.diagnose import Judged
from diagnoser.inference.reading import Reading
from diagnoser.sources import Limits, Source, open_sources
from diagnoser.sources.stretches import chunks_of, stretches

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SMALL = Limits(chunk_bytes=8000, hold_bytes=2000, segment_chunks=2)
STORY = FIXTURES / "story"


def answer(path: Path, count: int, limits: Limits = SMALL) -> str:
    judged = run([path], Options(year=2026, workers=count, limits=limits))
    assert isinstance(judged, Judged)
    return judged.diagnosis.to_json()


def composed(folder: Path) -> Path:
    """Two starts of a server, GPU tables between running lines, and a crash: tables lie across many cuts."""
    log = (FIXTURES / "captures" / "sglang_h200" / "triton.log").read_bytes()
    table = (STORY / "step4-clean-gpus.txt").read_bytes()
    running = b"".join(line for line in log.splitlines(keepends=True) if b" batch, " in line)
    crash = (STORY / "step5-cudnn-check.log").read_bytes()
    path = folder / "server.log"
    path.write_bytes(log + (running + table) * 8 + crash + log + running * 3)
    return path


@pytest.mark.parametrize("count", [2, 3])
def test_more_workers_give_the_same_answer(tmp_path: Path, count: int) -> None:
    path = composed(tmp_path)
    assert answer(path, count) == answer(path, 1)


@pytest.mark.parametrize("chunk_bytes", [3000, 5000, 20_000, 4 << 20])
def test_segments_of_any_size_give_the_same_answer(tmp_path: Path, chunk_bytes: int) -> None:
    path = composed(tmp_path)
    limits = Limits(chunk_bytes=chunk_bytes, hold_bytes=2000, segment_chunks=1)
    assert answer(path, 2, limits) == answer(path, 1, Limits())


def test_several_files_and_an_archive(tmp_path: Path) -> None:
    composed(tmp_path)
    (tmp_path / "old.log.gz").write_bytes(gzip.compress((STORY / "step6-triton-default.log").read_bytes()))
    (tmp_path / "gpus.txt").write_bytes((STORY / "step4-clean-gpus.txt").read_bytes())
    assert answer(tmp_path, 3) == answer(tmp_path, 1)


def test_wrapped_lines_and_records_in_pieces(tmp_path: Path) -> None:
    lines = (STORY / "step6-triton-default.log").read_text().splitlines()
    stamp = "2026-03-02T09:14:07.500000000Z"
    rows = []
    for number, line in enumerate(lines * 40):
        half = len(line) // 2
        if number % 3 == 0:
            rows += [f"{stamp} stderr P {line[:half]}", f"{stamp} stderr F {line[half:]}"]
        else:
            rows.append(f"{stamp} stderr F {line}")
    path = tmp_path / "pod.log"
    path.write_text("\n".join(rows) + "\n")
    assert answer(path, 2) == answer(path, 1)


def test_a_file_that_cannot_be_cut_is_read_in_one_go(tmp_path: Path) -> None:
    path = composed(tmp_path)
    limits = Limits(chunk_bytes=8000, hold_bytes=2000, segment_chunks=2, line_bytes=4000, line_kept_bytes=500)
    with path.open("ab") as file:
        file.write(b"x" * 9000 + b"\n" + (STORY / "step6-triton-default.log").read_bytes())
    assert answer(path, 2, limits) == answer(path, 1, limits)
    assert "9000 bytes long" in answer(path, 2, limits)


def test_stretches_give_the_chunks_of_the_whole(tmp_path: Path) -> None:
    (source,) = open_sources([composed(tmp_path)], limits=SMALL)
    assert isinstance(source, Source)
    whole = list(source.chunks())
    parts = [chunk for stretch in stretches(source, SMALL) for chunk in chunks_of(stretch, SMALL)]
    assert parts == whole
    assert len(whole) > 10


def test_a_worker_that_dies_costs_time_and_not_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = composed(tmp_path)
    wanted = answer(path, 1)
    parent = os.getpid()
    read = workers.read_segment

    def dies(
        segment: workers.Segment, catalog: Catalog, carry: workers.Carry
    ) -> tuple[Reading, workers.Carry]:
        if os.getpid() != parent and segment.stretch.first_line > 200:
            os.kill(os.getpid(), signal.SIGKILL)
        return read(segment, catalog, carry)

    monkeypatch.setattr(workers, "read_segment", dies)
    assert answer(path, 2) == wanted


def test_readings_come_in_the_order_of_the_sources(tmp_path: Path) -> None:
    for name in ("a.log", "b.log", "c.log"):
        (tmp_path / name).write_bytes((STORY / "step6-triton-default.log").read_bytes())
    options = Options(workers=2, limits=SMALL)
    read = workers.read_with_workers(open_sources([tmp_path]), catalog_of(options), options, None)
    assert [Path(reading.name).name for reading in read.readings] == ["a.log", "b.log", "c.log"]
