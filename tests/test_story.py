"""The story: each step's root cause comes first, with its line and its fix; clean states stay quiet."""

import json
from pathlib import Path

import pytest

from diagnoser import diagnose

STORY = Path(__file__).resolve().parents[1] / "fixtures" / "story"
TRUTH = json.loads((STORY / "truth.json").read_text())


@pytest.mark.parametrize("name", sorted(name for name in TRUTH if TRUTH[name]["root"]))
def test_the_root_cause_is_first_with_its_line_and_fix(name: str) -> None:
    wanted = TRUTH[name]
    diagnosis = diagnose(STORY / name)
    first = diagnosis.causes[0]
    assert first.rule == wanted["root"]
    assert any(wanted["line"] in place.text for place in first.evidence)
    assert any(wanted["fix"] in fix.command + (fix.note or "") for fix in first.fixes)
    assert 0.5 < first.confidence < 1


@pytest.mark.parametrize("name", sorted(name for name in TRUTH if not TRUTH[name]["root"]))
def test_a_clean_state_gives_nothing_above_info(name: str) -> None:
    diagnosis = diagnose(STORY / name)
    assert diagnosis.causes == []
    assert diagnosis.headline == "no known cause"


@pytest.mark.parametrize("name", sorted(TRUTH))
def test_the_deepgemm_warning_is_never_a_root_above_info(name: str) -> None:
    diagnosis = diagnose(STORY / name)
    named = [finding for finding in diagnosis.findings if "ue8m0" in finding.rule]
    assert all(finding.role == "bystander" or finding.severity == "info" for finding in named)
    if "DeepGemm is enabled" in (STORY / name).read_text():
        assert named, "the warning is there and must be named as a bystander"


def test_one_paste_of_several_documents_is_told_apart() -> None:
    packages = STORY.parent / "captures" / "h200" / "host" / "pip_list.txt"
    parts = [STORY / "step6-triton-default.log", STORY / "step4-clean-gpus.txt", packages]
    text = "".join(part.read_text() for part in parts)
    diagnosis = diagnose(text)
    kinds = [document.kind for document in diagnosis.coverage]
    assert kinds == ["sglang log", "nvidia-smi table", "pip list"]
    assert diagnosis.coverage[0].document == "stdin#1 (sglang log)"
    first = diagnosis.causes[0]
    assert first.rule == "triton-attn-default-sm120"
    line = (
        text.splitlines().index(
            next(line for line in text.splitlines() if "Use triton backend by default" in line)
        )
        + 1
    )
    assert line in [place.line for place in first.evidence]


def test_a_symptom_is_noted_and_never_called_harmless() -> None:
    from diagnoser.inference.diagnosis import Diagnosis, Finding
    from diagnoser.report import plain

    seen = Finding(
        rule="slow-decode", title="One stream is slow", kind="symptom", role="bystander",
        effect="decode_slower", severity="info", confidence=0.9, summary="",
    )  # fmt: skip
    shown = plain.render(Diagnosis(version="0", headline="no known cause", findings=[seen]), width=80)
    assert "noted    One stream is slow" in shown
    assert "harmless" not in shown
