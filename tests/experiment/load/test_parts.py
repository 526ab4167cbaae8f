"""The parts that need no server, and what the server says of itself."""

import asyncio
import json
import math
import random
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from diagnoser.experiment.load import apis, gpus, record
from diagnoser.experiment.load.answer import Answer
from diagnoser.experiment.load.client import Client
from diagnoser.experiment.load.guards import answers_guard
from diagnoser.experiment.load.interval import mean_interval
from diagnoser.experiment.load.measure import figures, percentile
from diagnoser.experiment.load.prompts import Calibrated, Prompts, calibrate
from diagnoser.experiment.load.server import Server, identify
from diagnoser.experiment.load.sse import MAX_EVENT_BYTES, Events, EventTooLongError


def answer(first_s: float, last_s: float, tokens: int | None, **more: object) -> Answer:
    out = Answer(
        sent_s=10.0, first_s=first_s, last_s=last_s, output_tokens=tokens, arrivals_s=[first_s, last_s]
    )
    for name, value in more.items():
        setattr(out, name, value)
    return out


def test_figures_are_the_definitions() -> None:
    # The story's run 1: 2048 tokens; here 0.2 s to the first, 20.47 s for the 2047 others: 10 ms each.
    found = figures(answer(10.2, 30.67, 2048))
    assert found.ttft_ms == pytest.approx(200)
    assert found.e2e_ms == pytest.approx(20670)
    assert found.decode_ms_per_token == pytest.approx(10)
    assert found.e2e_ms_per_token == pytest.approx(20670 / 2048)
    assert found.output_tok_s_request == pytest.approx(2048 / 20.67)


def test_tokens_of_the_first_chunk_are_taken_off_where_they_are_known() -> None:
    # 8 of 16 tokens at once, the rest 80 ms later.
    assert figures(answer(10.1, 10.18, 16, first_tokens=8)).decode_ms_per_token == pytest.approx(10)


def test_an_answer_in_one_piece_has_no_time_to_first_token() -> None:
    found = figures(answer(10.4, 10.4, 64, arrivals_s=[10.4]))
    assert found.collapsed
    assert (found.ttft_ms, found.decode_ms_per_token) == (None, None)
    assert found.e2e_ms == pytest.approx(400)


def test_a_long_prompt_with_a_short_answer_is_no_collapsed_stream() -> None:
    # 10 s of prefill, then 7 tokens at 10 ms each; all of them within a sixteenth of E / N.
    found = figures(answer(20.0, 20.07, 8))
    assert not found.collapsed
    assert found.decode_ms_per_token == pytest.approx(10)


def test_a_failed_answer_has_no_figures() -> None:
    assert figures(answer(10.1, 10.2, 5, error="connection lost")) == figures(Answer())


def test_one_token_has_no_decode_time() -> None:
    found = figures(answer(10.1, 10.1, 1, arrivals_s=[10.1]))
    assert not found.collapsed
    assert found.decode_ms_per_token is None
    assert found.ttft_ms == pytest.approx(100)


def test_lengths_within_two_percent_are_a_warning_only() -> None:
    near = [answer(10.1, 11, 99), answer(10.1, 11, 100)]
    assert [f.level for f in answers_guard(near, 100) if f.guard == "length"] == ["warn"]
    assert not record.off_length(near, 100)
    assert record.off_length([answer(10.1, 11, 97)], 100)


def test_cached_share_is_void_above_one_percent() -> None:
    def guard(cached: int) -> list[str]:
        found = answers_guard([answer(10.1, 11, 9, prompt_tokens=1000, cached_tokens=cached)], 9)
        return [f.guard for f in found if f.level == "void"]

    assert guard(10) == []
    assert guard(11) == ["cache"]


def test_percentiles_interpolate() -> None:
    # numpy.percentile([1, 2, 3, 4, 10], [50, 95, 99])
    assert [percentile([10, 1, 3, 2, 4], p) for p in (50, 95, 99)] == pytest.approx([3.0, 8.8, 9.76])


