"""Defaults by release, held against what the sources of the releases say."""

from pathlib import Path

import pytest

from diagnoser.agent.regression import explain
from diagnoser.agent.session import Options
from diagnoser.compare.defaults import DEFAULTS, moved
from diagnoser.compare.subjects import Subject, Value, same

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
VLLM = FIXTURES / "vllm" / "01_healthy_start_v0.11.0_h100_tp2.log"


@pytest.mark.parametrize(
    ("engine", "name", "version", "value"),
    [
        ("vllm", "gpu_memory_utilization", "0.18.1", 0.9),
        ("vllm", "gpu_memory_utilization", "0.20.2", 0.92),
        ("vllm", "gpu_memory_utilization", "0.19.0", None),
        ("vllm", "async_scheduling", "0.11.0", False),
        ("vllm", "async_scheduling", "0.33.0", True),
        ("sglang", "SGLANG_ENABLE_SPEC_V2", "0.5.9", "False"),
        ("sglang", "SGLANG_ENABLE_SPEC_V2", "0.5.11", "True"),
    ],
)
def test_a_default_in_a_release(engine: str, name: str, version: str, value: Value) -> None:
    (default,) = [one for one in DEFAULTS if (one.engine, one.name) == (engine, name)]
    assert default.at(version) == value


def test_a_release_has_one_default_of_a_kind() -> None:
    for default in DEFAULTS:
        for release in ("0.4.9", "0.5.5", "0.5.9", "0.8.5", "0.11.0", "0.18.1", "0.22.1", "0.33.0"):
            held = [
                value
                for spec, value in default.ranges
                if default.at(release) is not None and value == default.at(release)
            ]
            assert len(held) <= 1, (default.name, release)


def test_sm100_attention_moved_and_sm120_did_not() -> None:
    def attention(arch: str, model: str) -> list[tuple[Value, Value]]:
        found = moved({"sglang": "0.5.5"}, {"sglang": "0.5.9"}, frozenset([arch]), model)
        return [(old, new) for default, old, new in found if default.kind == "attention_backend"]

    assert attention("sm100", "mha") == [("flashinfer", "trtllm_mha")]
    assert attention("sm120", "mla") == []


def sides(tmp_path: Path, before: str, after: str) -> list[str]:
    (tmp_path / "before.log").write_text(before)
    (tmp_path / "after.log").write_text(after)
    found = explain([str(tmp_path / "before.log")], [str(tmp_path / "after.log")], Options(year=2026))
    return [str(one) for one, _ in found.context] + [str(one) for one in found.folded]


def test_asking_for_the_default_is_no_difference(tmp_path: Path) -> None:
    text = VLLM.read_text()
    asked = text.replace("non-default args: {", "non-default args: {'gpu_memory_utilization': 0.9, ", 1)
    assert asked != text
    assert not [one for one in sides(tmp_path, text, asked) if "gpu_memory" in one]
    more = asked.replace("'gpu_memory_utilization': 0.9", "'gpu_memory_utilization': 0.95")
    assert "gpu_memory_utilization: 0.9 (default of vllm 0.11.0) -> 0.95" in sides(tmp_path, text, more)


def test_a_default_that_moved_with_the_release_is_context(tmp_path: Path) -> None:
    text = VLLM.read_text()
    newer = text.replace("0.11.0", "0.22.1")
    found = sides(tmp_path, text, newer)
    assert "gpu_memory_utilization: 0.9 (default of vllm 0.11.0) -> 0.92 (default of vllm 0.22.1)" in found
    assert "VLLM_USE_FLASHINFER_SAMPLER: 0 (default of vllm 0.11.0) -> 1 (default of vllm 0.22.1)" in found


@pytest.mark.parametrize("printed", ["2", "[2,1]", "(2, 1)", "FULL_AND_PIECEWISE"])
def test_graph_modes_are_one_mode_however_they_are_printed(printed: str) -> None:
    subject = Subject("flags", "server_arg", "compilation_config.cudagraph_mode", "")
    assert same(subject, (printed, "full" if printed == "2" else "full_and_piecewise"))
