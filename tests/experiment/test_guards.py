"""The guards on captures of a real H200 and on real lines: what voids, what warns, what is let through, and why."""

import os
from pathlib import Path

import pytest

from diagnoser.experiment.change import Change
from diagnoser.experiment.guards import clean, clocks, identity, trend, window
from diagnoser.experiment.guards.gpus import App, Smi, State
from diagnoser.experiment.guards.launch import LaunchGuard
from diagnoser.experiment.hands import this_machine
from diagnoser.experiment.load.bench import Plan as Load
from diagnoser.experiment.measuring import VoidError
from diagnoser.experiment.results import Identity
from tests.experiment.fake_smi import CAPTURES, install, query

APPS = (CAPTURES / "busy" / "apps.csv").read_text()
CAPTURED = CAPTURES.parent


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files are what nvidia-smi prints; idle at first."""
    folder = install(tmp_path / "bin", query("idle"))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("DIAGNOSER_AUDIT", str(tmp_path / "audit.jsonl"))
    return folder


def now() -> State:
    state = Smi(this_machine()).state()
    assert state is not None
    return state


def busy(smi: Path, **changed: str) -> State:
    (smi / "gpus.csv").write_text(query("busy", **changed))
    (smi / "apps.csv").write_text(APPS)
    return now()


def said(found: object) -> list[tuple[str, str]]:
    return [(one.guard, one.level) for one in found]  # type: ignore[attr-defined]


def test_the_state_of_a_real_gpu(smi: Path) -> None:
    (gpu,) = busy(smi).gpus
    assert (gpu.name, gpu.driver, gpu.memory_used_mib, gpu.temperature_c) == (
        "NVIDIA H200",
        "580.159.04",
        1651,
        57,
    )
    assert (gpu.sm_clock_mhz, gpu.power_w, gpu.reasons, gpu.pcie_gen, gpu.pcie_width) == (
        1455,
        690.96,
        4,
        5,
        16,
    )
    assert now().apps == (App("", 446, "python3"),)


def test_drivers_before_535_are_asked_by_the_former_names(tmp_path: Path, smi: Path) -> None:
    install(smi, query("busy").replace("clocks_event_reasons", "clocks_throttle_reasons"), old=True)
    assert now().gpus[0].reasons == 4


def test_a_machine_without_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("DIAGNOSER_AUDIT", str(tmp_path / "audit.jsonl"))
    assert Smi(this_machine()).state() is None


def test_a_clean_gpu_and_one_that_is_not(smi: Path) -> None:
    idle = now()
    assert clean.before_start(idle, None, None) == []
    used = clean.used_by(idle, busy(smi))
    assert used == {"0"}
    assert said(clean.before_start(now(), used, idle)) == [("gpu-foreign", "void")]
    (smi / "apps.csv").write_text("")
    assert said(clean.before_start(now(), used, idle)) == [("gpu-memory", "void")]  # 1651 MiB of nobody
    assert said(clean.before_start(now(), None, idle)) == [("gpu-memory", "warn")]  # perhaps not our GPU
    (smi / "gpus.csv").write_text(query("idle", memory_used="120"))
    assert said(clean.before_start(now(), used, idle)) == [("gpu-memory", "warn")]
    assert said(clean.before_start(State((), ()), used, idle)) == [("gpu-missing", "void")]


def test_a_stranger_who_comes_while_it_is_measured(smi: Path) -> None:
    ours = busy(smi)
    assert list(clean.strangers([now()], ours, frozenset("0"))) == []
    (smi / "apps.csv").write_text(APPS + "512, trainer, 9000\n")
    (found,) = clean.strangers([now()], ours, frozenset("0"))
    assert (found.level, found.text) == ("void", "trainer (512) computed on the server's GPUs")


@pytest.mark.parametrize(
    ("masks", "expected"),
    [
        (["0x0000000000000000"] * 3, []),
        (["0x0000000000000004"] * 3, []),  # the power cap is normal under load, if both arms have it
        (["0x0000000000000000", "0x0000000000000008"], [("gpu-slowdown", "void")]),
        (["0x0000000000000040"], [("gpu-slowdown", "void")]),
        (["0x0000000000000080"], [("gpu-slowdown", "void")]),
        (["0x0000000000000020"] + ["0x0000000000000000"] * 30, [("gpu-thermal", "warn")]),
        (["0x0000000000000020"] + ["0x0000000000000000"] * 19, [("gpu-thermal", "void")]),
    ],
)
def test_what_held_the_clocks_down(smi: Path, masks: list[str], expected: list[tuple[str, str]]) -> None:
    kinds = {mask: busy(smi, clocks_event_reasons_active=mask) for mask in set(masks)}
    assert said(clocks.held_back([kinds[mask] for mask in masks], frozenset("0"))) == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"clocks_current_sm": "1465"}, []),
        ({"clocks_current_sm": "1425"}, [("gpu-clock", "warn")]),
        ({"clocks_current_sm": "1400"}, [("gpu-clock", "void")]),
        ({"temperature_gpu": "64"}, [("gpu-temperature", "warn")]),
        ({"pcie_link_gen_current": "4"}, [("gpu-changed", "void")]),
        ({"driver_version": "580.200.01"}, [("gpu-changed", "void")]),
        ({"ecc_errors_uncorrected_volatile_total": "1"}, [("gpu-changed", "void")]),
        ({"clocks_event_reasons_active": "0x0000000000000000"}, [("gpu-power-cap", "warn")]),
    ],
)
def test_two_launches_ran_alike(smi: Path, changed: dict[str, str], expected: list[tuple[str, str]]) -> None:
    used = frozenset("0")
    first = clocks.ran([busy(smi)], used)
    assert said(clocks.alike(first, clocks.ran([busy(smi, **changed)], used))) == expected


JIT = "WARNING 12-01 10:00:00 [jit_monitor.py:106] Triton kernel JIT compilation during inference: fused_moe. This causes a latency spike; consider extending warmup to cover this shape/config."
DECODE = "[2026-12-01 10:00:00] Decode batch, #running-req: {}, #token: 700, token usage: 0.00, cuda graph: True, gen throughput (token/s): 200.1, #queue-req: 0, "
RETRACT = "[2026-12-01 10:00:00] KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_tokens_gained: 396, #new_token_ratio: 0.0151 -> 1.0000"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (DECODE.format(1), []),
        (DECODE.format(2), [("foreign-traffic", "void")]),
        (JIT, [("jit", "void")]),
        (RETRACT, [("retract", "warn")]),
        (f"{RETRACT}\n{RETRACT}", [("retract", "void")]),
        ("Traceback (most recent call last):", [("log-error", "void")]),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", [("log-error", "void")]),
        (
            "[2026-12-01 10:00:00] Capture cuda graph begin. This can take up to several minutes.",
            [("graph-capture", "void")],
        ),
    ],
)
def test_what_the_log_says_during_a_run(text: str, expected: list[tuple[str, str]]) -> None:
    assert said(window.judged(text, 1)) == expected


@pytest.mark.parametrize(
    "name", ["sglang_h200/default.log", "cpu_servers/sglang_cpu_059.log", "cpu_servers/vllm_eager.log"]
)
def test_real_servers_at_work_are_no_strangers(name: str) -> None:
    """From "ready" on these logs are of a single client of one stream, or of few."""
    text = (CAPTURED / name).read_text("utf-8", "replace")
    after = text[
        text.index("ready to roll") if "sglang" in name else text.index("Application startup complete") :
    ]
    assert "foreign-traffic" not in [one.guard for one in window.judged(after, 64)]
    assert [one for one in window.judged(after, 64) if one.guard in ("jit", "graph-capture")] == []


def test_runs_that_still_go_somewhere() -> None:
    # The H200 without CUDA graphs: its processors were still waking up.
    assert trend.trending([31.2, 28.0, 25.1, 22.0, 19.5]) is not None
    assert trend.trending([4.865, 4.868, 4.870, 4.872, 4.876]) is None  # rises, but by nothing
    assert trend.trending([5.0, 5.3, 5.1, 5.4, 5.2]) is None  # scatters
    # Theil and Sen by hand: pairs of (0, 1, 3) give 1, 2 and 1.5.
    import math

    assert trend.slope([1.0, math.e, math.e**3]) == pytest.approx(1.5)


def who(**flags: str | int) -> Identity:
    return Identity(url="http://x", engine="sglang", version="0.5.9", model="tiny", flags=dict(flags))


def test_the_same_server_but_for_the_change() -> None:
    change = (Change("set_flag", "--attention-backend", "fa3"),)
    a = who(attention_backend="triton", tp_size=8, random_seed=1, page_size=1)
    assert (
        said(identity.same(a, who(attention_backend="triton", tp_size=8, random_seed=2, page_size=1), ()))
        == []
    )
    b = who(attention_backend="fa3", tp_size=8, random_seed=3, page_size=64)
    assert said(identity.same(a, b, change)) == [("identity", "note")]  # what the backend brings with it
    assert said(identity.same(a, b, ())) == [("identity", "void"), ("identity", "void")]
    assert said(identity.same(a, who(attention_backend="fa3", tp_size=4, page_size=1), change)) == [
        ("identity", "void")
    ]
    assert identity.took(a, b, change) is None
    missed = identity.took(a, a, change)
    assert missed is not None
    assert missed.text.startswith("the change was not applied: the server says attention_backend is triton")


def test_a_launch_is_void_when_its_gpu_is_taken(smi: Path) -> None:
    """What the server left when it ended was its own; a stranger there is waited for, then told."""
    guard = LaunchGuard(Smi(this_machine()), Load(), lambda _: None, clean_s=1.2)
    busy(smi)
    guard.found_running(None)
    guard.stopping()
    (smi / "gpus.csv").write_text(query("idle"))
    (smi / "apps.csv").write_text("")
    guard.before_start("B1")
    busy(smi)
    with pytest.raises(
        VoidError, match=r"B2: gpu-foreign: before the start python3 \(446\) computed on GPU 0"
    ):
        guard.before_start("B2")
