"""What the dynamic loader says when an extension module cannot be loaded.

    ImportError: libnvrtc.so.13: cannot open shared object file: No such file or directory
    -> LoaderError(problem="missing_library", library="libnvrtc.so.13", stem="libnvrtc", cuda_major=13)

Wordings: glibc dl-load.c, dl-lookup.c and dl-version.c; seen alone, in Python's ImportError and OSError, and in
the list of attempts that sgl_kernel prints.
"""

import re
from typing import Literal

from diagnoser.facts.lazy import lazy
from diagnoser.facts.loader import LoaderError
from diagnoser.parsers.bare import bare
from diagnoser.parsers.base import Lines
from diagnoser.parsers.by_literal import by_literal, text
from diagnoser.parsers.demangle import demangle

_MISSING = lazy(r"([\w./+-]{1,400}\.so[\w.]{0,24}): cannot open shared object file")
_STEM = lazy(r"(lib[\w+-]{1,80}|[\w+-]{1,80})\.so(?:\.([\d.]{1,16}))?")
_UNDEFINED = lazy(
    r"([^\s:'\"(]{1,400}): undefined symbol: ([\w$][\w.$]{0,2047})(?:@|,? version ([\w.]{1,64}))?"
)
_VERSION = lazy(
    r"([^\s:'\"(]{1,400}): version [`'‘]([^'’]{1,64})['’] not found(?: \(required by ([^)\s]{1,400})\))?"
)
_PACKAGE = lazy(r"(?:site|dist)-packages/(\w{1,80})")
_WANTED = lazy(r"[Ff]ailed to (?:import|load)(?: from)? ([\w.]{1,120})")
_WANTED_BY_PROGRAM = lazy(r"(\S{1,400}): error while loading shared libraries")
_ATTEMPT = lazy(r"found files: \['([^']{1,400})'")
_IMPORT = lazy(r"\s{0,40}(?:from ([\w.]{1,120}) import|import ([\w.]{1,120}))")

NUMBERED_BY_CUDA = frozenset(
    {"libcudart", "libnvrtc", "libnvrtc-builtins", "libcublas", "libcublasLt", "libnvJitLink", "libcupti"}
)
"""Libraries whose file number is the CUDA major. Others count for themselves: libcudnn.so.9, libcufft.so.11."""

Origin = Literal["torch", "cuda_driver", "cuda_toolkit", "libstdc++", "python"]
_LIBRARY_ORIGIN: tuple[tuple[re.Pattern[str], Origin], ...] = (
    (re.compile(r"libcuda$|libnvidia-"), "cuda_driver"),
    (re.compile(r"lib(cu[a-z]|nvrtc|nvJitLink|nccl|nvshmem|nvToolsExt|npp)"), "cuda_toolkit"),
    (re.compile(r"lib(torch|c10|shm$)"), "torch"),
    (re.compile(r"libstdc\+\+|libgcc_s"), "libstdc++"),
    (re.compile(r"libpython"), "python"),
)
_SYMBOL_ORIGIN: tuple[tuple[re.Pattern[str], Origin], ...] = (
    (re.compile(r"cu[A-Z]\w{1,80}$"), "cuda_driver"),
    (re.compile(r"_{0,2}(cuda|cublas|cudnn|cusparse|cufft|nvrtc|nvJitLink|nccl)[A-Z_]"), "cuda_toolkit"),
    (re.compile(r"_ZN?K?(3c10|2at|5torch|6caffe2|4c10d)|(aoti_torch|torch)_"), "torch"),
    (re.compile(r"_ZN?K?St|__cxa_|__gxx_"), "libstdc++"),
    (re.compile(r"_?Py[A-Z_]"), "python"),
)

Side = Literal["extension_newer", "extension_older", "cxx11_abi"]
_SIDE: tuple[tuple[re.Pattern[str], Side], ...] = (
    # The line number of a CUDA check: int up to torch 2.9, unsigned int later.
    (re.compile(r"c10_cuda_check_implementationEiPKcS2_j"), "extension_newer"),
    (re.compile(r"c10_cuda_check_implementationEiPKcS2_i"), "extension_older"),
    # New in torch 2.14 (seen: an extension for 2.14 on torch 2.11).
    (re.compile(r"CUDAErrorLogCapture"), "extension_newer"),
)
# Every torch has these, so a missing one differs only in its strings.
_IN_EVERY_TORCH = lazy(r"torchCheckFail|torchInternalAssertFail|N3c105ErrorC[12]")


