"""Software reports of ``key: value`` lines: torch's and vLLM's collect_env, sglang's check_env.

PyTorch version: 2.11.0+cu130              Python: 3.12.3 (main, ...)
CUDA used to build PyTorch: 13.0           GPU 0,1: NVIDIA RTX PRO 6000 Blackwell Server Edition
GPU models and configuration: GPU 0: ...   GPU 0,1 Compute Capability: 12.0
Nvidia driver version: 580.159.04          CUDA Driver Version: 580.95.05
[pip3] triton==3.6.0                       flashinfer_jit_cache: Module Not Found
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator

from diagnoser.facts.base import Fact, Found
from diagnoser.facts.engine import EnvVar
from diagnoser.facts.lazy import lazy
from diagnoser.facts.packages import CudaToolkit, Driver, Package, TorchBuild, normalise
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.gpu_name import gpu_name
from diagnoser.parsers.statement import LIMIT

MAX_REPORT = 700
MAX_GAP = 12
"""Unknown lines in a row (blank ones count) that a report may hold: lists of cuDNN files, CPU flags."""

NEAR = 25
"""How near to each other three keys must stand."""

_KEY = lazy(r"([A-Za-z][\w .,()/\-]{1,60}?)\s{0,40}: ?(.{0,1000})$")
_VERSION = lazy(r"(\d[\w.]{0,60})(?:\+([\w.]{1,40}))?")
_PIP_ROW = lazy(
    r"\[(?:pip3?|conda)\] ([A-Za-z0-9][\w.\-]{0,100})(?:==|\s{1,60})(\d[\w.]{0,60})(?:\+([\w.]{1,40}))?"
)
_GPU_ROW = lazy(
    r"(?:GPU models and configuration\s{0,20}: {0,2})?GPU (\d{1,3}): (.{1,90}?)(?: \(UUID.{0,60})?\s*$"
)
_CUDNN_FILE = lazy(r"\S{0,200}libcudnn\.so\.(\d{1,2}\.\d{1,3}(?:\.\d{1,3})?)\s*$")

_COLLECT_KEYS = frozenset(
    {
        "PyTorch version",
        "Is debug build",
        "CUDA used to build PyTorch",
        "ROCM used to build PyTorch",
        "OS",
        "GCC version",
        "Clang version",
        "CMake version",
        "Libc version",
        "Python version",
        "Python platform",
        "Is CUDA available",
        "CUDA runtime version",
        "CUDA_MODULE_LOADING set to",
        "GPU models and configuration",
        "Nvidia driver version",
        "cuDNN version",
        "HIP runtime version",
        "MIOpen runtime version",
        "Is XPU available",
        "Is XNNPACK available",
        "Caching allocator config",
        "CPU",
        "Versions of relevant libraries",
        "vLLM Version",
        "vLLM Build Flags",
        "ROCM Version",
        "Neuron SDK Version",
        "GPU Topology",
        "CUDA Archs",
    }
)
_LSCPU = lazy(
    r"(?:Architecture|CPU |Address sizes|Byte Order|CPU\(s\)|On-line|Vendor ID|Model|Thread|Core|Socket|Stepping|"
    r"BogoMIPS|Flags|Hypervisor|Virtualization|L\d|NUMA|Vulnerability|Frequency|Caches)"
)


def _collect_line(line: str) -> bool:
    if line.startswith(("[pip", "[conda]", "Collecting environment", "=====")) or _GPU_ROW.match(line):
        return True
    key = _KEY.match(line)
    return key is not None and (key[1] in _COLLECT_KEYS or _LSCPU.match(line) is not None)


def _is_report(lines: Lines, i: int, keys: Callable[[str], str | None]) -> bool:
    """Do three different keys stand near line i?"""
    near = (keys(lines[k][:LIMIT]) for k in range(max(0, i - NEAR), min(len(lines), i + NEAR)))
    return len({key for key in near if key is not None}) >= 3


def _grow(lines: Lines, i: int, step: int, belongs: Callable[[str], bool]) -> int:
    """The last line in a direction that belongs to the report, over gaps of other lines."""
    edge = k = i
    while 0 <= k + step < len(lines) and abs(k - i) < MAX_REPORT and abs(k - edge) < MAX_GAP:
        k += step
        line = lines[k][:LIMIT]
        if line.startswith(("$ ", "# ", "| NVIDIA-SMI", "server_args=")):
            break
        if belongs(line):
            edge = k
    return edge


def _collect_key(line: str) -> str | None:
    if line.startswith("[pip"):
        return line[:40]
    key = _KEY.match(line)
    return key[1] if key is not None and key[1] in _COLLECT_KEYS else None


def collect_extent(lines: Lines, i: int) -> range | None:
    """The report around line i, with three of its keys or package lines at least."""
    if not _is_report(lines, i, _collect_key):
        return None
    return range(_grow(lines, i, -1, _collect_line), _grow(lines, i, 1, _collect_line) + 1)


def parse_collect(lines: Lines, _: int) -> Iterator[Found]:
    """Packages, torch's build, toolkit, driver, GPUs, the cuDNN files that the loader knows."""
    torch: dict[str, tuple[str, int]] = {}
    gpus: Counter[str] = Counter()
    gpu_lines: dict[str, int] = {}
    for k in range(len(lines)):
        line = lines[k][:LIMIT].rstrip()
        gpu = _GPU_ROW.match(line)
        row = _PIP_ROW.match(line)
        cudnn = _CUDNN_FILE.match(line.removeprefix("cuDNN version: "))
        key = _KEY.match(line)
        if gpu is not None:
            gpus[gpu[2]] += 1
            gpu_lines.setdefault(gpu[2], k)
        elif row is not None:
            yield Found(_package(row[1], row[2], row[3], "collect-env"), k, k)
        elif cudnn is not None:
            yield Found(Package(name="cudnn", version=cudnn[1], source="collect-env"), k, k)
        elif key is not None:
            value = key[2].strip()
            if key[1] in ("PyTorch version", "CUDA used to build PyTorch") and value[:1].isdigit():
                torch[key[1]] = (value, k)
            for fact in _collect_facts(key[1], value):
                yield Found(fact, k, k)
    if torch:
        places = [place for _, place in torch.values()]
        version, cuda = (
            torch.get(name, (None, 0))[0] for name in ("PyTorch version", "CUDA used to build PyTorch")
        )
        yield Found(TorchBuild(version=version, cuda=cuda), min(places), max(places))
    for name, count in gpus.items():
        yield Found(gpu_name(name, count), gpu_lines[name], gpu_lines[name])


