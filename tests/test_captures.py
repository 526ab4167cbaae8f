"""What SGLang 0.5.17 really printed on one H200, and what is to be said of it (how each was started is known)."""

from pathlib import Path

import pytest

from diagnoser import diagnose

CAPTURES = Path(__file__).resolve().parents[1] / "fixtures" / "captures" / "sglang_h200"

ALSO = {"overlap-off-by-flag"}
"""The server with the small pool was started with that flag too."""


@pytest.mark.parametrize(
    ("files", "rule", "line", "fix"),
    [
        (["triton.log"], "attn-backend-slower-than-default", "attention_backend='triton'", "attention-backend"),
        (["nograph.log"], "cuda-graph-off", "disable_cuda_graph=True", "--disable-cuda-graph"),
        (["mla-backend.log", "mla-backend.smi.txt"], "mla-backend-for-other-model", "kv_lora_rank", "attention-backend"),
        (["memory.log", "memory.smi.txt"], "cuda-oom", "139.77 GiB memory in use", "--mem-fraction-static"),
        (["context.log"], "context-length-too-long", "derived context_length (32768)", "--context-length"),
        (["small-pool.log"], "kv-pool-limited-by-flag", "max_total_num_tokens=6000", "--max-total-tokens"),
    ],
)  # fmt: skip
def test_what_was_done_to_the_server_is_named_first(files: list[str], rule: str, line: str, fix: str) -> None:
    diagnosis = diagnose([CAPTURES / name for name in files])
    first = diagnosis.causes[0]
    assert first.rule == rule
    assert any(line in place.text for place in first.evidence)
    assert any(fix in one.command for one in first.fixes)
    assert {other.rule for other in diagnosis.causes[1:]} <= ALSO


@pytest.mark.parametrize("name", ["default.log", "healthy-0.5.17.log"])
def test_a_server_at_work_gives_nothing_above_info(name: str) -> None:
    assert diagnose(CAPTURES / name).causes == []
