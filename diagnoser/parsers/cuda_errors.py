"""Errors of the CUDA runtime and driver, GPU memory that ran out, GPUs that a build has no code for.

    torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device
    -> CudaError(code=209, name="cudaErrorNoKernelImageForDevice", ...)

Texts and numbers: cudaGetErrorString and driver_types.h of CUDA 11.0 to 13.0. Frames around them: torch 1.13 to
2.9 (c10/cuda, torch/cuda/__init__.py), llama.cpp (ggml-cuda.cu).
"""

import re
from typing import NamedTuple

from diagnoser.facts.base import Found
from diagnoser.facts.lazy import lazy
from diagnoser.facts.loader import ArchMismatch, CudaError, CudaOom, DriverTooOld, UnknownArch
from diagnoser.parsers.bare import bare
from diagnoser.parsers.base import Lines
from diagnoser.parsers.by_literal import by_literal, text


class _Row(NamedTuple):
    code: int
    name: str
    said: str
    driver: str | None = None
    sticky: bool = False


_PLAIN = (
    _Row(1, "cudaErrorInvalidValue", "invalid argument", "INVALID_VALUE"),
    _Row(2, "cudaErrorMemoryAllocation", "out of memory", "OUT_OF_MEMORY"),
    _Row(3, "cudaErrorInitializationError", "initialization error", "NOT_INITIALIZED"),
    _Row(98, "cudaErrorInvalidDeviceFunction", "invalid device function"),
    _Row(101, "cudaErrorInvalidDevice", "invalid device ordinal", "INVALID_DEVICE"),
    _Row(200, "cudaErrorInvalidKernelImage", "device kernel image is invalid", "INVALID_IMAGE"),
    _Row(304, "cudaErrorOperatingSystem", "OS call failed or operation not supported", "OPERATING_SYSTEM"),
    _Row(701, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"),
    _Row(716, "cudaErrorMisalignedAddress", "misaligned address", "MISALIGNED_ADDRESS", sticky=True),
    _Row(800, "cudaErrorNotPermitted", "operation not permitted", "NOT_PERMITTED"),
    _Row(801, "cudaErrorNotSupported", "operation not supported", "NOT_SUPPORTED"),
    _Row(900, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"),
    _Row(999, "cudaErrorUnknown", "unknown error", "UNKNOWN"),
)
"""Texts too common to be looked for without "CUDA error" in front."""

_TELLING = (
    _Row(
        3, "cudaErrorInitializationError", "CUDA driver initialization failed, you might not have a CUDA gpu"
    ),
    _Row(34, "cudaErrorStubLibrary", "CUDA driver is a stub library", "STUB_LIBRARY"),
    _Row(35, "cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"),
    _Row(35, "cudaErrorInsufficientDriver", "Found no NVIDIA driver on your system"),
    _Row(36, "cudaErrorCallRequiresNewerDriver", "API call is not supported in the installed CUDA driver"),
    _Row(46, "cudaErrorDevicesUnavailable", "all CUDA-capable devices are busy or unavailable"),
    _Row(46, "cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable"),
    _Row(100, "cudaErrorNoDevice", "no CUDA-capable device is detected", "NO_DEVICE"),
    _Row(100, "cudaErrorNoDevice", "No CUDA GPUs are available"),
    _Row(
        209,
        "cudaErrorNoKernelImageForDevice",
        "no kernel image is available for execution on the device",
        "NO_BINARY_FOR_GPU",
    ),
    _Row(214, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered", "ECC_UNCORRECTABLE", True),
    _Row(218, "cudaErrorInvalidPtx", "a PTX JIT compilation failed", "INVALID_PTX"),
    _Row(
        220,
        "cudaErrorNvlinkUncorrectable",
        "uncorrectable NVLink error detected",
        "NVLINK_UNCORRECTABLE",
        True,
    ),
    _Row(
        222,
        "cudaErrorUnsupportedPtxVersion",
        "the provided PTX was compiled with an unsupported toolchain",
        "UNSUPPORTED_PTX_VERSION",
    ),
    _Row(700, "cudaErrorIllegalAddress", "an illegal memory access was encountered", "ILLEGAL_ADDRESS", True),
    _Row(702, "cudaErrorLaunchTimeout", "the launch timed out and was terminated", "LAUNCH_TIMEOUT", True),
    _Row(710, "cudaErrorAssert", "device-side assert triggered", "ASSERT", True),
    _Row(714, "cudaErrorHardwareStackError", "hardware stack error", "HARDWARE_STACK_ERROR", True),
    _Row(
        715,
        "cudaErrorIllegalInstruction",
        "an illegal instruction was encountered",
        "ILLEGAL_INSTRUCTION",
        True,
    ),
    _Row(719, "cudaErrorLaunchFailure", "unspecified launch failure", "LAUNCH_FAILED", True),
    _Row(802, "cudaErrorSystemNotReady", "system not yet initialized", "SYSTEM_NOT_READY"),
    _Row(
        803,
        "cudaErrorSystemDriverMismatch",
        "system has unsupported display driver / cuda driver combination",
        "SYSTEM_DRIVER_MISMATCH",
    ),
    _Row(
        804,
        "cudaErrorCompatNotSupportedOnDevice",
        "forward compatibility was attempted on non supported HW",
        "COMPAT_NOT_SUPPORTED_ON_DEVICE",
    ),
    _Row(
        999, "cudaErrorUnknown", "CUDA unknown error - this may be due to an incorrectly set up environment"
    ),
)
"""Texts that nothing but CUDA (or torch in its place) says."""

_BY_LENGTH = tuple(sorted(_PLAIN + _TELLING, key=lambda row: -len(row.said)))
_BY_DRIVER_NAME = {row.driver: row for row in _BY_LENGTH if row.driver}
_HEADED = lazy(r"CUDA(?: driver| runtime)? error: (\S.{0,300})")
_DRIVER_NAME = lazy(r"\bCUDA_ERROR_([A-Z_]{3,40})")


def _fact(row: _Row) -> CudaError:
    return CudaError(code=row.code, name=row.name, text=row.said, sticky=row.sticky)


def _cuda_error(lines: Lines, i: int) -> CudaError | None:
    line = text(lines, i)
    for row in _TELLING:
        if row.said in line:
            return _fact(row)
    if found := _HEADED.search(line):
        words = found[1]
        for row in _BY_LENGTH:
            if words.startswith(row.said):
                return _fact(row)
        if not words.startswith(("no error", "CUDA_ERROR_")):
            return CudaError(text=words.split(". ")[0].strip()[:200])
    if found := _DRIVER_NAME.search(line):
        known = _BY_DRIVER_NAME.get(found[1])
        return _fact(known) if known else CudaError(text=found[0])
    return None


_SIZE = r"(\d{1,12}(?:\.\d{1,4})?) (bytes|KiB|MiB|GiB|TiB)"
_GIB = {"bytes": 2.0**-30, "KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0, "TiB": 1024.0}
_OOM_SIZES = {
    "tried_gib": (rf"Tried to allocate {_SIZE}", rf"allocating {_SIZE} on device"),
    "total_gib": (rf"total capacity of {_SIZE}", rf"{_SIZE} total capacity"),
    "free_gib": (rf"of which {_SIZE} is free", rf"; {_SIZE} free"),
    "process_gib": (rf"this process has {_SIZE} memory in use",),
    "allocated_gib": (rf"{_SIZE} is allocated by PyTorch", rf"{_SIZE} already allocated"),
    "reserved_gib": (rf"{_SIZE} is reserved by PyTorch but unallocated",),
    "held_gib": (rf"{_SIZE} reserved in total by PyTorch",),
}
_OOM_PATTERNS = {
    name: tuple(re.compile(pattern) for pattern in patterns) for name, patterns in _OOM_SIZES.items()
}
_OTHERS = lazy(rf"Process \d{{1,10}} has {_SIZE} memory in use")
_OOM_GPU = lazy(r"\bGPU (\d{1,4})(?: has|;)|on device (\d{1,4}): cudaMalloc failed")


def _gib(amount: str, unit: str) -> float:
    return round(float(amount) * _GIB[unit], 4)


def _oom(lines: Lines, i: int) -> CudaOom:
    line = text(lines, i)
    sizes: dict[str, float] = {}
    for name, patterns in _OOM_PATTERNS.items():
        seen = next((found for pattern in patterns if (found := pattern.search(line))), None)
        if seen:
            sizes[name] = _gib(seen[1], seen[2])
    held = sizes.pop("held_gib", None)
    if held is not None and "allocated_gib" in sizes:
        # Up to torch 2.0 the reserved figure includes what is allocated.
        sizes["reserved_gib"] = round(max(0.0, held - sizes["allocated_gib"]), 4)
    others = [_gib(amount, unit) for amount, unit in _OTHERS.findall(line)]
    gpu = _OOM_GPU.search(line)
    fragmented = None
    if "reserved_gib" in sizes and "tried_gib" in sizes:
        fragmented = sizes["reserved_gib"] >= sizes["tried_gib"]
    return CudaOom(
        gpu=int(gpu[1] or gpu[2]) if gpu else None,
        others_gib=round(sum(others), 4) if others else None,
        fragmented=fragmented,
        **sizes,
    )


_NOT_COMPATIBLE = lazy(r"(.{0,120}?)\s{0,4}with CUDA capability (sm_\w{2,5}) is not compatible")
_SUPPORTS = lazy(r"supports CUDA capabilities ((?:sm_\w{2,5}[ ,]{0,2}){1,40})")
_IS_OF = lazy(r"Found GPU\d{1,4} (.{1,120}?) which is of (?:cuda )?capability (\d{1,2})\.(\d)")
_RANGE = lazy(r"\((\d{1,2})\.(\d)\) - \((\d{1,2})\.(\d)\)")
_ARCH_NUMBER = lazy(r"sm_(\d{2,3})")


def _not_compatible(lines: Lines, i: int) -> Found | None:
    found = _NOT_COMPATIBLE.search(bare(text(lines, i)).text)
    if found is None:
        return None
    listed, last = None, i
    for j in range(i, min(i + 4, len(lines))):
        if seen := _SUPPORTS.search(text(lines, j)):
            listed, last = seen[1].replace(",", " ").split(), j
            break
    fact = ArchMismatch(
        device=found[1].rpartition("UserWarning: ")[2].strip() or None,
        arch=found[2],
        supported=" ".join(listed) if listed else None,
        supported_max=max(listed, key=_arch_number) if listed else None,
    )
    return Found(fact, i, last)


def _arch_number(arch: str) -> int:
    found = _ARCH_NUMBER.match(arch)
    return int(found[1]) if found else 0


def _is_of(lines: Lines, i: int) -> Found | None:
    """torch 2.9 and later give the range instead of the list."""
    found = _IS_OF.search(text(lines, i))
    if found is None:
        return None
    arch = f"sm_{found[2]}{found[3]}"
    for j in range(i, min(i + 4, len(lines))):
        if seen := _RANGE.search(text(lines, j)):
            low, high = f"sm_{seen[1]}{seen[2]}", f"sm_{seen[3]}{seen[4]}"
            fact = ArchMismatch(device=found[1], arch=arch, supported=f"{low} - {high}", supported_max=high)
            return Found(fact, i, j)
    return Found(ArchMismatch(device=found[1], arch=arch), i, i)


_TOO_OLD = lazy(r"driver on your system is too old(?: \(found version (\d{4,6})\))?")
_PTXAS = lazy(r"Value '(sm_\w{2,8})' is not defined for option 'gpu-name'")
_NVCC = lazy(r"Unsupported gpu architecture '(\w{4,16})'")


def _too_old(lines: Lines, i: int) -> DriverTooOld | None:
    found = _TOO_OLD.search(text(lines, i))
    if found is None:
        return None
    number = int(found[1]) if found[1] else None
    return DriverTooOld(found=f"{number // 1000}.{number % 1000 // 10}" if number else None)


def _ptxas(lines: Lines, i: int) -> UnknownArch | None:
    found = _PTXAS.search(text(lines, i))
    return UnknownArch(arch=found[1], tool="ptxas") if found else None


def _nvcc(lines: Lines, i: int) -> UnknownArch | None:
    found = _NVCC.search(text(lines, i))
    return UnknownArch(arch=found[1], tool="nvcc") if found else None


PARSERS = (
    by_literal(
        "cuda_errors",
        (
            *((row.said, _cuda_error) for row in _TELLING),
            ("CUDA error: ", _cuda_error),
            ("CUDA driver error: ", _cuda_error),
            ("CUDA_ERROR_", _cuda_error),
            ("CUDA out of memory", _oom),
            ("CUDA error: out of memory", _oom),
            ("cudaMalloc failed: out of memory", _oom),
            (" is not compatible with the current PyTorch", _not_compatible),
            (" which is of cuda capability ", _is_of),
            ("driver on your system is too old", _too_old),
            ("is not defined for option 'gpu-name'", _ptxas),
            ("Unsupported gpu architecture", _nvcc),
        ),
    ),
)
