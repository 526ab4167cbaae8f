"""Reading: the same facts whatever scanner, cut or order of files."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from diagnoser.inference.catalog import Catalog, build
from diagnoser.inference.diagnose import judge_readings
from diagnoser.inference.diagnosis import Diagnosis
from diagnoser.inference.launches import Launch
from diagnoser.inference.reading import Reader, Reading

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
LOGS = sorted(
    path
    for folder in ("story", "captures/sglang_h200", "captures/cpu_servers", "gpu_host", "vllm", "sglang")
    for path in (FIXTURES / folder).rglob("*")
    if path.suffix in (".log", ".txt", ".csv", ".xml")
)


def read(catalog: Catalog, data: bytes, first_line: int = 1) -> Reading:
    reader = Reader(catalog, "log")
    reader.feed(data, first_line, last=True)
    return reader.reading


def contents(reading: Reading) -> Any:
    def of(launch: Launch) -> Any:
        facts = {repr(fact): (seen.count, seen.first, seen.last) for fact, seen in launch.facts.facts()}
        stats = sorted(repr(stated) for stated in launch.series.facts())
        return facts, stats, launch.marks, launch.wordings

    state = {repr(fact): (seen.count, seen.first) for fact, seen in reading.state.facts()}
    return [of(launch) for launch in reading.launches.settled()], state, reading.spans


def cuts(data: bytes) -> list[int]:
    """Line starts where a new record surely begins: behind a stamped line and before another."""
    lines = data.split(b"\n")
    places, at = [], 0
    for before, line in pairwise(lines):
        at += len(before) + 1
        if before.startswith(b"[20") and line.startswith(b"[20") and b"Traceback" not in before:
            places.append(at)
    return places


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_both_scanners_lead_to_the_same_diagnosis(path: Path, catalog: Catalog) -> None:
    naive = build(catalog.pack, naive=True)
    data = path.read_bytes()
    fast, slow = (judge_readings([read(one, data)], catalog.pack).diagnosis for one in (catalog, naive))
    assert fast.to_json() == slow.to_json()


@pytest.mark.parametrize(
    "path", [path for path in LOGS if cuts(path.read_bytes())], ids=lambda path: path.name
)
def test_facts_of_the_parts_merge_to_the_facts_of_the_whole(path: Path, catalog: Catalog) -> None:
    data = path.read_bytes()
    places = cuts(data)
    whole = contents(read(catalog, data))
    for at in random.Random(path.name).sample(places, min(6, len(places))):
        head, tail = data[:at], data[at:]
        merged = read(catalog, head).merge(read(catalog, tail, head.count(b"\n") + 1))
        assert contents(merged) == whole, f"cut at byte {at}"


@pytest.mark.parametrize("size", [3000, 20_000])
def test_chunks_of_any_size_give_the_same_facts(size: int, catalog: Catalog) -> None:
    data = (FIXTURES / "story" / "step6-triton-default.log").read_bytes()
    table = (FIXTURES / "story" / "step4-clean-gpus.txt").read_bytes()
    data = data + table + data.split(b"\n", 1)[1]
    whole = contents(read(catalog, data))
    reader = Reader(catalog, "log")
    line = 1
    while data:
        end = data.find(b"\n", size) + 1 or len(data)
        reader.feed(data[:end], line, last=end == len(data))
        line += data[:end].count(b"\n")
        data = data[end:]
    assert contents(reader.reading) == whole


def diagnosis_of(catalog: Catalog, names: list[str]) -> Diagnosis:
    readings = []
    for name in names:
        reader = Reader(catalog, name)
        reader.feed((FIXTURES / "story" / name).read_bytes(), 1, last=True)
        readings.append(reader.reading)
    return judge_readings(readings, catalog.pack).diagnosis


def test_the_order_of_files_does_not_matter(catalog: Catalog) -> None:
    names = ["step6-triton-default.log", "step4-clean-gpus.txt", "step3b-old-toolkit.log"]
    wanted = diagnosis_of(catalog, names).to_json()
    for seed in range(4):
        random.Random(seed).shuffle(names)
        assert diagnosis_of(catalog, names).to_json() == wanted
