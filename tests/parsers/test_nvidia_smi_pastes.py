"""nvidia-smi in the middle of logs, in pieces, and damaged by pasting: what is read and where a block ends."""

import html
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from diagnoser.facts.base import Fact
from diagnoser.parsers.nvidia_smi import PARSERS

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "gpu_host"

BEFORE = "INFO 05-10 16:06:36 metrics.py:361] Avg prompt throughput: 118.2 tokens/s, GPU KV cache usage: 4.5%"
AFTER = '[GIN] 2026/05/02 - 10:11:18 | 200 |  1m10s |       127.0.0.1 | POST     "/api/generate"'


class Block(NamedTuple):
    """A block found in a text: lines first to last (from 0, inclusive) and its facts."""

    name: str
    first: int
    last: int
    facts: list[Fact]


def blocks(text: str) -> list[Block]:
    lines = text.split("\n")
    found = []
    for parser in PARSERS:
        end = 0
        for i, line in enumerate(lines):
            if parser.extent is None or i < end or not any(literal in line for literal in parser.literals):
                continue
            block = parser.extent(lines, i)
            if block is None:
                continue
            assert i in block
            facts = [found.fact for found in parser.parse(lines[block.start : block.stop], 0)]
            found.append(Block(parser.name.removeprefix("nvidia_smi_"), block.start, block.stop - 1, facts))
            end = block.stop
    return sorted(found, key=lambda block: block.first)


def only(text: str) -> Block:
    found = blocks(text)
    assert len(found) == 1, found
    return found[0]


def one(block: Block, kind: str) -> Any:
    return next(fact for fact in block.facts if fact.kind == kind)


def sample(name: str) -> str:
    return next(FOLDER.glob(f"{name}_*")).read_text(encoding="utf-8").rstrip("\n")


def kinds_of(block: Block) -> set[str]:
    return {fact.kind for fact in block.facts}


def test_header_line_alone() -> None:
    line = "| NVIDIA-SMI 595.91.07              Driver Version: 595.91.07      CUDA Version: 13.2     |"
    block = only(f"{BEFORE}\n{line}\n{AFTER}")
    assert (block.name, block.first, block.last, kinds_of(block)) == ("table", 1, 1, {"smi"})
    smi = one(block, "smi")
    assert (smi.driver_version, smi.cuda_driver_version, smi.gpu_count, smi.mig_row) == (
        "595.91.07",
        "13.2",
        None,
        None,
    )


def test_short_driver_version() -> None:
    smi = one(only("| NVIDIA-SMI 525   Driver Version: 525   CUDA Version: 12.2     |"), "smi")
    assert (smi.driver_version, smi.driver_branch, smi.wsl) == ("525", 525, None)


def test_reset_status_alone() -> None:
    text = "    GPU Reset Status\n        Reset Required                    : Yes\n"
    text += "        Drain and Reset Recommended       : No"
    block = only(f"{BEFORE}\n{text}\n{AFTER}")
    assert (block.name, block.first, block.last) == ("query", 1, 3)
    gpu = one(block, "gpu")
    assert (gpu.reset_required, gpu.drain_and_reset_recommended, gpu.reset_needed) == (True, False, True)
    assert kinds_of(block) == {"gpu"}  # a fragment does not tell how many GPUs there are


def test_clock_reasons_alone() -> None:
    text = """    Performance State                     : P2
    Clocks Event Reasons
        Idle                              : Not Active
        SW Power Cap                      : Active
        HW Slowdown                       : Not Active
        SW Thermal Slowdown               : Not Active
    GPU Current Temp                  : 77 C"""
    block = only(f"{AFTER}\n{text}\n{BEFORE}")
    gpu = one(block, "gpu")
    assert (block.first, block.last) == (1, 7)
    assert (gpu.pstate, gpu.temp_c, gpu.reasons, gpu.reason_sw_thermal, gpu.reason_hw_thermal) == (
        "P2", 77, ("sw_power_cap",), False, None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("        Reset Required                    : Yes", "reset_required", True),
        ("            HW Power Brake Slowdown           : Active", "reason_hw_power_brake", True),
        ("        Enforced Power Limit              : 250.00 W", "power_limit_w", 250.0),
        ("    GPU Recovery Action                   : Drain P2P", "recovery_action", "Drain P2P"),
        ("        Remapping Failure Occurred        : Yes", "remap_failure", True),
        ("        Pending Page Blacklist            : Yes", "retired_pending", True),
        ("    Persistence Mode                      : Disabled", "persistence_mode", False),
    ],
)
def test_single_lines_of_the_tree(line: str, field: str, value: Any) -> None:
    block = only(f"{BEFORE}\n{line}\n{AFTER}")
    assert (block.first, block.last) == (1, 1)
    assert getattr(one(block, "gpu"), field) == value


