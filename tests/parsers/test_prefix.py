"""Every prefix shape that servers, libraries and log daemons print."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnoser.parsers.prefix import read_prefix


def at(*when: int, micro: int = 0) -> float:
    return datetime(*when, microsecond=micro, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]


SHAPES = [
    # SGLang: B, B with tags, B with milliseconds, A, uvicorn inside
    ("[2026-02-27 15:17:28] server_args=x", ("sglang", at(2026, 2, 27, 15, 17, 28), None, None, None, None, "server_args=x")),
    ("[2026-02-27 15:17:28 TP0] Load weight begin.", ("sglang", at(2026, 2, 27, 15, 17, 28), "TP0", None, None, None, "Load weight begin.")),
    ("[2026-02-27 15:17:28 DP1 TP4 PP0] x", ("sglang", at(2026, 2, 27, 15, 17, 28), "DP1 TP4 PP0", None, None, None, "x")),
    (
        "[2026-02-27 15:17:28.123 DP0 PP1 ATTN_CP0 MOE_DP1 TP3 EP3] x",
        ("sglang", at(2026, 2, 27, 15, 17, 28, micro=123000), "DP0 PP1 ATTN_CP0 MOE_DP1 TP3 EP3", None, None, None, "x"),
    ),
    (
        "[2026-02-27 15:17:28] WARNING model_config.py:955: DeepGemm is enabled",
        ("sglang", at(2026, 2, 27, 15, 17, 28), None, "WARNING", "model_config.py", 955, "DeepGemm is enabled"),
    ),
    ("[2026-02-27 15:17:28] INFO:     Started", ("sglang", at(2026, 2, 27, 15, 17, 28), None, "INFO", None, None, "Started")),
    # vLLM: before 0.8, 0.8 to 0.30, from 0.31, uvicorn with a process, raw text with a process
    ("INFO 02-27 15:17:28 model_runner.py:1115] m", ("vllm", at(2026, 2, 27, 15, 17, 28), None, "INFO", "model_runner.py", 1115, "m")),
    ("ERROR 02-27 15:17:28 [core.py:77] m", ("vllm", at(2026, 2, 27, 15, 17, 28), None, "ERROR", "core.py", 77, "m")),
    (
        "(Worker_DP0_TP1_EP1 pid=20) INFO 02-27 15:17:28 [core.py:139] m",
        ("vllm", at(2026, 2, 27, 15, 17, 28), "Worker_DP0_TP1_EP1", "INFO", "core.py", 139, "m"),
    ),
    (
        "(VllmWorker rank=1 pid=42647) DEBUG 02-27 15:17:28 [model_executor/.../quantization/fp8.py:148] m",
        ("vllm", at(2026, 2, 27, 15, 17, 28), "VllmWorker rank=1", "DEBUG", "model_executor/.../quantization/fp8.py", 148, "m"),
    ),
    ("(APIServer pid=1) INFO:     Started", ("vllm", None, "APIServer", "INFO", None, None, "Started")),
    ("(Worker_TP0 pid=4242) Loading shards", ("vllm", None, "Worker_TP0", None, None, None, "Loading shards")),
    ("INFO:     Started server process [1]", (None, None, None, "INFO", None, None, "Started server process [1]")),
    # llama.cpp with and without clock, Ollama
    ("0.01.065.564 I srv  llama_server: model loaded", ("llama.cpp", 1.065564, None, "INFO", None, None, "srv  llama_server: model loaded")),
    ("slot print_timing: id  0 | x", ("llama.cpp", None, None, None, None, None, "slot print_timing: id  0 | x")),
    (
        'time=2026-01-03T14:34:05.924Z level=INFO source=types.go:105 msg="inference compute" id=a',
        ("ollama", at(2026, 1, 3, 14, 34, 5, micro=924000), None, "INFO", "types.go", 105, "inference compute id=a"),
    ),
    # TGI, Dynamo, TensorRT-LLM, Triton
    (
        "2025-03-01T10:00:00.123456Z  INFO text_generation_launcher: t",
        ("tgi", at(2025, 3, 1, 10, micro=123456), None, "INFO", "text_generation_launcher", None, "t"),
    ),
    (
        "2026-05-01T12:00:00.000001Z  WARN dynamo_runtime::pipeline: t k=v",
        ("dynamo", at(2026, 5, 1, 12, micro=1), None, "WARN", "dynamo_runtime::pipeline", None, "t k=v"),
    ),
    ("[05/03/2026-08:26:18] [TRT-LLM] [I] t", ("tensorrt-llm", at(2026, 5, 3, 8, 26, 18), None, "INFO", None, None, "t")),
    ("[05/03/2026-08:26:18] [TRT-LLM] [MPI_Rank 3] [W] t", ("tensorrt-llm", at(2026, 5, 3, 8, 26, 18), "MPI_Rank 3", "WARNING", None, None, "t")),
    ("[05/03/2026-08:26:18] [TRT-LLM] [I] [_torch][RANK 0] t", ("tensorrt-llm", at(2026, 5, 3, 8, 26, 18), "RANK 0", "INFO", None, None, "t")),
    ("[TensorRT-LLM][WARNING] t", ("tensorrt-llm", None, None, "WARNING", None, None, "t")),
    (
        'I0410 16:58:08.485508 1 model_lifecycle.cc:849] "loaded"',
        ("triton", at(2026, 4, 10, 16, 58, 8, micro=485508), None, "INFO", "model_lifecycle.cc", 849, "loaded"),
    ),
    # torch, NCCL, the kernel
    (
        "[rank0]:[W1201 02:36:51.250000000 ProcessGroupNCCL.cpp:1575] w",
        ("torch", at(2026, 12, 1, 2, 36, 51, micro=250000), "rank0", "WARNING", "ProcessGroupNCCL.cpp", 1575, "w"),
    ),
    ("[W1201 01:39:47.500000000 utils.cpp:68] w", ("torch", at(2026, 12, 1, 1, 39, 47, micro=500000), None, "WARNING", "utils.cpp", 68, "w")),
    (
        "W1201 02:01:49.386000 17766 lib/torch/cpp_extension.py:140] w",
        ("torch", at(2026, 12, 1, 2, 1, 49, micro=386000), None, "WARNING", "lib/torch/cpp_extension.py", 140, "w"),
    ),
    ("[rank3]: Traceback (most recent call last):", ("torch", None, "rank3", None, None, None, "Traceback (most recent call last):")),
    ("vm:764:771 [2] NCCL INFO Channel 00", ("nccl", None, "rank2", "INFO", None, None, "Channel 00")),
    (
        "[2025-06-01 10:00:00] vm:764:764 [3] misc/x.cc:12 NCCL WARN boo",
        ("nccl", at(2025, 6, 1, 10), "rank3", "WARN", "misc/x.cc", 12, "boo"),
    ),
    ("[171167.620236] NVRM: x", ("kernel", 171167.620236, None, None, None, None, "NVRM: x")),
    ("[    0.435938] NVRM: x", ("kernel", 0.435938, None, None, None, None, "NVRM: x")),
    ("[Sun Feb 23 16:24:18 2025] NVRM: x", ("kernel", at(2025, 2, 23, 16, 24, 18), None, None, None, None, "NVRM: x")),
    ("Mar  2 09:14:07 host kernel: [ 5312.100001] NVRM: x", ("kernel", at(2026, 3, 2, 9, 14, 7), None, None, None, None, "NVRM: x")),
    ("2026-03-02T09:14:07+0100 host kernel: NVRM: x", ("kernel", at(2026, 3, 2, 8, 14, 7), None, None, None, None, "NVRM: x")),
    ("kern  :err   : [ 5312.100001] NVRM: x", ("kernel", 5312.100001, None, "ERR", None, None, "NVRM: x")),
    # Python's logging, Ray, JSON
    ("2026-02-27 15:17:28,500 - INFO - core.py:123 - flashinfer.jit: m", (None, at(2026, 2, 27, 15, 17, 28, micro=500000), None, "INFO", "core.py", 123, "flashinfer.jit: m")),
    ("INFO 2026-05-01 12:00:00,500 LLM replica req -- m", (None, at(2026, 5, 1, 12, micro=500000), None, "INFO", None, None, "m")),
    (
        "(Server:LLM pid=1, ip=10.0.0.1) (EngineCore pid=2) INFO 02-27 15:17:28 [core.py:1] m",
        ("vllm", at(2026, 2, 27, 15, 17, 28), "EngineCore", "INFO", "core.py", 1, "m"),
    ),
    (
        '{"timestamp":"2025-03-01T10:00:00Z","level":"info","fields":{"message":"m"},"target":"text_generation_router"}',
        ("tgi", at(2025, 3, 1, 10), None, "INFO", "text_generation_router", None, "m"),
    ),
    ("  File \"x.py\", line 3, in f", (None, None, None, None, None, None, "  File \"x.py\", line 3, in f")),
]  # fmt: skip


@pytest.mark.parametrize(("line", "wanted"), SHAPES, ids=[line[:40] for line, _ in SHAPES])
def test_shape(line: str, wanted: tuple[object, ...]) -> None:
    found = read_prefix(line, year=2026)
    assert found[1] == pytest.approx(wanted[1])
    assert (found[0], *found[2:]) == (wanted[0], *wanted[2:])


def test_without_a_year_stamps_count_from_1970_so_that_differences_hold() -> None:
    first = read_prefix("INFO 02-27 23:59:50 [core.py:77] a").at
    second = read_prefix("INFO 02-28 00:00:10 [core.py:77] b").at
    assert first is not None
    assert second is not None
    assert second - first == 20
    assert first < 86_400 * 366


def test_29_february_without_a_year_comes_after_the_28th() -> None:
    before, leap = (read_prefix(f"INFO 02-{day} 00:00:00 [c.py:1] x").at for day in (28, 29))
    assert before is not None
    assert leap == before + 86_400


def test_a_date_that_is_none_gives_no_time() -> None:
    assert read_prefix("[2026-13-45 15:17:28 TP0] x").at is None


@given(st.text(max_size=200), st.sampled_from([line for line, _ in SHAPES]), st.integers(0, 120))
def test_never_raises(noise: str, line: str, cut: int) -> None:
    for text in (noise, line[:cut] + noise, noise + line, line[:cut] + noise + line[cut:]):
        assert isinstance(read_prefix(text).message, str)