def test_the_interval_is_students() -> None:
    # The story's five runs, by hand: mean 92.589, SD 0.1165, t(4) 2.776: +- 0.1446.
    rates = [92.48, 92.53, 92.61, 92.78, 92.545]
    mean, half = mean_interval(rates)
    sd = math.sqrt(sum((rate - 92.589) ** 2 for rate in rates) / 4)
    assert mean == pytest.approx(92.589)
    assert half == pytest.approx(2.776 * sd / math.sqrt(5), rel=2e-4)  # the table has three digits
    assert mean_interval([5.0]) == (5.0, None)
    # t(40) is 2.021 in tables.
    _, wide = mean_interval([0.0, 1.0] * 20 + [0.5])
    assert wide is not None
    assert wide * math.sqrt(41) / math.sqrt(10 / 40) == pytest.approx(2.021, abs=0.002)


def test_accept_length_counts_steps() -> None:
    # vLLM: 1 + accepted / drafts over the run: 300 accepted in 100 drafts.
    assert record.accept_len([], ((50.0, 10.0), (150.0, 310.0))) == 4.0
    # SGLang: 60 tokens in 20 steps and 60 in 30: 120 in 50.
    told = [answer(10.1, 11, 60, accept_len=3.0), answer(10.1, 11, 60, accept_len=2.0)]
    assert record.accept_len(told, (None, None)) == pytest.approx(2.4)
    assert record.accept_len([answer(10.1, 11, 60)], ((5.0, 0.0), (5.0, 0.0))) is None


STREAM = (
    ': ping\n\ndata: {"a": "caf\u00e9"}\n\ndata:{"b": 1}\r\n\r\nevent: x\ndata: {"c": 2}\ndata: [DONE]\n\n'
).encode()


def test_events_are_found_wherever_the_bytes_are_cut() -> None:
    whole = [b'{"a": "caf\xc3\xa9"}', b'{"b": 1}', b'{"c": 2}', b"[DONE]"]
    for at in range(len(STREAM) + 1):
        events = Events()
        assert events.feed(STREAM[:at]) + events.feed(STREAM[at:]) + events.rest() == whole
    events = Events()
    assert [event for at in range(len(STREAM)) for event in events.feed(STREAM[at : at + 1])] == whole
    # The last line needs no end.
    events = Events()
    assert events.feed(b"data: 1") == []
    assert events.rest() == [b"1"]


def test_an_event_without_end_is_refused() -> None:
    events = Events()
    assert events.feed(b"x" * MAX_EVENT_BYTES) == []
    with pytest.raises(EventTooLongError):
        events.feed(b"x")


def test_any_json_is_an_event_or_a_value_error() -> None:
    chance = random.Random(1)
    leaves = [None, True, -1, 1.5, "x", [], {}, [[]], [None], [{}], {"content": 1}, {"finish_reason": {}}]
    names = [
        "choices",
        "usage",
        "timings",
        "text",
        "meta_info",
        "error",
        "delta",
        "completion_tokens",
        "predicted_n",
    ]
    for _ in range(3000):
        event = {name: chance.choice(leaves) for name in chance.sample(names, 4)}
        event["choices"] = chance.choice([chance.choice(leaves), [dict(event)]])
        for api in apis.PATHS:
            apis.said(api, event)
    for wrong in (None, 1, "x", []):
        with pytest.raises(ValueError, match="not a JSON object"):
            apis.said("chat", wrong)


def test_llama_cpp_counts_stand_in_for_usage() -> None:
    # A last event of llama-server.
    event = {"choices": [{"text": "", "finish_reason": "length"}]}
    event |= {"timings": {"prompt_n": 12, "cache_n": 4, "predicted_n": 64, "predicted_ms": 100.0}}
    what = apis.said("completions", event)
    assert (what.prompt_tokens, what.cached_tokens, what.output_tokens) == (16, 4, 64)
    assert what.counted_by == "timings"


def test_thoughts_are_tokens() -> None:
    for name in ("reasoning_content", "reasoning"):
        assert apis.said("chat", {"choices": [{"delta": {name: "hm", "content": None}}]}).text == "hm"


