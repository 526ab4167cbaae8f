"""nvidia-smi: every fact that the index of the composed samples states, read through the parsers."""

import doctest
import importlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from diagnoser.facts.base import Fact
from diagnoser.facts.gpu import Gpu
from diagnoser.facts.registry import kinds
from diagnoser.parsers import kernel
from diagnoser.parsers.base import Parser
from diagnoser.parsers.nvidia_smi import PARSERS

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "gpu_host"
OWN = "TQXCPNLDF"
SAMPLES = [s for s in json.loads((FOLDER / "index.json").read_text())["samples"] if s["id"][0] in OWN]
CASES = [(s["file"], fact["field"], fact["value"]) for s in SAMPLES for fact in s["facts"]]


def read(text: str, parsers: tuple[Parser, ...] = PARSERS) -> list[Fact]:
    """All facts of a text: blocks first, then the statements of its lines."""
    lines = text.split("\n")
    facts: list[Fact] = []
    for parser in parsers:
        end = 0
        for i, line in enumerate(lines):
            if i < end or not any(literal in line for literal in parser.literals):
                continue
            if parser.extent is None:
                facts += [found.fact for found in parser.parse(lines, i)]
            elif (block := parser.extent(lines, i)) is not None:
                facts += [found.fact for found in parser.parse(lines[block.start : block.stop], 0)]
                end = block.stop
    return facts


REASONS = {
    "idle": "reason_idle",
    "sw_power_cap": "reason_sw_power_cap",
    "hw_slowdown": "reason_hw_slowdown",
    "hw_thermal": "reason_hw_thermal",
    "hw_power_brake": "reason_hw_power_brake",
    "sw_thermal": "reason_sw_thermal",
    "mask": "reasons_mask",
}

GPU_FIELDS = {
    **{f"pcie.{name}": f"pcie_{name}" for name in ("gen_current", "gen_max", "width_current", "width_max")},
    **{f"clock_reasons.{name}": field for name, field in REASONS.items()},
    **{f"remap.{name}": f"remap_{name}" for name in ("pending", "failure", "correctable")},
    **{f"retired.{name}": f"retired_{name}" for name in ("pending", "single_bit", "double_bit")},
    **{f"fabric.{name}": f"fabric_{name}" for name in ("state", "status")},
    "clock_reasons_counters_us.sw_power_cap": "counter_sw_power_cap_us",
    "clocks.sm_mhz": "clock_sm_mhz",
    "clocks.sm_max_mhz": "clock_sm_max_mhz",
    "fb.reserved_mib": "memory_reserved_mib",
    "remap.histogram.none": "remap_banks_none",
    "ecc.volatile.dram_correctable": "ecc_volatile_dram_corr",
    "ecc.volatile.dram_uncorrectable": "ecc_volatile_dram_uncorr",
    "ecc.volatile.sram_uncorrectable": "ecc_volatile_sram_uncorr",
    "ecc.volatile.double_bit_total": "ecc_volatile_double_bit",
    "ecc.aggregate.dram_uncorrectable": "ecc_aggregate_dram_uncorr",
    "app_clock_mhz": "clock_app_mhz",
    "power_draw_w": "power_w",
}
GROUPS = {
    "clock_reasons": tuple(REASONS.values()),
    "remap": ("remap_pending", "remap_failure", "remap_correctable"),
}


def of(facts: list[Fact], kind: str, **where: Any) -> list[Any]:
    """Facts of a kind with these field values, in the order of the text."""
    found = [fact for fact in facts if fact.kind == kind]
    return [fact for fact in found if all(getattr(fact, name) == value for name, value in where.items())]


def gpu_value(gpu: Any, field: str) -> Any:
    if field in GROUPS:
        shown = [getattr(gpu, name) for name in GROUPS[field] if getattr(gpu, name) is not None]
        return shown or None
    return getattr(gpu, GPU_FIELDS.get(field, field))


def link(facts: list[Fact], a: str, b: str) -> str:
    a, b = (f"GPU{name}" if name.isdigit() else name for name in (a, b))
    return str(of(facts, "topo_link", a=a, b=b)[0].link)


