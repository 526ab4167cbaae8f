"""Statistics lines of every engine: the numbers, what is kept out of them, and merging at any cut."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnoser.facts.engine import Engine, SeriesStat, StartPhase
from diagnoser.facts.series import SeriesStore
from diagnoser.facts.series_stats import SeriesTrend, Stated
from diagnoser.parsers.series import read_series

Series = dict[tuple[str, int | None], SeriesStat]
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def store_of(data: bytes, first_line: int = 1) -> SeriesStore:
    store = SeriesStore()
    read_series(data, store, first_line=first_line)
    return store


def stats(data: bytes) -> Series:
    return {
        (fact.metric, fact.running): fact
        for fact, _, _ in store_of(data).facts()
        if isinstance(fact, SeriesStat)
    }


def phases(data: bytes) -> dict[str, float]:
    return {
        fact.name: fact.duration_s for fact, _, _ in store_of(data).facts() if isinstance(fact, StartPhase)
    }


@pytest.fixture
def series() -> Callable[[str], Series]:
    return lambda name: stats((FIXTURES / name).read_bytes())


Of = Callable[[str], Series]


class TestSGLang:
    def test_single_stream_without_the_first_line(self, series: Of) -> None:
        found = series("sglang/02_triton_default_sm120_059.log")
        decode = found["decode_tok_s", None]
        assert (decode.count, decode.min, decode.median, decode.max) == (6, 83.8, 83.9, 84.0)
        assert (decode.first, decode.last) == (83.9, 83.8)
        assert found["decode_tok_s", 1] == decode.model_copy(update={"running": 1})
        assert found["decode_mixed_tok_s", None].max == 0.93
        assert found["cuda_graph", None].median == 1.0

    def test_a_real_h200_with_short_and_long_prompts(self, series: Of) -> None:
        decode = series("captures/sglang_h200/triton.log")["decode_tok_s", 1]
        assert decode.count == 75
        assert decode.first == 224.44
        assert decode.p95 == pytest.approx(224.56)
        assert decode.max == 224.76
        assert decode.p05 == pytest.approx(121.58)
        assert decode.last == 122.18
        mixed = series("captures/sglang_h200/triton.log")["decode_mixed_tok_s", 1]
        assert (mixed.count, mixed.first, mixed.max) == (14, 11.34, 212.51)
        assert series("captures/sglang_h200/triton.log")["prefill_tok_s", None].max == 17807.33

    def test_graphs_off_is_told_by_every_decode_line(self, series: Of) -> None:
        found = series("captures/sglang_h200/nograph.log")
        assert found["cuda_graph", None].median == 0
        assert 70 < found["decode_tok_s", 1].median < 90
        assert series("captures/sglang_h200/default.log")["decode_tok_s", 1].median > 200

    def test_retraction_composed(self, series: Of) -> None:
        found = series("sglang/07_kv_cache_retraction_059.log")
        assert found["retracted_total", None].max == 15
        assert (found["retracted_reqs", None].count, found["retracted_reqs", None].max) == (3, 7)
        assert found["kv_usage", None].max == 0.97
        assert found["queue_reqs", None].max == 32
        assert found["decode_tok_s", 58].median == 1162.0
        assert found["decode_tok_s", 45].median == 521.2
        assert ("decode_mixed_tok_s", None) not in found

    def test_retraction_captured(self, series: Of) -> None:
        found = series("captures/cpu_servers/sglang_cpu_059_retract.log")
        assert found["retracted_total", None].max == 1
        assert found["kv_usage", None].max == 0.99
        assert found["running_reqs", None].max == 5
        assert found["decode_tok_s", 5].first == 393.48
        assert found["decode_mixed_tok_s", 5].max == 11.02
        assert found["cuda_graph", None].max == 0

    def test_speculation(self, series: Of) -> None:
        found = series("sglang/08_spec_decoding_low_accept_len_059.log")
        assert found["decode_tok_s", None].median == 54.1
        assert found["accept_len", 1].median == 1.37
        assert found["accept_rate", None].max == 0.35

    def test_cache_share(self) -> None:
        line = b"[2026-02-27 15:38:14] Prefill batch, #new-seq: 1, #new-token: 100, #cached-token: 300, token usage: 0.10, #running-req: 0, #queue-req: 2, "
        assert stats(line + b"\n")["cache_hit", None].median == 0.75

    @pytest.mark.parametrize(
        ("line", "wanted"),
        [
            ("Decode batch. #running-req: 3, #token: 9, token usage: 0.25, accept len: 2.50, cuda graph: True, gen throughput (token/s): 50.00, #queue-req: 4", (3, 0.25, 50.0, 4)),
            ("Decode batch, #running-req: 3, #token: 9, token usage: 0.25, cuda graph: False, gen throughput (token/s): 50.00, #queue-req: 4, ", (3, 0.25, 50.0, 4)),
            ("Decode batch [1234], #running-req: 3, #token: 9, token usage: 0.25, accept len: 2.50, accept rate: 0.62, cuda graph: True, gen throughput (token/s): 50.00, #queue-req: 4", (3, 0.25, 50.0, 4)),
            ("Decode batch, #running-req: 3, #full token: 9, full token usage: 0.25, #swa token: 4, swa token usage: 0.10, cuda graph: True, gen throughput (token/s): 50.00, #queue-req: 4", (3, 0.25, 50.0, 4)),
            ("Decode batch, #running-req: 3, #full token: 9, full token usage: 0.25, mamba num: 4, mamba usage: 0.10, npu graph: True, gen throughput (token/s): 50.00, #queue-req: 4", (3, 0.25, 50.0, 4)),
            ("Decode batch, #running-req: 3, #token: 9, token usage: 0.25, pre-allocated usage: 0.10, #prealloc-req: 1, #transfer-req: 2, #retracted-req: 0, cuda graph: True, gen throughput (token/s): 50.00, #queue-req: 4, est. decode TFLOPS/s (per GPU): 1.0, fwd occupancy: 97.1%", (3, 0.25, 50.0, 4)),
            ("Decode batch, #running-req: 3, #token: 9, token usage: 0.25, accept len: 2.50, accept rate: 0.62, cap len: 3.0, block accept len: 2.0, cuda graph: True, gen throughput (token/s): 50.00, #queue-req: 4", (3, 0.25, 50.0, 4)),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize(
        "stamp",
        [
            "[2026-02-27 15:38:15 TP0] ",
            "[2026-02-27 15:38:15.123 DP1 TP4 PP0] ",
            "[2026-02-27 15:38:15] ",
            "",
        ],
    )
    def test_decode_line_of_every_release(
        self, line: str, wanted: tuple[int, float, float, int], stamp: str
    ) -> None:
        found = stats((stamp + line + "\n").encode())
        told = [found[key, None].max for key in ("running_reqs", "kv_usage", "decode_tok_s", "queue_reqs")]
        assert tuple(told) == wanted

    @pytest.mark.parametrize(
        "line",
        [
            "Prefill batch. #new-seq: 2, #new-token: 700, #cached-token: 5, token usage: 0.25, #running-req: 3, #queue-req: 4",
            "Prefill batch. #new-seq: 2, #new-token: 700, #cached-token: 5, token usage: 0.25, #unbootstrapped-req: 0, #queue-req: 4, #transferring-req: 0, input throughput (token/s): 9.00 ",
            "Prefill batch [12], #new-seq: 2, #new-token: 700, #cached-token: 5, token usage: 0.25, #running-req: 3, #queue-req: 4, ",
            "Prefill batch, #new-seq: 2, #new-token: 700, #cached-token: 5, token usage: 0.25, #running-req: 3, #queue-req: 4, input throughput (token/s): 9.00, cuda graph: False",
            "Prefill batch, #new-seq: 2, #new-token: 700, #cached-token: 5, full token usage: 0.25, swa token usage: 0.10, #running-req: 3, #queue-req: 4, #pending-token: 0, cuda graph: True, input throughput (token/s): 9.00, fwd occupancy: 3%",
        ],
    )  # fmt: skip
    def test_prefill_line_of_every_release(self, line: str) -> None:
        found = stats(f"[2026-02-27 15:38:15 TP0] {line}\n".encode())
        assert found["prefill_new_tokens", None].max == 700
        assert found["queue_reqs", None].max == 4
        assert found["kv_usage", None].max == 0.25

    def test_an_idle_gap_without_prefill_lines_is_kept_out(self) -> None:
        def line(second: int, tokens: int, rate: float) -> str:
            return (
                f"[2026-02-27 15:{second // 60:02}:{second % 60:02}] Decode batch, #running-req: 1, #token: {tokens}, "
                f"token usage: 0.00, cuda graph: True, gen throughput (token/s): {rate:.2f}, #queue-req: 0\n"
            )

        idle = line(0, 500, 80) + line(60, 77, 0.67) + line(61, 117, 80)
        found = stats(idle.encode())
        assert found["decode_tok_s", 1].min == 80
        assert found["decode_mixed_tok_s", 1].max == 0.67
        slow = line(0, 100, 2) + line(20, 140, 2) + line(40, 180, 2)
        assert stats(slow.encode())["decode_tok_s", 1].count == 3

    def test_ranks_do_not_disturb_each_other(self) -> None:
        decode = "[2026-02-27 15:38:15 DP{} TP{}] Decode batch, #running-req: 1, #token: 9, token usage: 0.00, cuda graph: True, gen throughput (token/s): {}, #queue-req: 0\n"
        prefill = "[2026-02-27 15:38:15 DP1 TP4] Prefill batch, #new-seq: 1, #new-token: 9, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, \n"
        text = (
            decode.format(0, 0, 80.0)
            + decode.format(1, 4, 81.0)
            + prefill
            + decode.format(0, 0, 82.0)
            + decode.format(1, 4, 3.0)
        )
        found = stats(text.encode())
        assert found["decode_tok_s", 1].min == 80
        assert found["decode_mixed_tok_s", 1].max == 3


class TestVLLM:
    def test_v1(self, series: Of) -> None:
        found = series("vllm/01_healthy_start_v0.11.0_h100_tp2.log")
        assert found["decode_tok_s", 2].median == 84.0
        assert found["kv_usage", None].max == 0.049
        assert found["prompt_tok_s", None].max == 102.4

    def test_preemptions_of_v1(self, series: Of) -> None:
        found = series("vllm/05_preemptions_v1_v0.18.1.log")
        assert found["preemptions_total", None].max == 61 + 88 + 93
        assert found["queue_reqs", None].max == 95
        assert found["kv_usage", None].max == 0.999

    def test_preemptions_of_v0(self, series: Of) -> None:
        found = series("vllm/04_preemption_storm_v0.7.3.log")
        assert found["preemptions_total", None].max == 301
        assert found["swapped_reqs", None].max == 0
        assert found["decode_tok_s", 57].max == 811.5

    def test_a_stall_is_a_rate_of_zero(self, series: Of) -> None:
        assert series("vllm/08_shared_memory_stall_v0.11.0_tp2.log")["decode_tok_s", 8].min == 0

    def test_a_real_server_with_more_requests_than_blocks(self, series: Of) -> None:
        found = series("captures/cpu_servers/vllm_preemption.log")
        assert found["kv_usage", None].max == 0.174
        assert found["decode_mixed_tok_s", None].max == 450.2
        assert ("decode_tok_s", None) not in found

    @pytest.mark.parametrize(
        ("line", "length", "rate"),
        [
            ("SpecDecoding metrics: Draft acceptance rate: 61.3%, Mean acceptance length: 1.84, Accepted: 1200 tokens, Drafted: 1957 tokens, Per-position acceptance rate: 0.812, 0.611, 0.415", 2.84, 0.613),
            ("SpecDecoding metrics: Draft acceptance rate: 61.3%, Mean acceptance length: 2.84, Accepted: 1200 tokens, Drafted: 1957 tokens, Per-position acceptance rate: 0.812, 0.611, 0.415", 2.84, 0.613),
            ("SpecDecoding metrics: Mean acceptance length: 2.84, Accepted throughput: 102.30 tokens/s, Drafted throughput: 166.90 tokens/s, Accepted: 1023 tokens, Drafted: 1669 tokens, Per-position acceptance rate: 0.812, 0.611, 0.415, Avg Draft acceptance rate: 61.3%", 2.84, 0.613),
            ("Speculative metrics: Draft acceptance rate: 0.613, System efficiency: 0.492, Number of speculative tokens: 4, Number of accepted tokens: 1200, Number of draft tokens: 2000, Number of emitted tokens: 1700.", 3.4, 0.613),
        ],
    )  # fmt: skip
    def test_speculation_with_the_bonus_token(self, line: str, length: float, rate: float) -> None:
        found = stats(f"INFO 02-27 15:17:28 [metrics.py:96] {line}\n".encode())
        assert found["accept_len", None].median == pytest.approx(length)
        assert found["accept_rate", None].median == rate

    def test_optional_parts(self) -> None:
        line = b"INFO 02-27 15:17:28 [loggers.py:1] 8 Engines Aggregated: Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 84.1 tokens/s, Running: 200 reqs, Waiting: 3 reqs, Deferred: 1 reqs, Preemptions: 7, Corrupted: 0 reqs, XPU KV cache usage: 50.0%, Prefix cache hit rate: 21.7%, External prefix cache hit rate: 1.0%\n"
        found = stats(line)
        assert found["decode_tok_s", 200].max == 84.1
        assert found["preemptions_total", None].max == 7
        assert found["kv_usage", None].max == 0.5
        assert found["cache_hit", None].max == 0.217


class TestOthers:
    def test_llamacpp(self, series: Of) -> None:
        found = series("captures/cpu_servers/llama_server.log")
        decode = found["decode_tok_s", None]
        assert (decode.count, decode.first, decode.min, decode.max) == (7, 598.21, 575.81, 615.11)
        assert found["graphs_reused", None].max == 445

    def test_llamacpp_bare_lines_and_drafts(self) -> None:
        text = (
            b"prompt eval time =     312.45 ms /   512 tokens (    0.61 ms per token,  1638.66 tokens per second)\n"
            b"       eval time =    2731.10 ms /   256 tokens (   10.67 ms per token,    93.74 tokens per second)\n"
            b"draft acceptance = 0.61290 (  190 accepted /   310 generated), mean len =  2.84\n"
        )
        found = stats(text)
        assert found["prefill_tok_s", None].max == 1638.66
        assert found["decode_tok_s", None].max == 93.74
        assert found["accept_len", None].max == 2.84
        assert found["accept_rate", None].max == 0.6129

    @pytest.mark.parametrize(
        ("line", "wanted"),
        [
            ("iter = 120, global_rank = 0, rank = 0, currank_total_requests = 0/1, elapsed_time = 0.0100s, timestamp = 2025-07-01 10:00:00, num_scheduled_requests: 16, states = {'num_ctx_requests': 0, 'num_ctx_tokens': 0, 'num_generation_tokens': 16}", {"step_ms": 10.0, "decode_tok_s": 1600.0}),
            ("iter = 120, global_rank = 0, rank = 0, currank_total_requests = 1/8, host_step_time = 20.0ms, prev_device_step_time = 10.0ms, timestamp = 2025-07-01 10:00:00, num_scheduled_requests: 16, states = {'num_ctx_requests': 0, 'num_ctx_tokens': 0, 'num_generation_tokens': 16}", {"host_step_ms": 20.0, "device_step_ms": 10.0, "host_device_ratio": 2.0, "decode_tok_s": 800.0}),
            ("iter = 120, num_scheduled_requests = 16, kv_cache_util = 0.125, currank_total_requests = 1/8, host_step_time = 20.0ms, prev_device_step_time = N/A, timestamp = x, states = {'num_ctx_requests': 1, 'num_ctx_tokens': 9, 'num_generation_tokens': 16, 'cached_kv_tokens': 6}", {"host_step_ms": 20.0, "kv_usage": 0.125, "running_reqs": 16.0}),
        ],
    )  # fmt: skip
    def test_tensorrt_llm(self, line: str, wanted: dict[str, float]) -> None:
        found = stats(f"[08/04/2026-19:08:13] [TRT-LLM] [I] {line}\n".encode())
        assert {name: found[name, None].median for name in wanted} == wanted
        assert ("decode_tok_s" in wanted) == (("decode_tok_s", None) in found)

    def test_text_without_such_lines(self) -> None:
        assert list(store_of(b"hello\nworld\n").facts()) == []


class TestPhases:
    def test_durations_between_the_lines_of_a_rank(self) -> None:
        text = (
            b"[2026-02-27 15:31:16 TP0] Init torch distributed begin.\n"
            b"[2026-02-27 15:31:18 TP1] Load weight begin. avail mem=93.41 GB\n"
            b"[2026-02-27 15:31:20 TP0] Init torch distributed ends. mem usage=0.91 GB\n"
            b"[2026-02-27 15:31:22 TP0] Load weight begin. avail mem=93.41 GB\n"
            b"[2026-02-27 15:36:56 TP0] Load weight end. type=KimiK25ForConditionalGeneration, dtype=torch.bfloat16, avail mem=20.31 GB, mem usage=73.10 GB.\n"
        )
        assert phases(text) == {"init_distributed": 4, "load_weight": 334}

    def test_printed_durations_are_left_to_the_line_parser(self) -> None:
        text = (
            b"[2026-02-27 15:31:22 TP0] Load weight begin. avail mem=93.41 GB\n"
            b"[2026-02-27 15:36:56 TP0] Load weight end. elapsed=333.58 s, type=X, avail mem=20.31 GB, mem usage=73.10 GB.\n"
        )
        assert phases(text) == {}

    def test_until_ready(self) -> None:
        assert phases((FIXTURES / "captures/sglang_h200/triton.log").read_bytes()) == {"until_ready": 39}
        assert phases((FIXTURES / "sglang/02_triton_default_sm120_059.log").read_bytes()) == {
            "until_ready": 387
        }

    def test_vllm_v0_and_llamacpp(self) -> None:
        assert phases((FIXTURES / "vllm/04_preemption_storm_v0.7.3.log").read_bytes())["load_model"] == 31
        assert phases((FIXTURES / "captures/cpu_servers/llama_server.log").read_bytes()) == {
            "load_model": 0.061
        }


class TestEvidence:
    def test_first_and_worst_line(self) -> None:
        data = (FIXTURES / "sglang/02_triton_default_sm120_059.log").read_bytes()
        lines = data.decode().split("\n")
        shown = [
            (line, text)
            for fact, line, text in store_of(data).facts()
            if isinstance(fact, SeriesStat) and fact.metric == "decode_tok_s"
        ]
        assert all(lines[line - 1] == text for line, text in shown)
        assert {line for line, _ in shown} == {50, 51}

    def test_engines_are_told(self) -> None:
        engines = {
            fact.name
            for fact, _, _ in store_of(
                (FIXTURES / "sglang/07_kv_cache_retraction_059.log").read_bytes()
            ).facts()
            if isinstance(fact, Engine)
        }
        assert engines == {"sglang"}

    def test_a_trend_over_minutes(self) -> None:
        line = "[2026-02-27 15:{:02}:00] Decode batch, #running-req: 1, #token: {}, token usage: {:.2f}, cuda graph: True, gen throughput (token/s): {}, #queue-req: 0\n"
        text = "".join(
            line.format(minute, 9 + 1200 * minute, 0.3 + minute / 20, 80 - 5 * minute) for minute in range(9)
        )
        trends = {
            fact.metric: fact
            for fact, _, _ in store_of(text.encode()).facts()
            if isinstance(fact, SeriesTrend)
        }
        assert trends["kv_usage"].late > trends["kv_usage"].early
        assert trends["kv_usage"].minutes == 9
        assert trends["kv_usage"].ratio == pytest.approx(0.65 / 0.35, rel=1e-4)


CAPTURES = (
    "sglang_h200/triton",
    "cpu_servers/sglang_cpu_059_retract",
    "cpu_servers/llama_server",
    "cpu_servers/vllm_preemption",
)
LOGS = [
    *sorted((FIXTURES / "sglang").glob("*.log")),
    *sorted((FIXTURES / "vllm").glob("*.log")),
    *(FIXTURES / "captures" / f"{name}.log" for name in CAPTURES),
]
METRIC_LINES = sorted(
    {
        line
        for path in LOGS
        for line in path.read_bytes().split(b"\n")
        if any(
            word in line
            for word in (b" batch, #", b"Avg prompt", b"eval time", b"begin.", b"end.", b"ready to roll")
        )
        and len(line) < 500
    }
)


def told(store: SeriesStore) -> list[Stated]:
    return list(store.facts())


def joined(parts: list[bytes]) -> list[SeriesStore]:
    stores, line = [], 1
    for part in parts:
        stores.append(store_of(part, line))
        line += part.count(b"\n")
    return stores


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_a_cut_at_any_line_changes_nothing(path: Path) -> None:
    lines = path.read_bytes().split(b"\n")
    whole = told(store_of(path.read_bytes()))
    for cut in range(0, len(lines), max(1, len(lines) // 25)):
        left, right = joined([b"\n".join(lines[:cut]) + b"\n" if cut else b"", b"\n".join(lines[cut:])])
        assert told(left.merge(right)) == whole


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(METRIC_LINES), max_size=24), st.integers(0, 24), st.integers(0, 24))
def test_merging_is_associative_and_equals_reading_on(lines: list[bytes], i: int, j: int) -> None:
    i, j = sorted((i, j))
    parts = [b"".join(line + b"\n" for line in part) for part in (lines[:i], lines[i:j], lines[j:])]
    a, b, c = joined(parts)
    whole = store_of(b"".join(parts))
    assert told(a.merge(b).merge(c)) == told(a.merge(b.merge(c))) == told(whole)
    reading_on, line = SeriesStore(), 1
    for part in parts:
        read_series(part, reading_on, first_line=line)
        line += part.count(b"\n")
    assert told(reading_on) == told(whole)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from(METRIC_LINES), st.binary(max_size=40)), max_size=6),
    st.integers(0, 200),
    st.binary(max_size=6),
)
def test_never_raises(lines: list[bytes], cut: int, noise: bytes) -> None:
    data = b"\n".join(lines)
    told(store_of(data))
    told(store_of(data[:cut] + noise + data[cut:]))


@pytest.mark.parametrize(
    "unit",
    [
        b"a",
        b"Decode batch, #running-req: 1, ",
        b"Avg prompt throughput: 1.0 tokens/s, ",
        b"eval time = ",
        b"iter = 1, ",
        b"[2026-02-27 15:38:15 TP0] ",
    ],
)
def test_hostile_repetitions_stay_linear(unit: bytes) -> None:
    data = unit * (3_000_000 // len(unit))
    store_of(data)