def test_columns_from_the_command_line() -> None:
    text = """$ nvidia-smi --query-gpu=index,name,driver_version,memory.used --format=csv,noheader
0, NVIDIA A100 MIG, TP=2, 570.133.20, 424 MiB
1, NVIDIA A100 MIG, TP=2, 570.133.20, 230 MiB
WARNING 01-21 08:05:07 config.py:1005] Casting torch.bfloat16 to torch.float16."""
    block = only(text)
    assert (block.name, block.first, block.last) == ("query_gpu", 0, 2)
    gpus: list[Any] = [fact for fact in block.facts if fact.kind == "gpu"]
    assert [(gpu.index, gpu.arch, gpu.memory_used_mib) for gpu in gpus] == [
        (0, "sm80", 424),
        (1, "sm80", 230),
    ]
    assert one(block, "smi").driver_version == "570.133.20"
    assert one(block, "gpu_set").count == 2


def test_two_commands_are_two_blocks() -> None:
    command = "$ nvidia-smi --query-gpu=index,name,memory.used --format=csv,noheader"
    text = f"{command}\n0, NVIDIA A100, 855 MiB\n{command}\n0, NVIDIA A100, 357 MiB\n{BEFORE}"
    found = blocks(text)
    assert [(block.first, block.last) for block in found] == [(0, 1), (2, 3)]


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("NVIDIA mixed GPUs", None),
        ("NVIDIA RTX 5090 + RTX 4090 + RTX 3090", None),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q", "sm120"),
        ("NVIDIA RTX 5090D", "sm120"),
        ("NVIDIA GB10", "sm121"),
        ("NVIDIA A10G 24GB", "sm86"),
        ("NVIDIA H800", "sm90"),
        ("NVIDIA B200", "sm100"),
        ("NVIDIA Tesla", None),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "sm89"),
        ("NVIDIA RTX 6000 Ada Generation", "sm89"),
        ("NVIDIA H100 MIG 2g.20gb", "sm90"),
        ("NVIDIA GH200 480GB", "sm90"),
        ("NVIDIA GB300", "sm103"),
        ("Tesla V100-SXM2-32GB", "sm70"),
        ("NVIDIA L4", "sm89"),
    ],
)
def test_architectures(name: str, arch: str | None) -> None:
    text = f"$ nvidia-smi --query-gpu=index,name --format=csv,noheader\n0, {name}"
    assert one(only(text), "gpu").arch == arch


def test_header_with_the_command_above() -> None:
    text = "user@host:~$ nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv\n"
    text += "name, compute_cap, driver_version\nNVIDIA Graphics Device, 12.1, 580.95.05\nLoading model"
    block = only(text)
    assert (block.first, block.last) == (0, 2)
    assert one(block, "gpu").arch == "sm121"


def test_a_single_column_needs_its_command() -> None:
    block = only(
        "$ nvidia-smi --query-gpu=driver_version --format=csv\ndriver_version\n580.95.05\nLoading model"
    )
    assert (block.first, block.last) == (0, 2)
    assert one(block, "smi").driver_version == "580.95.05"
    assert blocks("driver_version\nvbios_version\npersistence_mode\npower.draw\n") == []


