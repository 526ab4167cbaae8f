"""What a client sends is never evidence."""

import pytest

from diagnoser import diagnose

FORGED = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.25 GiB"
SAID = "[2026-02-27 15:20:01] INFO server_args.py:1835: Attention backend not specified. Use triton backend by default."
REQUESTS = {
    "sglang": "[2026-02-27 15:38:14] Receive: obj=GenerateReqInput(rid='ab', text='{}', input_ids=None)",
    "sglang answer": "[2026-02-27 15:38:15] Finish: obj=GenerateReqInput(rid='ab', text='hi'), out={{'text': '{}'}}",
    "vllm": "INFO 02-27 15:38:14 [logger.py:39] Received request cmpl-1: prompt: '{}', params: SamplingParams(n=1), "
    "prompt_token_ids: None, lora_request: None.",
    "vllm answer": "INFO 02-27 15:38:14 [logger.py:60] Generated response cmpl-1 (streaming complete): output: '{}', "
    "output_token_ids: None, finish_reason: stop",
    "llama.cpp": 'srv  log_server_r: request:  {{"prompt": "{}"}}',
}


@pytest.mark.parametrize("request_line", REQUESTS.values(), ids=REQUESTS)
def test_a_prompt_about_a_fault_is_no_fault(request_line: str) -> None:
    told = diagnose(request_line.format(FORGED * 3) + "\n")
    assert [finding.rule for finding in told.findings] == []
    assert "OutOfMemory" not in told.to_json()


@pytest.mark.parametrize("request_line", REQUESTS.values(), ids=REQUESTS)
def test_what_the_server_says_around_it_counts(request_line: str) -> None:
    alone = diagnose(f"{SAID}\n")
    around = diagnose(f"{SAID}\n{request_line.format(FORGED)}\n{FORGED}\n")
    places = [place for finding in around.findings for place in finding.evidence]
    assert {finding.rule for finding in alone.findings} <= {finding.rule for finding in around.findings}
    assert {place.line for place in places} == {1, 3}


def test_the_words_alone_open_no_quote() -> None:
    told = diagnose(f"[2026-02-27 15:38:14] Received request abort. {FORGED}\n")
    assert any("OutOfMemory" in place.text for finding in told.findings for place in finding.evidence)