def test_prompts_differ_from_the_first_characters_on_and_repeat_for_a_seed() -> None:
    prompts = Prompts("seed", 50)
    texts = [prompts.one(run, index) for run in ("1", "2", "warm-up 1") for index in range(30)]
    assert len({text[:6] for text in texts}) == len(texts)
    assert texts[0] == Prompts("seed", 50).one("1", 0)
    assert texts[0][:6] != Prompts("other", 50).one("1", 0)[:6]


@pytest.mark.parametrize("tokens", [20, 128, 3000])
def test_prompts_get_the_length_that_the_server_counts(serve: Callable[..., str], tokens: int) -> None:
    url = serve(ttft_s=0.001)

    async def go() -> Calibrated:
        async with Client(url) as client:
            return await calibrate(client, "seed", tokens)

    found = asyncio.run(go())
    # The server counts a token for 4 bytes, and 2 of its template.
    assert found.counted_tokens == pytest.approx(tokens, abs=max(1, tokens * 0.01))
    lengths = [len(found.prompts.one("1", index)) // 4 + 2 for index in range(50)]
    assert lengths == [found.counted_tokens] * 50


@pytest.mark.parametrize(
    ("engine", "name", "version"),
    [
        ("sglang", "sglang", "0.5.9"),
        ("vllm", "vllm", "0.11.0"),
        ("llamacpp", "llama.cpp", "b6000-abc"),
        ("plain", None, None),
    ],
)
def test_servers_are_told_apart(
    serve: Callable[..., str], engine: str, name: str | None, version: str | None
) -> None:
    async def go(url: str) -> Server:
        async with Client(url) as client:
            return await identify(client)

    # Both spellings of the address are in use.
    found = asyncio.run(go(serve(engine=engine) + "/v1/"))
    assert (found.engine, found.version, found.model) == (name, version, "tiny")


def test_keys_among_the_flags_are_hidden(serve: Callable[..., str]) -> None:
    async def go(url: str) -> Server:
        async with Client(url) as client:
            return await identify(client)

    flags = {"api_key": "sk-abcdefghijklmnopqrstuvwx", "hf_token": "hf_abcdefghijklmnopqrstuvwxyz"}
    found = asyncio.run(go(serve(engine="sglang", flags=flags)))
    assert found.flags["tp_size"] == 8
    assert "abcdefgh" not in json.dumps(found.flags)


def test_gpus_are_those_of_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    row = "NVIDIA H200, GPU-8f, 580.159.04, 1980, 3201, 700.00"
    tool.write_text(f"#!/bin/sh\necho '{row}'\necho 'NVIDIA A16, GPU-9a, 580.159.04, [N/A], 800, [N/A]'\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    first, second = gpus.gpus()
    assert (first.name, first.driver, first.sm_clock_mhz, first.power_limit_w) == (
        "NVIDIA H200",
        "580.159.04",
        1980,
        700,
    )
    assert (second.sm_clock_mhz, second.memory_clock_mhz) == (None, 800)
    tool.write_text("#!/bin/sh\nexit 9\n")
    assert gpus.gpus() == []


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:1", True),
        ("http://[::1]:1", True),
        ("http://localhost", True),
        ("http://10.0.0.1", False),
    ],
)
def test_only_a_loopback_server_has_this_machines_gpus(url: str, local: bool) -> None:
    assert gpus.local(url) is local


@pytest.mark.parametrize("api", ["completions", "chat", "generate"])
def test_requests_ask_for_an_exact_length_greedily(api: apis.Api) -> None:
    body = apis.payload(api, "tiny", "Hello", 32)
    sampling = body["sampling_params"] if api == "generate" else body
    assert body["stream"] is True
    assert (sampling["temperature"], sampling["ignore_eos"]) == (0.0, True)
    names = ("max_new_tokens", "min_new_tokens") if api == "generate" else ("max_tokens", "min_tokens")
    assert [sampling[name] for name in names] == [32, 32]
    assert "model" not in apis.payload(api, None, "Hello", 32)
    less = apis.payload(api, "tiny", "Hello", 32, frozenset({"ignore_eos"}))
    assert "ignore_eos" not in json.dumps(less)
