"""Loader errors: real failures of sgl_kernel and vLLM, and the wordings of incident reports."""

from pathlib import Path
from typing import Any

import pytest

from diagnoser.facts.loader import LoaderError
from diagnoser.parsers import loader
from diagnoser.parsers.demangle import demangle

CHECK = "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_"


def facts(read: Any, text: str) -> list[LoaderError]:
    return [found.fact for found in read(loader.PARSERS, text)]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            "sgl_kernel_0321_cu12_on_torch_cu130.log",
            {"problem": "missing_library", "library": "libnvrtc.so.12", "cuda_major": 12},
        ),
        (
            "sglang_kernel_045_missing_libnvrtc13.log",
            {"problem": "missing_library", "library": "libnvrtc.so.13", "cuda_major": 13},
        ),
        (
            "sglang_kernel_0410_torch214_on_torch211.log",
            {
                "problem": "undefined_symbol",
                "function": "c10::cuda::CUDAErrorLogCapture::CUDAErrorLogCapture",
                "side": "extension_newer",
                "origin": "torch",
            },
        ),
    ],
)
def test_sgl_kernel_names_the_library_that_needs_it(
    log: str, expected: dict[str, object], fixtures: Path, read: Any
) -> None:
    (fact,) = facts(read, (fixtures / "captures/cpu_servers" / log).read_text(encoding="utf-8"))
    assert {name: getattr(fact, name) for name in expected} == expected
    assert fact.package == "sgl_kernel"
    assert fact.needed_by == "/opt/llm/lib/python3.12/site-packages/sgl_kernel/sm90/common_ops.abi3.so"


def test_a_missing_python_module_is_no_loader_error(fixtures: Path, read: Any) -> None:
    log = fixtures / "captures/cpu_servers/sglang_err_sgl_kernel_no_common_ops.log"
    assert facts(read, log.read_text(encoding="utf-8")) == []


def test_vllm_says_which_module_it_failed_to_import(fixtures: Path, read: Any) -> None:
    log = fixtures / "captures/cpu_servers/vllm_err_missing_libnuma.log"
    assert set(facts(read, log.read_text(encoding="utf-8"))) == {
        LoaderError(
            problem="missing_library",
            library="libnuma.so.1",
            stem="libnuma",
            so_version="1",
            needed_by="vllm._C",
            package="vllm",
        )
    }


def test_a_provoked_error_on_a_real_machine(fixtures: Path, read: Any) -> None:
    (fact,) = facts(read, (fixtures / "captures/h200/host/missing_lib.txt").read_text(encoding="utf-8"))
    assert (fact.library, fact.cuda_major, fact.needed_by) == ("libnvrtc.so.14", 14, None)


@pytest.mark.parametrize(
    ("symbol", "side", "old_strings"),
    [
        (CHECK + "jb", "extension_newer", None),
        (CHECK + "jbPNS0_19CUDAErrorLogCaptureE", "extension_newer", None),
        (CHECK + "ib", "extension_older", None),
        ("_ZN3c105ErrorC2ENS_14SourceLocationESs", "cxx11_abi", True),
        (
            "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
            "cxx11_abi",
            False,
        ),
        ("_ZN5torch3jit17parseSchemaOrNameERKSsb", "cxx11_abi", True),
        ("_ZN3c104cuda9SetDeviceEa", None, None),
        ("_ZN5torch7Library4_defE", None, None),
    ],
)
def test_which_half_is_behind(symbol: str, side: str | None, old_strings: bool | None, read: Any) -> None:
    line = f"ImportError: /v/site-packages/vllm/_C.abi3.so: undefined symbol: {symbol}"
    (fact,) = facts(read, line)
    assert (fact.side, fact.old_abi_string, fact.origin) == (side, old_strings, "torch")
    assert (fact.package, fact.symbol) == ("vllm", symbol)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "WARNING 07-21 19:50:14 _custom_ops.py:19] Failed to import from vllm._C with "
            "ImportError('/u/site-packages/vllm/_C.abi3.so: undefined symbol: cuTensorMapEncodeTiled')",
            {
                "symbol": "cuTensorMapEncodeTiled",
                "origin": "cuda_driver",
                "function": None,
                "package": "vllm",
            },
        ),
        (
            "python3: symbol lookup error: /u/dist-packages/torch/lib/libtorch_cuda.so: undefined symbol: "
            "__nvJitLinkComplete_12_4, version libnvJitLink.so.12",
            {"origin": "cuda_toolkit", "wanted_version": "libnvJitLink.so.12", "package": "torch"},
        ),
        (
            "trtllm-serve: error while loading shared libraries: libnccl.so.2: cannot open shared object file: "
            "No such file or directory",
            {"library": "libnccl.so.2", "cuda_major": None, "needed_by": "trtllm-serve"},
        ),
        (
            "OSError: libcuda.so.1: cannot open shared object file: No such file or directory",
            {"origin": "cuda_driver", "cuda_major": None, "stem": "libcuda"},
        ),
        (
            "ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.32' not found "
            "(required by /v/site-packages/flashinfer/x.so)",
            {"tag": "GLIBCXX", "wanted_version": "3.4.32", "origin": "libstdc++", "package": "flashinfer"},
        ),
    ],
)
def test_wordings(line: str, expected: dict[str, object], read: Any) -> None:
    (fact,) = facts(read, line)
    assert {name: getattr(fact, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("symbol", "text"),
    [
        (CHECK + "ib", "c10::cuda::c10_cuda_check_implementation(int, char const*, char const*, int, bool)"),
        (
            "_ZN2at4_ops15to_dtype_layout4callERKNS_6TensorEN3c108optionalINS5_10ScalarTypeEEE",
            "at::_ops::to_dtype_layout::call(at::Tensor const&, c10::optional<c10::ScalarType>)",
        ),
        (
            "_ZN3c1013MessageLoggerC1EPKciib",
            "c10::MessageLogger::MessageLogger(char const*, int, int, bool)",
        ),
        ("_ZNK5torch8autograd4Node4nameEv", "torch::autograd::Node::name() const"),
        ("_ZTIN3c105ErrorE", "typeinfo for c10::Error"),
        ("_ZNSt8functionIFvvEEC1ERKS1_", "std::function<void ()>::function(std::function<void ()> const&)"),
    ],
)
def test_demangle(symbol: str, text: str) -> None:
    read = demangle(symbol)
    assert read is not None
    assert read.text == text


@pytest.mark.parametrize("symbol", ["", "cuInit", "_Z", "_ZN", "_ZN3c1", "_ZN99999a", "_ZS9_", "_Z1fT_"])
def test_what_is_no_name_gives_none(symbol: str) -> None:
    assert demangle(symbol) is None


def test_names_that_double_are_bounded() -> None:
    # Every pair holds the one before twice: its text would have 2 ** 40 words.
    doubled = "_Z1fSt4pairIiiE" + "".join(f"S_IS{'' if i == 0 else i - 1}_S_E" for i in range(40))
    assert demangle(doubled) is None or len(demangle(doubled).text) < 100_000  # type: ignore[union-attr]