def test_a_sampled_query_gives_a_series() -> None:
    head = (
        "index, pcie.link.gen.gpucurrent, pcie.link.gen.gpumax, pcie.link.gen.hostmax, utilization.gpu [%]\n"
    )
    rows = [
        (2, 100),
        (2, 99),
        (5, 98),
        (2, 100),
        (2, 100),
        (2, 97),
        (1, 0),
        (5, 90),
        (2, 95),
        (2, 95),
        (5, 0),
    ]
    block = only(head + "\n".join(f"0, {gen}, 5, 5, {util} %" for gen, util in rows))
    series = one(block, "gpu_series")
    assert (series.samples, series.loaded, series.link_low_run) == (11, 9, 3)
    assert len([fact for fact in block.facts if fact.kind == "gpu"]) <= 8
    assert one(block, "gpu_set").count == 1


@pytest.mark.parametrize(
    "name", ["t03", "t07", "t13", "t15", "q01", "q07", "x01", "x03", "c01", "p01", "p02", "n01", "l01", "d01"]
)
def test_a_block_ends_before_the_log_goes_on(name: str) -> None:
    text = sample(name)
    alone = only(text)
    inside = only(f"{BEFORE}\n{text}\n{AFTER}\n{BEFORE}")
    assert (inside.first, inside.last) == (alone.first + 1, alone.last + 1)
    assert inside.facts == alone.facts
    assert alone.last == len(text.split("\n")) - 1


@pytest.mark.parametrize(
    "name",
    ["t01", "t06", "t08", "t12", "t13", "q01", "q10", "x02", "c01", "c03", "p02", "n01", "l01", "l02", "d02"],
)
def test_pasting_does_no_harm(name: str) -> None:
    text = sample(name)
    want = only(text).facts
    damages = {
        "windows line ends": text.replace("\n", "\r\n"),
        "escaped pipes": text.replace("|", "\\|"),
        "colours": "\n".join(f"\x1b[32m{line}\x1b[0m" if line else line for line in text.split("\n")),
        "trailing blanks cut": "\n".join(line.rstrip() for line in text.split("\n")),
        "tabs to blanks": text.replace("\t", "    "),
    }
    for damage, pasted in damages.items():
        assert only(pasted).facts == want, damage


@pytest.mark.parametrize("name", ["x01", "n01"])
def test_html_escapes(name: str) -> None:
    text = sample(name)
    assert only(html.escape(text, quote=False)).facts == only(text).facts


def test_several_tables_in_one_paste() -> None:
    text = "\n".join([sample("t07"), sample("t08"), "", "Every 1.0s: nvidia-smi", "", sample("t15")])
    found = blocks(text)
    assert [block.name for block in found] == ["table"] * 3
    assert [one(block, "gpu_set").processes for block in found] == [0, 8, 0]


def test_two_trees_in_one_paste() -> None:
    found = blocks(sample("q01") + "\n" + sample("q02"))
    assert [one(block, "gpu").util_pct for block in found] == [0, 100]


@pytest.mark.parametrize("columns", [66, 70, 80, 86])
def test_a_table_cut_on_the_right(columns: int) -> None:
    block = only("\n".join(line[:columns] for line in sample("t08").split("\n")))
    gpu = one(block, "gpu")
    assert (gpu.index, gpu.bus_id, gpu.power_w, gpu.pstate) == (0, "00000000:06:00.0", 318.0, "P1")
    assert gpu.memory_used_mib == 91338
    assert (gpu.util_pct, gpu.ecc_uncorr_volatile) == (None, None)
    assert one(block, "smi").cuda_driver_version == ("13.0" if columns > 90 else None)
    process = one(block, "gpu_process")
    assert (process.pid, process.name, process.memory_mib) == (2218431, "sglang::scheduler_TP0", None)


def test_a_table_wrapped_at_80_columns() -> None:
    text = sample("t08")
    wrapped = "\n".join(
        part for line in text.split("\n") for part in (line[:80], line[80:]) if part or not line
    )
    assert only(wrapped).facts == only(text).facts


def test_a_table_without_its_head() -> None:
    lines = sample("t15").split("\n")
    block = only("\n".join([BEFORE, *lines[12:20], AFTER]))
    gpu = one(block, "gpu")
    assert (block.first, block.last, gpu.index, gpu.memory_used_mib) == (1, 8, 1, 61873)
    assert one(block, "gpu_set").processes is None