Getter = Callable[..., Any]
GETTERS: tuple[tuple[str, Getter], ...] = (
    (
        r"(driver_version|cuda_driver_version|nvidia_smi_version)",
        lambda f, name: getattr(of(f, "smi")[0], name),
    ),
    (r"gpu_count|host\.gpu_count", lambda f: of(f, "gpu_set")[0].count),
    (r"xml\.schema", lambda f: of(f, "smi")[0].schema_version),
    (r"environment\.wsl", lambda f: of(f, "smi")[0].wsl),
    (r"smi\.(\w+)", lambda f, name: getattr(of(f, "smi")[0], name)),
    (
        r"lost\[(\d)\]\.(bus|reason)",
        lambda f, i, n: getattr(of(f, "lost_gpu")[int(i)], "bus_id" if n == "bus" else n),
    ),
    (r"gpus\[(\d)\]\.mig\.count", lambda f, i: len(of(f, "mig_instance", gpu_index=int(i)))),
    (
        r"gpus\[(\d)\]\.mig\[(\d)\]\.(\w+)",
        lambda f, i, j, n: getattr(of(f, "mig_instance", gpu_index=int(i))[int(j)], n),
    ),
    (
        r"gpus\[(\d)\]\.gi\[(\d)\]\.(\w+)",
        lambda f, i, gi, n: getattr(of(f, "mig_instance", gpu_index=int(i), gi=int(gi))[0], n),
    ),
    (r"gpus\[(\d)\]\.nvlink\.active", lambda f, i: of(f, "nvlink", gpu_index=int(i))[0].active),
    (r"gpus\[(\d)\]\.nvlink\.inactive", lambda f, i: list(of(f, "nvlink", gpu_index=int(i))[0].inactive)),
    (
        r"gpus\[(\d)\]\.nvlink\.link\[(\d)\]\.(\w+)",
        lambda f, i, j, n: getattr(of(f, "nvlink_errors", gpu_index=int(i), link=int(j))[0], n),
    ),
    (r"gpus\[(\d)\]\.(.+)", lambda f, i, name: gpu_value(of(f, "gpu")[int(i)], name)),
    (r"gpus\[\*\]\.(.+)", lambda f, name: {gpu_value(gpu, name) for gpu in of(f, "gpu")}),
    (r"processes", lambda f: of(f, "gpu_process") if of(f, "gpu_process_list") else "no list"),
    (r"processes\.count", lambda f: of(f, "gpu_process_list")[0].listed),
    (r"processes\[(\d)\]\.(\w+)", lambda f, i, name: getattr(of(f, "gpu_process")[int(i)], name)),
    (r"topo\.(gpu_count|has_nvlink)", lambda f, name: getattr(of(f, "topology")[0], name)),
    (r"topo\.link\[(\w+)\]\[(\w+)\]", link),
    (r"topo\.numa\[(\d)\]", lambda f, i: of(f, "topo_gpu", gpu_index=int(i))[0].numa),
    (r"topo\.nics\.(\w+)", lambda f, name: dict(of(f, "topology")[0].nics)[name]),
    (r"topo\.p2p\[(\d)\]\[(\d)\]", lambda f, a, b: of(f, "p2p_link", a=int(a), b=int(b))[0].status),
    (r"dmon\[(\d)\]\.(\w+)", lambda f, i, name: getattr(of(f, "gpu_sample")[int(i)], name)),
    (r"pmon\[(\d)\]\.(\w+)", lambda f, i, name: getattr(of(f, "gpu_process_sample")[int(i)], name)),
    (
        r"kernel\.rm_init_failed\.(\w+)",
        lambda f, name: next(filter(None, (getattr(x, name) for x in of(f, "gpu_init_failed")))),
    ),
)


def value_of(facts: list[Fact], field: str) -> Any:
    """What the facts say about a field of the index."""
    for pattern, getter in GETTERS:
        if match := re.fullmatch(pattern, field):
            return getter(facts, *match.groups())
    raise AssertionError(f"the index has a field that no fact covers: {field}")


@pytest.mark.parametrize(("file", "field", "value"), CASES, ids=[f"{c[0][:3]}-{c[1]}" for c in CASES])
def test_index(file: str, field: str, value: Any) -> None:
    facts = read((FOLDER / file).read_text(encoding="utf-8"), (*PARSERS, *kernel.PARSERS))
    expected = {value} if field.startswith("gpus[*]") else value
    assert value_of(facts, field) == expected


def test_index_is_covered() -> None:
    assert len(SAMPLES) == 49
    assert {s["file"] for s in SAMPLES} == {
        p.name for p in FOLDER.iterdir() if p.name[0].upper() in OWN and p.name[1:3].isdigit()
    }


def judged(file: str) -> tuple[list[Any], Any]:
    facts = read((FOLDER / file).read_text(encoding="utf-8"))
    return of(facts, "gpu"), next(iter(of(facts, "gpu_set")), None)