def _collect_facts(key: str, value: str) -> Iterator[Fact]:
    version = _VERSION.match(value.removeprefix("glibc-"))
    if version is None:
        return
    name = {
        "PyTorch version": "torch",
        "Python version": "python",
        "Libc version": "glibc",
        "vLLM Version": "vllm",
    }.get(key)
    if name is not None:
        yield _package(name, version[1], version[2], "collect-env")
    elif key == "CUDA runtime version":
        yield CudaToolkit(version=version[1], where="nvcc")
    elif key == "Nvidia driver version":
        yield Driver(version=version[1])


def _package(name: str, version: str | None, local: str | None, source: str) -> Package:
    return Package(name=normalise(name), version=version, local=local, source=source)


_CHECK_GPU = lazy(r"GPU ([\d,]{1,200}): (.{1,90}?)\s*$")
_CHECK_CAPABILITY = lazy(r"GPU ([\d,]{1,200}) Compute Capability: (\d{1,2}\.\d)\s*$")
_CHECK_PACKAGE = lazy(
    r"([a-zA-Z][\w.\-]{1,60}): (?:(\d[\w.]{0,60})(?:\+([\w.]{1,40}))?|(Module Not Found))\s*$"
)
_CHECK_KEYS = (
    "Python: ",
    "CUDA available: ",
    "GPU ",
    "CUDA_HOME: ",
    "NVCC: ",
    "CUDA Driver Version",
    "PyTorch: ",
    "ulimit soft: ",
)


