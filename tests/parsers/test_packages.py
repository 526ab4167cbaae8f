"""Package lists and software reports."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from diagnoser.facts.base import Fact, Found
from diagnoser.facts.engine import EnvVar
from diagnoser.facts.packages import CudaToolkit, Driver, GpuName, Package, TorchBuild
from diagnoser.parsers.packages import PARSERS

Read = Callable[[Sequence[Any], str], list[Found]]
Of = Callable[[str], list[Fact]]

CHECK_ENV = """\
Python: 3.12.3 (main, Aug 31 2026, 10:18:26) [GCC 13.3.0]
CUDA available: True
GPU 0,1,2,3,4,5,6,7: NVIDIA RTX PRO 6000 Blackwell Server Edition
GPU 0,1,2,3,4,5,6,7 Compute Capability: 12.0
CUDA_HOME: /usr/local/cuda
NVCC: Cuda compilation tools, release 13.0, V13.0.88
CUDA Driver Version: 580.95.05
PyTorch: 2.9.1+cu130
sglang: 0.5.9
sgl_kernel: 0.3.21
flashinfer_python: 0.6.4
flashinfer_jit_cache: Module Not Found
ulimit soft: 1048576"""

CONDA = """\
# packages in environment at /opt/conda:
#
# Name                    Version                   Build  Channel
numpy                     2.1.3           py312h58c1407_0  conda-forge
pytorch-cuda              12.4                 h3fd98bf_7  pytorch
torch                     2.5.1+cu124              pypi_0  pypi"""


@pytest.fixture
def facts(read: Read) -> Of:
    return lambda text: [found.fact for found in read(PARSERS, text)]


@pytest.fixture
def blocks() -> Callable[[str], dict[str, range]]:
    def of(text: str) -> dict[str, range]:
        lines = text.split("\n")
        found: dict[str, range] = {}
        for parser in PARSERS:
            end = 0
            for i, line in enumerate(lines):
                if parser.extent and i >= end and any(literal in line for literal in parser.literals):
                    extent = parser.extent(lines, i)
                    if extent:
                        found[parser.document or ""], end = extent, extent.stop
        return found

    return of


def test_a_whole_pip_list(facts: Of, fixtures: Path, blocks: Callable[[str], dict[str, range]]) -> None:
    text = (fixtures / "captures/h200/host/pip_list.txt").read_text(encoding="utf-8")
    found = facts(text)
    assert Package(name="torch", version="2.11.0", source="pip list") in found
    assert Package(name="nvidia-cudnn-cu13", version="9.19.0.56", source="pip list") in found
    assert len([fact for fact in found if isinstance(fact, Package)]) == 197
    assert blocks(text) == {"pip list": range(199)}


def test_a_pip_list_in_the_middle_of_other_output(facts: Of, fixtures: Path) -> None:
    found = facts((fixtures / "captures/h200/env.txt").read_text(encoding="utf-8"))
    assert Package(name="sglang", version="0.5.17", source="pip list") in found
    assert Package(name="flashinfer-python", version="0.6.15.post1", source="pip list") in found
    assert Package(name="sglang-kernel", version="0.4.5", source="pip list") in found
    assert CudaToolkit(version="13.0.88", where="nvcc") in found


def test_what_grep_left_of_a_pip_list_is_a_list(
    facts: Of, fixtures: Path, blocks: Callable[[str], dict[str, range]]
) -> None:
    text = (fixtures / "vllm/07_abi_mismatch_v0.16.0.log").read_text(encoding="utf-8")
    assert blocks(text)["pip list"] == range(17, 21)
    assert Package(name="nvidia-cuda-runtime-cu12", version="12.8.90", source="pip list") in facts(text)
    assert blocks("torch                       2.13.0\n[2026-09-01 13:16:04] server_args=x") == {}


def test_pip_freeze(facts: Of, fixtures: Path) -> None:
    found = facts((fixtures / "captures/h200/host/pip_freeze.txt").read_text(encoding="utf-8"))
    assert Package(name="torch", version="2.11.0", source="pip freeze") in found
    assert Package(name="nvidia-nccl-cu13", version="2.28.9", source="pip freeze") in found


def test_freeze_with_local_versions_urls_and_editables(facts: Of) -> None:
    found = facts(
        "torch==2.9.1+cu130\n-e git+https://x/y@abc#egg=z\nsgl_kernel @ file:///w/sgl_kernel-0.3.21%2Bcu130-cp310-abi3-x.whl\n"
        "flashinfer-jit-cache==0.6.4+cu130"
    )
    assert Package(name="torch", version="2.9.1", local="cu130", source="pip freeze") in found
    assert Package(name="sgl-kernel", version="0.3.21", local="cu130", source="pip freeze") in found
    assert Package(name="flashinfer-jit-cache", version="0.6.4", local="cu130", source="pip freeze") in found


def test_conda_list(facts: Of, blocks: Callable[[str], dict[str, range]]) -> None:
    assert Package(name="torch", version="2.5.1", local="cu124", source="conda list") in facts(CONDA)
    assert Package(name="pytorch-cuda", version="12.4", source="conda list") in facts(CONDA)
    assert blocks(CONDA)["conda list"] == range(6)


def test_torch_collect_env(facts: Of, fixtures: Path, blocks: Callable[[str], dict[str, range]]) -> None:
    text = (fixtures / "captures/h200/host/torch_collect_env.txt").read_text(encoding="utf-8")
    found = facts(text)
    assert TorchBuild(version="2.11.0+cu130", cuda="13.0") in found
    assert Package(name="torch", version="2.11.0", local="cu130", source="collect-env") in found
    assert CudaToolkit(version="13.0.88", where="nvcc") in found
    assert Driver(version="580.159.04") in found
    assert GpuName(name="NVIDIA H200", count=1, arch="sm90") in found
    assert Package(name="cudnn", version="9.14.0", source="collect-env") in found
    assert Package(name="nvidia-cudnn-cu13", version="9.19.0.56", source="collect-env") in found
    assert Package(name="glibc", version="2.39", source="collect-env") in found
    assert blocks(text)["collect-env"] == range(1, 112)


def test_vllm_collect_env(facts: Of) -> None:
    found = facts(
        "==============================\n        System Info\n==============================\n"
        "OS                           : Ubuntu 22.04.5 LTS (x86_64)\n"
        "Libc version                 : glibc-2.35\n"
        "PyTorch version              : 2.8.0+cu128\n"
        "CUDA used to build PyTorch   : 12.8\n"
        "GPU models and configuration : \nGPU 0: NVIDIA H100 80GB HBM3\nGPU 1: NVIDIA H100 80GB HBM3\n\n"
        "Nvidia driver version        : 550.54.15\n"
        "[pip3] flashinfer-python==0.3.1\n"
        "vLLM Version                 : 0.11.0"
    )
    assert TorchBuild(version="2.8.0+cu128", cuda="12.8") in found
    assert GpuName(name="NVIDIA H100 80GB HBM3", count=2, arch="sm90") in found
    assert Driver(version="550.54.15") in found
    assert Package(name="vllm", version="0.11.0", source="collect-env") in found
    assert Package(name="flashinfer-python", version="0.3.1", source="collect-env") in found


def test_sglang_check_env(facts: Of, blocks: Callable[[str], dict[str, range]]) -> None:
    found = facts("$ python3 -m sglang.check_env\n" + CHECK_ENV)
    name = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    assert GpuName(name=name, count=8, compute_capability="12.0", arch="sm120") in found
    assert CudaToolkit(version="13.0.88", where="/usr/local/cuda") in found
    assert EnvVar(name="CUDA_HOME", value="/usr/local/cuda") in found
    assert Driver(version="580.95.05") in found
    assert TorchBuild(version="2.9.1+cu130") in found
    assert Package(name="sgl-kernel", version="0.3.21", source="check_env") in found
    assert Package(name="flashinfer-jit-cache", source="check_env", installed=False) in found
    assert blocks(CHECK_ENV)["check_env"] == range(13)


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("torch                       2.13.0", Package(name="torch", version="2.13.0", source="pip list")),
        ("flashinfer-python==0.6.4", Package(name="flashinfer-python", version="0.6.4", source="pip freeze")),
        ("Cuda compilation tools, release 12.8, V12.8.93", CudaToolkit(version="12.8.93", where="nvcc")),
        (
            "Current Environment: PyTorch 2.9.1+cu130 | CuDNN 9.13",
            TorchBuild(version="2.9.1+cu130", cuda="13.0", cudnn="9.13"),
        ),
        ("2.9.1+cu128 12.8 ['sm_70', 'sm_120']", TorchBuild(version="2.9.1+cu128", cuda="12.8")),
        (
            "[2026-02-27 15:31:19 TP0] sglang is using nccl==2.27.5",
            Package(name="nccl", version="2.27.5", source="log"),
        ),
        (
            "RuntimeError: flashinfer-cubin version (0.6.8.post1) does not match flashinfer version (0.6.10). Please",
            Package(name="flashinfer-cubin", version="0.6.8.post1", source="log"),
        ),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.07  Sat Feb 17 22:55:48 UTC 2024",
            Driver(version="535.161.07"),
        ),
        ("Name: vllm\nVersion: 0.11.0", Package(name="vllm", version="0.11.0", source="pip show")),
    ],
)
def test_single_lines(facts: Of, line: str, fact: Fact) -> None:
    assert fact in facts(line)


@pytest.mark.parametrize(
    "line",
    [
        "    pip install nvidia-cudnn-cu12==9.16.0.29",
        "INFO 02-27 15:17:28 [core.py:1] installing torch==2.9.1 may help",
        "torch  is not installed",
        "vllm  serve Qwen/Qwen3-8B",
    ],
)
def test_lines_that_only_mention_a_package(facts: Of, line: str) -> None:
    assert not [fact for fact in facts(line) if isinstance(fact, Package)]