DERIVED: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("t02_table_450_t4_idle.txt", 0, {"arch": "sm75", "under_load": False, "unowned_memory": False}),
    ("t03_table_470_truncated_names.txt", 0, {"arch": "sm80", "name": None, "unowned_memory": False, "processes": 1}),
    ("t05_table_530_no_space_before_pipe.txt", 0, {"unowned_memory": True, "ecc_enabled": False, "power_at_cap": True}),
    ("t08_table_580_8x_rtxpro6000_busy.txt", 0, {"power_at_cap": False, "under_load": True, "arch": "sm120"}),
    ("t11_table_wsl_cuda_err.txt", 0, {"arch": "sm86", "unowned_memory": None}),
    ("t13_table_590_mig.txt", 0, {"mig_enabled": True, "unowned_memory": None, "ecc_enabled": None}),
    ("t14_table_vgpu_guest.txt", 0, {"is_vgpu": True, "state": "ok", "arch": "sm89"}),
    ("t15_table_zombie_memory.txt", 1, {"unowned_memory": True, "mem_used_gib": 60.42}),
    ("t16_table_550_domain1_ecc2_capped.txt", 0, {"power_at_cap": True, "pci": "0001:04:00"}),
    ("q01_q_595_rtxpro6000_idle_gen1.txt", 0, {"under_load": False, "link_gen_below_limit": True, "edition": "server"}),
    ("q01_q_595_rtxpro6000_idle_gen1.txt", 0, {"link_gen_limit": 5, "throttled": False, "power_below_default": False}),
    ("q02_q_595_rtxpro6000_load_stuck_gen2.txt", 0, {"under_load": True, "link_below_limit": True, "reasons": ()}),
    ("q02_q_595_rtxpro6000_load_stuck_gen2.txt", 0, {"link_bandwidth_share": 0.127, "link_width_below_max": False}),
    ("q03_q_595_pcie_x8_load.txt", 0, {"link_width_below_max": True, "link_bandwidth_share": 0.5}),
    ("q04_q_595_power_cap_300.txt", 0, {"power_limit_share": 0.5, "power_below_default": True, "power_at_cap": True}),
    ("q05_q_535_h100_hw_thermal.txt", 0, {"throttled_thermal": True, "thermal_limit_reached": True}),
    ("q05_q_535_h100_hw_thermal.txt", 0, {"reasons": ("hw_slowdown", "hw_thermal"), "clock_share": 0.432}),
    ("q06_q_525_a100_power_brake.txt", 0, {"throttled_hw": True, "throttled_thermal": False, "under_load": True}),
    ("q07_q_510_row_remap_pending.txt", 0, {"ecc_uncorr_volatile": 0, "ecc_corr_volatile": 177}),
    ("q08_q_580_remap_failure.txt", 0, {"ecc_uncorr_volatile": 3, "ecc_uncorr_aggregate": 7, "reset_needed": True}),
    ("q09_q_440_page_retirement_pending.txt", 0, {"ecc_uncorr_volatile": 1, "ecc_enabled": True, "arch": "sm60"}),
    ("q10_q_610_nested_power_limit.txt", 0, {"power_share": 0.998, "power_below_default": True, "power_min_w": 400.0}),
    ("q11_q_vgpu_guest_unlicensed.txt", 0, {"is_vgpu": True, "vgpu_unlicensed": True, "link_below_limit": None}),
    ("q12_q_fabric_in_progress.txt", 0, {"fabric_ok": False, "under_load": None}),
    ("x01_xml_v11_throttle_names.xml", 0, {"throttled_thermal": True, "link_width_below_max": True}),
    ("x02_xml_v12_535.xml", 0, {"reset_needed": True, "ecc_uncorr_volatile": 1, "power_below_default": True}),
    ("x03_xml_v13_595.xml", 0, {"power_w": 8.81, "throttled": False, "reset_needed": False}),
    ("c01_query_gpu_units.csv", 1, {"reasons": ("hw_slowdown", "hw_thermal"), "reason_sw_thermal": False}),
    ("c01_query_gpu_units.csv", 1, {"reasons_unknown_bits": None, "clock_share": 0.488, "under_load": True}),
    ("c02_query_gpu_nounits_quirks.csv", 0, {"state": "ok", "arch": "sm37", "compute_mode": "Default"}),
    ("c02_query_gpu_nounits_quirks.csv", 3, {"reset_needed": True, "edition": "workstation"}),
)  # fmt: skip


@pytest.mark.parametrize(("file", "index", "values"), DERIVED)
def test_derived(file: str, index: int, values: dict[str, Any]) -> None:
    gpu = judged(file)[0][index]
    assert {name: getattr(gpu, name) for name in values} == values


