"""Exceptions in real logs, in every prefix, interleaved, chained, and pasted without their traceback."""

from pathlib import Path
from typing import Any

import pytest

from diagnoser.facts.base import Found
from diagnoser.facts.engine import ExceptionRaised
from diagnoser.parsers import traceback


def found_in(read: Any, text: str) -> list[Found]:
    return list(read(traceback.PARSERS, text))


def said(read: Any, text: str) -> list[tuple[str, str, str | None, str | None]]:
    return [
        (one.fact.type, one.fact.message, one.fact.where, one.rank)
        for one in found_in(read, text)
        if isinstance(one.fact, ExceptionRaised)
    ]


LOADER = "load_utils.py:_load_architecture_specific_ops"
CRITICAL = "[sgl_kernel] CRITICAL: Could not load any common_ops library!"
NO_OPS = ("ModuleNotFoundError", "No module named 'common_ops'", None, None)

REAL = {
    "h200/host/missing_lib.txt": [
        (
            "OSError",
            "libnvrtc.so.14: cannot open shared object file: No such file or directory",
            "__init__.py:__init__",
            None,
        )
    ],
    "h200/host/no_device.txt": [
        ("RuntimeError", "No CUDA GPUs are available", "__init__.py:_lazy_init", None)
    ],
    "cpu_servers/sgl_kernel_0321_cu12_on_torch_cu130.log": [
        ("ImportError", CRITICAL, LOADER, None),
        (
            "ImportError",
            "libnvrtc.so.12: cannot open shared object file: No such file or directory",
            None,
            None,
        ),
        NO_OPS,
    ],
    "cpu_servers/sglang_err_sgl_kernel_no_common_ops.log": [("ImportError", CRITICAL, LOADER, None), NO_OPS],
    "cpu_servers/sglang_059_cpu_attn_triton.log": [
        (
            "RuntimeError",
            "0 active drivers ([]). There should only be one.",
            "driver.py:_create_driver",
            None,
        )
    ],
    "cpu_servers/sglang_059_cpu_attn_fa3.log": [
        ("AssertionError", "Torch not compiled with CUDA enabled", "__init__.py:_lazy_init", None)
    ],
    "cpu_servers/vllm_err_port_in_use.log": [
        ("OSError", "[Errno 98] Address already in use", "launcher.py:create_server_socket", None)
    ],
    "cpu_servers/vllm_err_missing_libnuma.log": [
        (
            "AttributeError",
            "'_OpNamespace' '_C' object has no attribute 'init_cpu_memory_env'",
            "_ops.py:__getattr__",
            "VllmWorker-0",
        ),
        (
            "Exception",
            "WorkerProc initialization failed due to an exception in a background process. See stack trace for "
            "root cause.",
            "multiproc_executor.py:wait_for_ready",
            "EngineCore",
        ),
        (
            "Exception",
            "WorkerProc initialization failed due to an exception in a background process. See stack trace for "
            "root cause.",
            "multiproc_executor.py:wait_for_ready",
            None,
        ),
        (
            "RuntimeError",
            "Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}",
            "utils.py:wait_for_engine_startup",
            None,
        ),
    ],
    "cpu_servers/vllm_default.log": [
        (
            "vllm.v1.engine.exceptions.EngineDeadError",
            "EngineCore encountered an issue. See stack trace (above) for the root cause.",
            "core_client.py:get_output_async",
            "APIServer",
        )
    ],
}


@pytest.mark.parametrize("log", REAL)
def test_real_logs(log: str, fixtures: Path, read: Any) -> None:
    assert said(read, (fixtures / "captures" / log).read_text(encoding="utf-8")) == REAL[log]


def test_dotted_names_and_long_messages(fixtures: Path, read: Any) -> None:
    ((kind, message, _, _),) = said(
        read, (fixtures / "captures/h200/host/oom.txt").read_text(encoding="utf-8")
    )
    assert kind == "torch.OutOfMemoryError"
    assert message.startswith("CUDA out of memory. Tried to allocate 200.00 GiB.")