def test_a_tree_without_indentation() -> None:
    flat = "\n".join(line.strip() for line in sample("q01").split("\n"))
    gpu = one(only(f"{BEFORE}\n{flat}\n{AFTER}"), "gpu")
    assert (gpu.pcie_gen_current, gpu.pcie_width_current, gpu.reason_idle, gpu.power_limit_w) == (
        1,
        16,
        False,
        600.0,
    )
    assert gpu.counter_sw_power_cap_us == 182086


def test_a_cut_xml() -> None:
    lines = sample("x02").split("\n")
    gpu = one(only("\n".join([BEFORE, *lines[8:30], AFTER])), "gpu")
    assert (gpu.reset_required, gpu.reason_hw_slowdown) == (True, False)
    start = one(only("\n".join(lines[:24])), "gpu")
    assert (start.bus_id, start.name) == ("00000000:01:00.0", "NVIDIA A100-SXM4-80GB")


@pytest.mark.parametrize(
    "text",
    [
        "| a | b | c |\n|   0  MiB | 12 MiB |",
        "GPU0 GSP RPC timeout",
        "INFO: SW Power Cap is what limits us",
        "    Product Name  is unknown",
        "see nvidia-smi --query-gpu=index,name in the manual",
        "we use GPU 0: NVIDIA H100 80GB HBM3",
        "0.5 GB/s read from disk",
        "3, NVIDIA driver is loaded, all fine; a=b",
        "name, index",
        "# gpu memory is fine",
    ],
)
def test_prose_is_no_block(text: str) -> None:
    assert [block.facts for block in blocks(text)] in ([], [[]])


def failures(text: str) -> list[Any]:
    parser = next(parser for parser in PARSERS if parser.name == "nvidia_smi_failure")
    lines = text.split("\n")
    hits = [i for i, line in enumerate(lines) if any(literal in line for literal in parser.literals)]
    return [found.fact for i in hits for found in parser.parse(lines, i)]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (
            "NVIDIA-SMI has failed because it couldn’t communicate with the NVIDIA driver.",
            "driver_not_loaded",
        ),
        ("Failed to properly shut down NVML: Driver Not Loaded", "driver_not_loaded"),
        ("pynvml.NVMLError_LibRmVersionMismatch: Driver/library version mismatch", "version_mismatch"),
        ("No devices were found", "no_devices"),
        ("Failed to initialize NVML: Insufficient Permissions", "insufficient_permissions"),
        ("Failed to initialize NVML: GPU access blocked by the operating system", "blocked_by_os"),
        ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", "library_not_found"),
        ("bash: nvidia-smi: command not found", "not_installed"),
        ("zsh: command not found: nvidia-smi", "not_installed"),
        ('Field "clocks.foo" is not a valid field to query.', "invalid_field"),
        ("Failed to initialize NVML: Something New", "nvml_error"),
    ],
)
def test_failures(text: str, status: str) -> None:
    assert [fact.status for fact in failures(text)] == [status]


def test_no_failure_in_prose() -> None:
    assert failures("If No devices were found, check the driver. Rename libnvidia-ml.so.") == []


def test_a_script_that_printed_one_form_after_the_other() -> None:
    found = blocks((FOLDER.parent / "captures" / "h200" / "env.txt").read_text(encoding="utf-8"))
    assert [(block.name, block.first, block.last) for block in found] == [
        ("table", 1, 20),
        ("query", 22, 276),
        ("query_gpu", 519, 520),
        ("query_gpu", 521, 522),
        ("query_gpu", 523, 524),
        ("query_gpu", 525, 526),
    ]
    assert [one(block, "gpu").memory_used_mib for block in found[2:]] == [87914, 87860, 87448, 87914]
    assert one(found[0], "gpu_set").clean


def test_forms_do_not_claim_each_other() -> None:
    names = sorted(
        path for path in FOLDER.iterdir() if path.name[0] in "tqxcpnldf" and path.name[1:3].isdigit()
    )
    found = blocks("\n\n".join(path.read_text(encoding="utf-8") for path in names))
    assert all(above.last < below.first for above, below in pairwise(found))
    assert len({block.name for block in found}) == 12