SETS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("t04_table_525_err_row.txt", {"count": 4, "bad_count": 1, "faultless": False, "clean": False}),
    (
        "t06_table_535_h100_uneven.txt",
        {"uneven": True, "util_min_pct": 0, "util_max_pct": 100, "power_ratio": 6.04},
    ),
    ("t06_table_535_h100_uneven.txt", {"processes": 2, "unowned_count": 0, "container_possible": False}),
    (
        "t07_table_580_8x_rtxpro6000_idle.txt",
        {"clean": True, "all_idle": True, "all_empty": True, "processes": 0},
    ),
    (
        "t07_table_580_8x_rtxpro6000_idle.txt",
        {"names_equal": True, "arch": "sm120", "container_possible": None},
    ),
    (
        "t08_table_580_8x_rtxpro6000_busy.txt",
        {"clean": False, "faultless": True, "uneven": False, "loaded_count": 8},
    ),
    ("t13_table_590_mig.txt", {"uneven": None, "unowned_count": None, "mig_count": 1}),
    (
        "t15_table_zombie_memory.txt",
        {"unowned_count": 1, "unowned_mib": 61873, "container_possible": True, "uneven": None},
    ),
    ("t16_table_550_domain1_ecc2_capped.txt", {"faultless": False, "persistence_off_count": 1}),
    ("q07_q_510_row_remap_pending.txt", {"count": 2, "attached": 2, "faultless": False}),
    (
        "c01_query_gpu_units.csv",
        {"throttled_count": 1, "clock_sm_min_mhz": 1185, "temp_max_c": 84, "processes": None},
    ),
    (
        "c02_query_gpu_nounits_quirks.csv",
        {"count": 6, "bad_count": 2, "names_equal": False, "mixed_arch": True},
    ),
    ("l01_smi_L_mig.txt", {"count": 2, "faultless": None, "clean": None, "mig_count": 1}),
)


@pytest.mark.parametrize(("file", "values"), SETS)
def test_sets(file: str, values: dict[str, Any]) -> None:
    gpu_set = judged(file)[1]
    assert {name: getattr(gpu_set, name) for name in values} == values


def test_the_story_of_power_and_nvlink_summaries() -> None:
    nvlink = of(read((FOLDER / "n01_nvlink_s_one_inactive.txt").read_text()), "nvlink")
    assert [(gpu.down, gpu.expected, gpu.rate_gb_s) for gpu in nvlink] == [(1, 18, 26.562), (18, 18, None)]
    pcie = of(read((FOLDER / "p01_topo_m_8x_pcie_ansi.txt").read_text()), "topology")[0]
    assert (pcie.pcie_only, pcie.pairs_pix, pcie.pairs_node, pcie.pairs_sys, pcie.numa_nodes) == (
        True,
        4,
        8,
        16,
        2,
    )
    switch = of(read((FOLDER / "p02_topo_m_nv18_nics_spaces.txt").read_text()), "topology")[0]
    assert (switch.pcie_only, switch.nvlinks_min, switch.nic_count, switch.worst) == (False, 18, 2, "NV")
    p2p = of(read((FOLDER / "p03_topo_p2p_rw.txt").read_text()), "p2p_matrix")[0]
    assert (p2p.all_ok, p2p.statuses, p2p.refused_pairs) == (False, ("GNS",), 1)


def test_only_the_container_has_an_unknown_nvml_error() -> None:
    facts = read((FOLDER / "f05_nvml_unknown_error_container.txt").read_text())
    assert not of(facts, "lost_gpu")
    assert of(facts, "gpu")[0].name == "NVIDIA A10"


def modules() -> Iterator[str]:
    for path in sorted(
        (Path(__file__).resolve().parents[2] / "diagnoser" / "parsers" / "nvidia_smi").glob("*.py")
    ):
        yield f"diagnoser.parsers.nvidia_smi.{path.stem}".removesuffix(".__init__")


@pytest.mark.parametrize("name", list(modules()))
def test_docstrings(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_each_form_shows_an_example() -> None:
    forms = ("table", "query", "xml", "csv", "topo", "nvlink", "listing", "mon", "failure")
    for form in forms:
        assert ">>> " in (importlib.import_module(f"diagnoser.parsers.nvidia_smi.{form}").__doc__ or "")


def test_contract() -> None:
    names = [parser.name for parser in PARSERS]
    assert len(set(names)) == len(names)
    assert all(len(literal) >= 4 for parser in PARSERS for literal in parser.literals)
    assert all((parser.extent is None) == (parser.document is None) for parser in PARSERS)
    assert {
        "gpu",
        "gpu_process",
        "gpu_set",
        "smi",
        "lost_gpu",
        "topo_link",
        "nvlink",
        "gpu_series",
    } <= kinds().keys()
    assert len({Gpu(index=0), Gpu(index=0), Gpu(index=1)}) == 2
