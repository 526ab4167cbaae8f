"""What a real H200 printed idle, busy and with memory held: every form reads the same card."""

from pathlib import Path
from typing import Any

import pytest

from diagnoser.facts.base import Fact
from diagnoser.parsers.nvidia_smi import PARSERS

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "captures" / "h200"


def facts_of(name: str, form: str) -> list[Fact]:
    """The facts of a capture that is one block of one form."""
    lines = (FOLDER / name).read_text(encoding="utf-8").split("\n")
    parser = next(parser for parser in PARSERS if parser.name == f"nvidia_smi_{form}")
    assert parser.extent is not None
    start = next(i for i, line in enumerate(lines) if any(literal in line for literal in parser.literals))
    block = parser.extent(lines, start)
    assert block is not None
    return [found.fact for found in parser.parse(lines[block.start : block.stop], 0)]


def one(facts: list[Fact], kind: str) -> Any:
    return next(fact for fact in facts if fact.kind == kind)


def shown(fact: Any, names: dict[str, Any]) -> dict[str, Any]:
    return {name: getattr(fact, name) for name in names}


COMMON = {
    "name": "NVIDIA H200",
    "arch": "sm90",
    "pstate": "P0",
    "persistence_mode": True,
    "state": "ok",
    "mig_mode": "Disabled",
}
LINK = {
    "pcie_gen_current": 5,
    "pcie_gen_max": 5,
    "pcie_width_current": 16,
    "pcie_width_max": 16,
    "link_below_limit": False,
}

CAPTURES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "idle/table.txt",
        "table",
        {"power_w": 106, "memory_used_mib": 0, "util_pct": 0, "temp_c": 34, "under_load": False},
    ),
    (
        "idle/q.txt",
        "query",
        {"power_w": 98.17, "power_inst_w": 77.81, "reason_idle": True, "reasons": (), **LINK},
    ),
    (
        "idle/q.txt",
        "query",
        {"memory_reserved_mib": 616, "counter_sw_power_cap_us": 0, "pcie_replays": 2, "processes": 0},
    ),
    (
        "idle/q.xml",
        "xml",
        {"power_w": 92.95, "power_inst_w": 77.47, "reason_idle": True, "clock_sm_max_mhz": 1980, **LINK},
    ),
    (
        "idle/query.csv",
        "query_gpu",
        {"power_w": 88.31, "reasons_mask": 1, "reason_idle": True, "clock_sm_mhz": 435, **LINK},
    ),
    (
        "busy/table.txt",
        "table",
        {"power_w": 693, "memory_used_mib": 1651, "util_pct": 100, "temp_c": 57, "under_load": True},
    ),
    (
        "busy/q.txt",
        "query",
        {"power_w": 694.43, "reason_sw_power_cap": True, "reasons": ("sw_power_cap",), "util_pct": 100},
    ),
    (
        "busy/q.txt",
        "query",
        {"counter_sw_power_cap_us": 6280292, "power_at_cap": True, "power_capped_early": False},
    ),
    (
        "busy/q.txt",
        "query",
        {"temp_headroom_c": 30, "temp_memory_c": 46, "remap_banks_max": 3072, "pcie_rx_kb_s": 15781},
    ),
    (
        "busy/q.xml",
        "xml",
        {"clock_sm_mhz": 1470, "reason_sw_power_cap": True, "remap_banks_max": 3072, "processes": 1},
    ),
    (
        "busy/query.csv",
        "query_gpu",
        {"reasons_mask": 4, "clock_sm_mhz": 1455, "clock_share": 0.735, "power_share": 0.987},
    ),
    (
        "held/table.txt",
        "table",
        {"memory_used_mib": 41487, "util_pct": 0, "under_load": False, "unowned_memory": False},
    ),
    (
        "held/q.txt",
        "query",
        {"memory_used_mib": 41487, "clock_sm_mhz": 1980, "reason_idle": False, "under_load": False},
    ),
    (
        "held/query.csv",
        "query_gpu",
        {"memory_used_mib": 41487, "clock_share": 1.0, "under_load": False, "reasons": ()},
    ),
)


