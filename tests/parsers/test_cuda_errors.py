"""CUDA errors, memory that ran out, and builds without code for a GPU."""

from pathlib import Path
from typing import Any

import pytest

from diagnoser.facts.base import Fact
from diagnoser.facts.loader import ArchMismatch, CudaError, CudaOom, DriverTooOld, UnknownArch
from diagnoser.parsers import cuda_errors


def facts(read: Any, text: str) -> list[Fact]:
    return [found.fact for found in read(cuda_errors.PARSERS, text)]


@pytest.mark.parametrize(
    ("line", "code", "sticky"),
    [
        ("RuntimeError: CUDA error: an illegal memory access was encountered", 700, True),
        ("torch.AcceleratorError: CUDA error: an illegal instruction was encountered", 715, True),
        ("CUDA error: no kernel image is available for execution on the device", 209, False),
        ("(Worker pid=1) ERROR 06-12 17:42:12 [x.py:8] RuntimeError: CUDA error: invalid argument", 1, False),
        ("RuntimeError: CUDA driver error: device kernel image is invalid", 200, False),
        ("Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized", 802, False),
        ("what():  CUDA error: unspecified launch failure", 719, True),
        ("RuntimeError: No CUDA GPUs are available", 100, False),
        ("ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected", 100, False),
        ("pycuda._driver.LogicError: cuInit failed: CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", 804, False),
        ("CUDA error: uncorrectable ECC error encountered", 214, True),
        ("CUDA error: something nobody knows. Please report", None, False),
    ],
)
def test_codes(line: str, code: int | None, sticky: bool, read: Any) -> None:
    (fact,) = facts(read, line)
    assert isinstance(fact, CudaError)
    assert (fact.code, fact.sticky) == (code, sticky)
    assert (fact.name is None) == (code is None)


@pytest.mark.parametrize(
    "line",
    [
        "CUDA error: no error",
        "CUDA kernel errors might be asynchronously reported at some other API call",
        "ValueError: This may lead to incorrect model outputs or CUDA errors. Note that",
        "invalid argument",
    ],
)
def test_what_is_no_error(line: str, read: Any) -> None:
    assert facts(read, line) == []


def test_memory_ran_out_on_a_real_gpu(fixtures: Path, read: Any) -> None:
    text = (fixtures / "captures/h200/host/oom.txt").read_text(encoding="utf-8")
    assert facts(read, text) == [
        CudaOom(
            gpu=0,
            tried_gib=200.0,
            total_gib=139.8,
            free_gib=139.29,
            process_gib=0.5059,
            allocated_gib=0.0,
            reserved_gib=0.0,
            fragmented=False,
        )
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 1; 23.69 GiB "
            "total capacity; 22.01 GiB already allocated; 12.50 MiB free; 22.50 GiB reserved in total by "
            "PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb",
            CudaOom(
                gpu=1,
                tried_gib=0.0195,
                total_gib=23.69,
                free_gib=0.0122,
                allocated_gib=22.01,
                reserved_gib=0.49,
                fragmented=True,
            ),
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity "
            "of 79.11 GiB of which 1.19 GiB is free. Process 41 has 40.00 GiB memory in use. Process 42 has "
            "37.50 GiB memory in use. Of the allocated memory 36.00 GiB is allocated by PyTorch, with 0 bytes "
            "allocated in private pools (e.g., CUDA Graphs), and 512.00 MiB is reserved by PyTorch but "
            "unallocated.",
            CudaOom(
                gpu=0,
                tried_gib=2.0,
                total_gib=79.11,
                free_gib=1.19,
                others_gib=77.5,
                allocated_gib=36.0,
                reserved_gib=0.5,
                fragmented=False,
            ),
        ),
        (
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 16384.00 MiB on device 0: cudaMalloc failed: "
            "out of memory",
            CudaOom(gpu=0, tried_gib=16.0),
        ),
    ],
)
def test_memory_figures(line: str, expected: CudaOom, read: Any) -> None:
    assert facts(read, line) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "/v/torch/cuda/__init__.py:287: UserWarning: \n"
            "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch "
            "installation.\n"
            "The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90.",
            ArchMismatch(
                device="NVIDIA GeForce RTX 5090",
                arch="sm_120",
                supported="sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90",
                supported_max="sm_90",
            ),
        ),
        (
            "    Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.\n"
            "    Minimum and Maximum cuda capability supported by this version of PyTorch is\n"
            "    (8.0) - (12.0)",
            ArchMismatch(
                device="NVIDIA GB10", arch="sm_121", supported="sm_80 - sm_120", supported_max="sm_120"
            ),
        ),
        (
            "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).",
            DriverTooOld(found="11.4"),
        ),
        (
            "nvcc fatal   : Unsupported gpu architecture 'compute_120'",
            UnknownArch(arch="compute_120", tool="nvcc"),
        ),
    ],
)
def test_builds_behind_the_hardware(text: str, expected: Fact, read: Any) -> None:
    assert facts(read, text) == [expected]