def test_pydantic_says_in_the_body_what_is_wrong(fixtures: Path, read: Any) -> None:
    log = fixtures / "captures/cpu_servers/vllm_err_max_model_len.log"
    ((kind, message, where, _),) = said(read, log.read_text(encoding="utf-8"))
    assert kind == "pydantic_core._pydantic_core.ValidationError"
    assert message.startswith(
        "1 validation error for ModelConfig: Value error, User-specified max_model_len (100000) is greater than"
    )
    assert where == "_dataclasses.py:__init__"


def test_chained_blocks_give_each_exception(fixtures: Path, read: Any) -> None:
    log = fixtures / "captures/cpu_servers/sglang_059_cpu_attn_flashinfer.log"
    found = said(read, log.read_text(encoding="utf-8"))
    assert [(kind, where) for kind, _, where, _ in found] == [
        ("StopIteration", "__init__.py:from_name"),
        ("importlib.metadata.PackageNotFoundError", "__init__.py:from_name"),
        ("Exception", "common.py:assert_pkg_version"),
    ]


def test_an_unusual_name_is_found_under_its_header(fixtures: Path, read: Any) -> None:
    log = fixtures / "captures/cpu_servers/tf_sdpa.log"
    names = {kind for kind, _, _, _ in said(read, log.read_text(encoding="utf-8"))}
    assert names == {"huggingface_hub.errors.CacheNotFound"}


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        ("", None),
        ("- ", None),
        ("[2026-02-27 15:17:28 TP3] ", "TP3"),
        ("[2026-02-27 15:17:28 DP1 TP3] ", "DP1 TP3"),
        ("ERROR 01-23 19:29:43 [core.py:396] ", None),
        ("ERROR 01-21 08:05:10 worker_base.py:148] ", None),
        ("(EngineCore_DP0 pid=77352) ERROR 10-22 09:39:16 [core.py:1232] ", "EngineCore_DP0"),
        ("(Worker_TP1 pid=31178) ERROR 06-12 17:42:12 [multiproc_executor.py:866] ", "Worker_TP1"),
        (
            "(VllmWorker rank=5 pid=5999) ERROR 07-23 08:46:14 multiproc_executor.py:783] ",
            "VllmWorker rank=5",
        ),
        ("(EngineCore_DP0 pid=77352) ", "EngineCore_DP0"),
        ("(RayWorkerWrapper pid=12, ip=10.0.0.2) ", "RayWorkerWrapper"),
        ("[rank3]: ", "rank3"),
    ],
)
def test_an_exception_alone_behind_any_prefix(prefix: str, rank: str | None, read: Any) -> None:
    message = "invalid literal for int() with base 10: 'MIG-00000000-1111-5222-9333-444455550001'"
    assert said(read, f"{prefix}ValueError: {message}") == [("ValueError", message, None, rank)]


@pytest.mark.parametrize(
    "line",
    [
        "docker: Error response from daemon: failed to create task for container",
        "Error: No such option: --foo",
        "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old",
        "ncclUnhandledCudaError: Call to CUDA function failed.",
        "Failed to import from vllm._C with ImportError('x')",
        "ERROR:    Exception in ASGI application",
        "see RuntimeError: in the middle of a sentence",
        "AssertionError",
        "Traceback (most recent call last):",
    ],
)
def test_what_is_no_exception(line: str, read: Any) -> None:
    assert said(read, line) == []


def test_a_name_without_message_needs_its_frames(read: Any) -> None:
    text = '  File "/v/a.py", line 3, in check\n    assert ready\n           ^^^^^\nAssertionError'
    assert said(read, text) == [("AssertionError", "", "a.py:check", None)]


def test_an_empty_first_line_gives_way_to_the_next(read: Any) -> None:
    prefix = "(Worker_TP0 pid=9) ERROR 06-12 17:42:12 [x.py:8] "
    text = f"{prefix}ImportError: \n{prefix}\n{prefix}the reason\n{prefix}more"
    (found,) = found_in(read, text)
    assert found.fact == ExceptionRaised(type="ImportError", message="the reason")
    assert (found.first, found.last, found.rank) == (0, 2, "Worker_TP0")