@pytest.mark.parametrize(("name", "form", "values"), CAPTURES)
def test_gpu(name: str, form: str, values: dict[str, Any]) -> None:
    gpu = one(facts_of(name, form), "gpu")
    expected = COMMON | values
    assert shown(gpu, expected) == expected


@pytest.mark.parametrize("state", ["idle", "busy", "held"])
@pytest.mark.parametrize(("file", "form"), [("table.txt", "table"), ("q.txt", "query"), ("q.xml", "xml")])
def test_versions(state: str, file: str, form: str) -> None:
    smi = one(facts_of(f"{state}/{file}", form), "smi")
    assert (smi.driver_version, smi.driver_branch, smi.cuda_driver_version) == ("580.159.04", 580, "13.0")
    assert (smi.status, smi.gpu_count, smi.wsl) == ("ok", 1, None)


@pytest.mark.parametrize(("state", "pid", "mib"), [("busy", 446, 1642), ("held", 511, 41478)])
@pytest.mark.parametrize(
    ("file", "form"),
    [("table.txt", "table"), ("q.txt", "query"), ("q.xml", "xml"), ("apps.csv", "query_apps")],
)
def test_processes(state: str, pid: int, mib: int, file: str, form: str) -> None:
    facts = facts_of(f"{state}/{file}", form)
    process = one(facts, "gpu_process")
    assert (process.pid, process.name, process.memory_mib) == (pid, "python3", mib)
    assert one(facts, "gpu_process_list").listed == 1


@pytest.mark.parametrize(("file", "form"), [("table.txt", "table"), ("q.txt", "query"), ("q.xml", "xml")])
def test_clean_only_when_idle_and_empty(file: str, form: str) -> None:
    sets = {state: one(facts_of(f"{state}/{file}", form), "gpu_set") for state in ("idle", "busy", "held")}
    assert [sets[state].clean for state in ("idle", "busy", "held")] == [True, False, False]
    assert sets["idle"].faultless
    assert sets["held"].faultless
    # At the power cap under full draw: normal, and the table does not show it.
    assert sets["busy"].faultless


def test_empty_list_of_processes() -> None:
    assert one(facts_of("idle/apps.csv", "query_apps"), "gpu_process_list").listed == 0


def test_remapped_rows() -> None:
    gpu = one(facts_of("idle/remap.csv", "query_gpu"), "gpu")
    assert shown(gpu, {"remap_correctable": 0, "remap_pending": 0, "pci": 0}) == {
        "remap_correctable": 0,
        "remap_pending": False,
        "pci": "0000:00:06",
    }


@pytest.mark.parametrize(
    ("state", "median_w", "sm", "clock"),
    [("idle", 76, 0, 345), ("busy", 690, 100, 1440), ("held", 117, 0, 1980)],
)
def test_samples(state: str, median_w: int, sm: int, clock: int) -> None:
    facts = facts_of(f"{state}/dmon.txt", "dmon")
    series = one(facts, "gpu_series")
    assert (series.samples, series.power_median_w, series.util_max_pct) == (3, median_w, sm)
    assert series.clock_sm_min_mhz == clock
    assert len([fact for fact in facts if fact.kind == "gpu_sample"]) == 3


def test_process_samples_and_topology() -> None:
    sample = one(facts_of("busy/pmon.txt", "pmon"), "gpu_process_sample")
    assert (sample.pid, sample.type, sample.sm_pct, sample.command) == (446, "C", 99, "python3")
    facts = facts_of("idle/topo.txt", "topo")
    place = one(facts, "topo_gpu")
    assert (place.gpu_index, place.numa, place.cpu_affinity) == (0, 0, "0-15")
    topology = one(facts, "topology")
    assert (topology.gpu_count, topology.has_nvlink, topology.pcie_only) == (1, False, False)


def test_listing() -> None:
    gpu = one(facts_of("idle/L.txt", "listing"), "gpu")
    assert (gpu.index, gpu.name, gpu.uuid) == (0, "NVIDIA H200", "GPU-00000000-0000-4000-8000-000000000001")
