"""What the dynamic loader, the CUDA runtime and the kernel compilers refuse, as facts."""

from typing import ClassVar, Literal

from diagnoser.facts.base import Fact


class LoaderError(Fact):
    """A shared library could not be loaded.

    problem: missing_library, undefined_symbol, or symbol_version (a GLIBC or libstdc++ that is too old).
    library: what is missing ("libnvrtc.so.13") or, for symbol_version, what is too old ("libc.so.6").
    stem and so_version: its two halves ("libnvrtc", "13"). cuda_major: the CUDA release that ships a library
    of this number, only for libraries whose number is the CUDA major.
    needed_by: the file (or, where only that is said, the Python module) that wanted it; package: the top
    folder of it in site-packages.
    symbol: as printed; function: its readable name without parameters; signature: with them, None where
    the name cannot be read. origin: who should define it.
    side: which half of a pair is behind. extension_newer and extension_older are relative to the installed
    torch; cxx11_abi: one of the two uses the old C++ string. old_abi_string: the extension asks for the old
    string (True) or the new one (False).
    tag and wanted_version: "GLIBC" and "2.34", or the version of a versioned symbol.
    """

    kind: ClassVar[str] = "loader_error"
    problem: Literal["missing_library", "undefined_symbol", "symbol_version"]
    library: str | None = None
    stem: str | None = None
    so_version: str | None = None
    cuda_major: int | None = None
    needed_by: str | None = None
    package: str | None = None
    symbol: str | None = None
    function: str | None = None
    signature: str | None = None
    origin: Literal["torch", "cuda_driver", "cuda_toolkit", "libstdc++", "python"] | None = None
    side: Literal["extension_newer", "extension_older", "cxx11_abi"] | None = None
    old_abi_string: bool | None = None
    tag: str | None = None
    wanted_version: str | None = None


class CudaError(Fact):
    """A CUDA call failed. code and name as in the CUDA runtime ("cudaErrorSystemNotReady"), None for a text
    that no table knows. sticky: the process cannot go on, later errors of it are echoes."""

    kind: ClassVar[str] = "cuda_error"
    code: int | None = None
    name: str | None = None
    text: str
    sticky: bool = False


class CudaOom(Fact):
    """GPU memory ran out. Sizes in GiB as printed by torch; None: not shown.

    process_gib: all memory of the process that failed; others_gib: what other processes hold, where listed.
    reserved_gib: held by torch's allocator and not allocated (fragments). fragmented: that alone would have
    been enough.
    """

    kind: ClassVar[str] = "cuda_oom"
    gpu: int | None = None
    tried_gib: float | None = None
    total_gib: float | None = None
    free_gib: float | None = None
    process_gib: float | None = None
    others_gib: float | None = None
    allocated_gib: float | None = None
    reserved_gib: float | None = None
    fragmented: bool | None = None


class ArchMismatch(Fact):
    """torch was built without code for this GPU. Architectures as "sm_120"; supported: joined by blanks."""

    kind: ClassVar[str] = "arch_mismatch"
    device: str | None = None
    arch: str
    supported: str | None = None
    supported_max: str | None = None


class DriverTooOld(Fact):
    """torch needs a newer driver. found: the CUDA version the driver offers ("12.8")."""

    kind: ClassVar[str] = "driver_too_old"
    found: str | None = None


class UnknownArch(Fact):
    """A kernel compiler does not know an architecture ("sm_121a"): it is older than the GPU."""

    kind: ClassVar[str] = "unknown_arch"
    arch: str
    tool: Literal["ptxas", "nvcc"]