def frames(name: str) -> list[str]:
    return [f'  File "/opt/srt/{name}.py", line 10, in run', "    step()", "    ^^^^^^"]


def test_ranks_mixed_line_by_line(read: Any) -> None:
    stamp = "[2026-02-27 15:17:28 TP{}] Scheduler hit an exception: Traceback (most recent call last):"
    a, b = frames("scheduler"), frames("scheduler")
    lines = [
        stamp.format(0),
        a[0],
        stamp.format(1),
        b[0],
        "[2026-02-27 15:17:28 TP2] Load weight begin. avail mem=94.97 GB",
        *a[1:],
        *b[1:],
        "RuntimeError: first",
        "RuntimeError: second",
    ]
    assert said(read, "\n".join(lines)) == [
        ("RuntimeError", "first", "scheduler.py:run", "TP0"),
        ("RuntimeError", "second", "scheduler.py:run", "TP1"),
    ]


def test_ranks_one_after_the_other(read: Any) -> None:
    lines: list[str] = []
    for rank in (4, 2):
        lines.append(
            f"[2026-02-27 15:17:28 TP{rank}] Scheduler hit an exception: Traceback (most recent call last):"
        )
        lines += [*frames(f"part{rank}"), f"RuntimeError: from {rank}", ""]
    assert said(read, "\n".join(lines)) == [
        ("RuntimeError", "from 4", "part4.py:run", "TP4"),
        ("RuntimeError", "from 2", "part2.py:run", "TP2"),
    ]


def test_a_chain_keeps_the_rank_of_its_header(read: Any) -> None:
    lines = [
        "[2026-02-27 15:17:28 TP3] Scheduler hit an exception: Traceback (most recent call last):",
        *frames("inner"),
        "KeyError: 'x'",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        *frames("outer"),
        "RuntimeError: cannot go on",
    ]
    assert said(read, "\n".join(lines)) == [
        ("KeyError", "'x'", "inner.py:run", "TP3"),
        ("RuntimeError", "cannot go on", "outer.py:run", "TP3"),
    ]


def test_workers_mixed_line_by_line(read: Any) -> None:
    heads = [f"(Worker_TP{rank} pid={rank}) ERROR 06-12 17:42:12 [mp.py:8] " for rank in (0, 1)]
    bodies = [
        ["Traceback (most recent call last):", *frames(f"w{rank}"), f"RuntimeError: r{rank}"]
        for rank in (0, 1)
    ]
    lines = [heads[rank] + body for pair in zip(*bodies, strict=True) for rank, body in enumerate(pair)]
    assert said(read, "\n".join(lines)) == [
        ("RuntimeError", "r0", "w0.py:run", "Worker_TP0"),
        ("RuntimeError", "r1", "w1.py:run", "Worker_TP1"),
    ]


def test_a_pasted_line_does_not_take_the_frames_of_another_traceback(read: Any) -> None:
    lines = [
        "Traceback (most recent call last):",
        *frames("a"),
        "RuntimeError: whole",
        "ValueError: pasted",
    ]
    assert said(read, "\n".join(lines)) == [
        ("RuntimeError", "whole", "a.py:run", None),
        ("ValueError", "pasted", None, None),
    ]


def test_an_exception_group(read: Any) -> None:
    text = """\
  + Exception Group Traceback (most recent call last):
  |   File "/v/main.py", line 4, in main
  |     run()
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/v/task.py", line 9, in work
    |     raise ValueError("no")
    | ValueError: no
    +------------------------------------"""
    assert said(read, text) == [
        ("ExceptionGroup", "unhandled errors in a TaskGroup (1 sub-exception)", "main.py:main", None),
        ("ValueError", "no", "task.py:work", None),
    ]


def test_what_follows_a_cut_traceback_is_not_its_end(read: Any) -> None:
    assert said(read, "\n".join(["Traceback (most recent call last):", *frames("a"), "Killed"])) == []


def test_a_thrown_cpp_exception(read: Any) -> None:
    text = "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  NCCL timeout"
    assert said(read, text) == [("c10::DistBackendError", "NCCL timeout", None, None)]