def _origin(name: str, table: tuple[tuple[re.Pattern[str], Origin], ...]) -> Origin | None:
    return next((origin for pattern, origin in table if pattern.match(name)), None)


def _package(path: str | None) -> str | None:
    if path is None:
        return None
    if found := _PACKAGE.search(path):
        return found[1]
    return None if "/" in path else path.partition(".")[0]


def _who_wanted(lines: Lines, i: int) -> str | None:
    """Which file or module needed the library: the loader does not say it, the lines around may."""
    line = text(lines, i)
    for pattern in (_WANTED, _WANTED_BY_PROGRAM):
        if found := pattern.search(line):
            return found[1]
    # sgl_kernel lists its attempts first and the loader's words some twenty lines below.
    if bare(line).text.startswith("- "):
        for j in range(i - 1, max(-1, i - 30), -1):
            if found := _ATTEMPT.search(text(lines, j)):
                return found[1]
    if i > 0 and (found := _IMPORT.match(bare(text(lines, i - 1)).text)):
        return found[1] or found[2]
    return None


def _missing(lines: Lines, i: int) -> LoaderError | None:
    found = _MISSING.search(text(lines, i))
    if found is None:
        return None
    library = found[1].rpartition("/")[2]
    named = _STEM.fullmatch(library)
    stem, number = (named[1], named[2]) if named else (library.partition(".so")[0], None)
    major = number.partition(".")[0] if number and stem in NUMBERED_BY_CUDA else ""
    wanted_by = _who_wanted(lines, i)
    return LoaderError(
        problem="missing_library",
        library=library,
        stem=stem,
        so_version=number,
        cuda_major=int(major) if major else None,
        needed_by=wanted_by,
        package=_package(wanted_by),
        origin=_origin(stem, _LIBRARY_ORIGIN),
    )


def _undefined(lines: Lines, i: int) -> LoaderError | None:
    found = _UNDEFINED.search(text(lines, i))
    if found is None:
        return None
    path, symbol, version = found.groups()
    read = demangle(symbol)
    strings = _old_strings(read.text) if read else None
    side = next((side for pattern, side in _SIDE if pattern.search(symbol)), None)
    if side is None and (strings or (strings is False and _IN_EVERY_TORCH.search(symbol))):
        side = "cxx11_abi"
    return LoaderError(
        problem="undefined_symbol",
        needed_by=path,
        package=_package(path),
        symbol=symbol,
        function=read.name if read else None,
        signature=read.text if read else None,
        origin=_origin(symbol, _SYMBOL_ORIGIN),
        side=side,
        old_abi_string=strings,
        wanted_version=version,
    )


def _old_strings(signature: str) -> bool | None:
    """Whether a signature holds the string of before C++11 (True) or the later one (False)."""
    if "std::string" in signature:
        return True
    return False if "std::__cxx11::basic_string" in signature else None


def _version(lines: Lines, i: int) -> LoaderError | None:
    found = _VERSION.search(text(lines, i))
    if found is None:
        return None
    path, wanted, needed_by = found.groups()
    tag, separator, number = wanted.rpartition("_")
    library = path.rpartition("/")[2]
    named = _STEM.fullmatch(library)
    return LoaderError(
        problem="symbol_version",
        library=library,
        stem=named[1] if named else None,
        so_version=named[2] if named else None,
        needed_by=needed_by,
        package=_package(needed_by),
        origin=_origin(library.partition(".so")[0], _LIBRARY_ORIGIN),
        tag=tag if separator else None,
        wanted_version=number if separator else wanted,
    )


PARSERS = (
    by_literal(
        "loader",
        (
            ("cannot open shared object file", _missing),
            ("undefined symbol: ", _undefined),
            ("' not found", _version),
            ("’ not found", _version),
        ),
    ),
)