def _check_line(line: str) -> bool:
    return line.startswith((*_CHECK_KEYS, "NVIDIA Topology:", "Hypervisor vendor:")) or bool(
        _CHECK_PACKAGE.match(line)
    )


def _check_key(line: str) -> str | None:
    return next((key for key in _CHECK_KEYS if line.startswith(key)), None)


def check_extent(lines: Lines, i: int) -> range | None:
    """``python -m sglang.check_env``: its fixed keys, then packages."""
    if not _is_report(lines, i, _check_key):
        return None
    return range(_grow(lines, i, -1, _check_line), _grow(lines, i, 1, _check_line) + 1)


def parse_check(lines: Lines, _: int) -> Iterator[Found]:
    """Packages (also those that are missing), torch, toolkit with CUDA_HOME, driver, GPUs."""
    names: dict[str, tuple[str, int]] = {}
    capabilities: dict[str, str] = {}
    home: str | None = None
    for k in range(len(lines)):
        line = lines[k][:LIMIT].rstrip()
        gpu, capability = _CHECK_GPU.match(line), _CHECK_CAPABILITY.match(line)
        if capability is not None:
            capabilities[capability[1]] = capability[2]
        elif gpu is not None:
            names[gpu[1]] = (gpu[2], k)
        elif line.startswith("CUDA_HOME: "):
            home = line[len("CUDA_HOME: ") :].strip()
            if home.startswith("/"):
                yield Found(EnvVar(name="CUDA_HOME", value=home), k, k)
        else:
            for fact in _check_facts(line, home):
                yield Found(fact, k, k)
    for indexes, (name, k) in names.items():
        found = capabilities.get(indexes) or next(iter(capabilities.values()), None)
        count = len([index for index in indexes.split(",") if index])
        yield Found(gpu_name(name, count, found), k, k)


def _check_facts(line: str, home: str | None) -> Iterator[Fact]:
    key, _, value = line.partition(": ")
    version = _VERSION.match(value)
    if key == "NVCC":
        nvcc = re.search(r"V(\d{1,2}\.\d{1,2}\.\d{1,4})", value)
        if nvcc is not None:
            yield CudaToolkit(version=nvcc[1], where=home)
    elif key in ("CUDA Driver Version", "CUDA Driver Versions") and version is not None:
        for one in re.findall(r"\d{3}\.[\d.]{1,12}", value[:200]):
            yield Driver(version=one)
    elif key == "PyTorch" and version is not None:
        yield _package("torch", version[1], version[2], "check_env")
        yield TorchBuild(version=value.strip())
    elif key == "Python" and version is not None:
        yield _package("python", version[1], None, "check_env")
    else:
        row = _CHECK_PACKAGE.match(line)
        if row is not None and key != "ulimit soft":
            yield Package(
                name=normalise(row[1]),
                version=row[2],
                local=row[3],
                source="check_env",
                installed=row[4] is None,
            )


REPORT_PARSERS: tuple[Parser, ...] = (
    Parser(
        "collect-env",
        (
            "PyTorch version",
            "CUDA used to build PyTorch",
            "Nvidia driver version",
            "CUDA runtime version",
            "GPU models and configuration",
            "[pip3] ",
            "Versions of relevant libraries",
        ),
        parse_collect,
        extent=collect_extent,
        document="collect-env",
    ),
    Parser(
        "check-env",
        (
            "PyTorch: ",
            "CUDA_HOME: ",
            "CUDA Driver Version",
            "flashinfer_python: ",
            "sgl_kernel: ",
            "Compute Capability: ",
        ),
        parse_check,
        extent=check_extent,
        document="check_env",
    ),
)
