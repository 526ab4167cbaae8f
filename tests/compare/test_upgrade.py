"""What a change of versions brings, by what is known of the releases (knowledge of SGLang and vLLM, the story)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from diagnoser.agent.session import DEFAULTS, CallError
from diagnoser.agent.upgrade import upgrade


def test_the_story_s_upgrade_meets_the_cudnn_check() -> None:
    advice = upgrade(
        "sglang==0.5.5,torch==2.8.0", "sglang==0.5.9,torch==2.9.1+cu130", None, None, DEFAULTS
    ).advice
    assert advice.watch[0] == "cudnn-check-conv3d"
    assert (
        "cudnn-check-conv3d" in upgrade("sglang==0.5.9", "sglang==0.5.12", None, None, DEFAULTS).advice.safe
    )


def test_half_upgraded_packages_break_by_themselves_and_whole_ones_do_not() -> None:
    pinned = "flashinfer-python==0.5.3,flashinfer-jit-cache==0.5.3"
    assert upgrade(pinned, "flashinfer-python==0.6.4", None, None, DEFAULTS).advice.breaks == (
        "flashinfer-packages-differ",
    )
    whole = "flashinfer-python==0.6.4,flashinfer-jit-cache==0.6.4"
    assert upgrade(pinned, whole, None, None, DEFAULTS).advice.breaks == ()


def test_an_upgrade_that_cures() -> None:
    advice = upgrade("vllm==0.4.1", "vllm==0.6.0", None, None, DEFAULTS).advice
    assert {"awq-no-marlin-old", "gptq-no-marlin-old"} <= set(advice.safe)


def test_defaults_that_move_with_the_release() -> None:
    def told(before: str, after: str, gpu: str | None = None) -> dict[str, tuple[object, object]]:
        found = upgrade(before, after, gpu, None, DEFAULTS).defaults
        return {str(default): (old, new) for default, old, new in found}

    assert told("vllm==0.18.1", "vllm==0.22.1")["gpu_memory_utilization"] == (0.9, 0.92)
    assert told("sglang==0.5.5", "sglang==0.5.9", "NVIDIA B200") == {
        "attention backend": ("flashinfer", "trtllm_mha")
    }
    assert told("sglang==0.5.5", "sglang==0.5.9", "NVIDIA RTX PRO 6000 Blackwell Server Edition") == {}


def test_the_same_versions_bring_nothing(tmp_path: Path) -> None:
    pins = tmp_path / "pins.txt"
    pins.write_text("Package  Version\n-------  -------\nsglang   0.5.9\ntorch    2.9.1\n")
    found = upgrade(str(pins), "sglang==0.5.9", None, None, DEFAULTS)
    assert found.before == {"sglang": "0.5.9", "torch": "2.9.1"}
    assert not any(found.advice)


@pytest.mark.parametrize("given", ["sglang", "", "nothing here"])
def test_no_version_is_one_sentence(given: str) -> None:
    with pytest.raises(CallError, match="no package with a version"):
        upgrade(given, "sglang==0.5.9", None, None, DEFAULTS)


def test_on_the_command_line() -> None:
    command = [
        sys.executable,
        "-m",
        "diagnoser",
        "upgrade",
        "--from",
        "flashinfer-python==0.5.3,flashinfer-jit-cache==0.5.3",
    ]
    shown = subprocess.run(
        [*command, "--to", "flashinfer-python==0.6.4", "-f", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 1
    answer = json.loads(shown.stdout)
    assert answer["schema"] == "diagnoser/upgrade/1"
    assert [row["rule"] for row in answer["breaks"]] == ["flashinfer-packages-differ"]
