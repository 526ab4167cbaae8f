"""Package lists and software reports: pip, uv, conda, torch's and vLLM's collect_env, sglang's check_env, nvcc.

    Package                 Version            torch==2.11.0                PyTorch version: 2.11.0+cu130
    ----------------------- -----------        flashinfer-python==0.6.4     CUDA used to build PyTorch: 13.0

Single lines of a list (``torch    2.13.0``) and versions that logs print in passing are read too.
"""

import re
from collections.abc import Iterator

from diagnoser.facts.base import Fact, Found
from diagnoser.facts.lazy import lazy
from diagnoser.facts.packages import CudaToolkit, Driver, Package, TorchBuild, normalise
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.reports import REPORT_PARSERS
from diagnoser.parsers.statement import LIMIT, by_statement, says

MAX_BLOCK = 5000
MAX_ABOVE = 60
"""How far above a known package a list without a header may begin."""

MIN_FREEZE = 3
"""Fewer ``name==version`` lines in a row are read as single lines."""

_VERSION = r"\d[\w.]{0,60}"
_LIST_HEADER = lazy(r"\s{0,4}Package\s{1,200}Version\b")
_LIST_RULE = lazy(r"\s{0,4}-{3,200} -{3,200}")
_LIST_ROW = lazy(
    rf"\s{{0,4}}([A-Za-z0-9][\w.\-]{{0,100}})\s{{1,200}}({_VERSION})(?:\+([\w.]{{1,40}}))?(?:\s|$)"
)
_FREEZE_ROW = lazy(
    rf"(?:\[pip3?\] )?([A-Za-z0-9][\w.\-]{{0,100}})(?:\[[\w,\-]{{1,60}}\])?"
    rf"(?:=={{1,2}}({_VERSION})(?:\+([\w.]{{1,40}}))?| @ (\S{{1,300}}))\s*(?:;.{{0,200}}|#.{{0,200}})?$"
)
_CONDA_HEADER = lazy(r"# Name\s{1,60}Version\s")
_URL_VERSION = lazy(rf"[/\-]({_VERSION})(?:(?:\+|%2B)([\w.]{{1,40}}))?-(?:cp|py)\d")

KNOWN = (
    "torch",
    "torchvision",
    "torchaudio",
    "triton",
    "vllm",
    "sglang",
    "sgl-kernel",
    "sgl_kernel",
    "sglang-kernel",
    "flashinfer-python",
    "flashinfer_python",
    "flashinfer-cubin",
    "flashinfer-jit-cache",
    "flash-attn",
    "flash_attn",
    "xformers",
    "transformers",
    "xgrammar",
    "deep-gemm",
    "deep_gemm",
    "sgl-deep-gemm",
    "numpy",
    "nvidia-cudnn-cu12",
    "nvidia-cudnn-cu13",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "nvidia-cublas-cu12",
    "nvidia-cublas",
    "nvidia-cuda-runtime-cu12",
    "nvidia-cuda-runtime",
    "nvidia-cuda-runtime-cu13",
    "cuda-python",
    "nvidia-cuda-nvrtc-cu12",
    "nvidia-cuda-nvrtc",
    "nvidia-nvshmem-cu12",
    "nvidia-cutlass-dsl",
    "tensorrt-llm",
    "tensorrt_llm",
    "lmdeploy",
    "ray",
    "bitsandbytes",
    "compressed-tensors",
    "ai-dynamo",
    "nixl",
    "lmcache",
    "setuptools",
    "pip",
)
"""Packages whose lines are looked for; a list that holds none of them is of no interest here."""

_KNOWN_NAMES = frozenset(normalise(name) for name in KNOWN)


def _package(name: str, version: str | None, local: str | None, source: str) -> Package:
    return Package(name=normalise(name), version=version, local=local, source=source)


def list_extent(lines: Lines, i: int) -> range | None:
    """``pip list``, ``uv pip list``: header, rule, rows; or what ``grep`` left of one: two rows at least."""
    start, stop = i, i + 1
    if _LIST_HEADER.match(lines[i][:LIMIT]):
        if stop < len(lines) and _LIST_RULE.match(lines[stop][:LIMIT]):
            stop += 1
        while stop < len(lines) and stop - i < MAX_BLOCK and _LIST_ROW.match(lines[stop][:LIMIT]):
            stop += 1
        return range(start, stop)
    if not _is_bare_row(lines[i]):
        return None
    while start > 0 and i - start < MAX_ABOVE and _is_bare_row(lines[start - 1]):
        start -= 1
    while stop < len(lines) and stop - i < MAX_BLOCK and _is_bare_row(lines[stop]):
        stop += 1
    return range(start, stop) if stop - start >= 2 else None


def _is_bare_row(line: str) -> bool:
    """A row of name and version, perhaps with a third column (a location or an index)."""
    return _LIST_ROW.match(line[:LIMIT]) is not None and len(line[:LIMIT].split()) <= 3


def parse_list(lines: Lines, _: int) -> Iterator[Found]:
    for k in range(len(lines)):
        row = _LIST_ROW.match(lines[k][:LIMIT])
        if row is not None:
            yield Found(_package(row[1], row[2], row[3], "pip list"), k, k)


def freeze_extent(lines: Lines, i: int) -> range | None:
    """``pip freeze``: at least three ``name==version`` lines in a row, comments and editables between them."""
    if not _FREEZE_ROW.match(lines[i][:LIMIT]) or lines[i].startswith("[pip"):
        return None
    start, stop = i, i + 1
    while start > 0 and i - start < MAX_BLOCK and _is_freeze(lines[start - 1]):
        start -= 1
    while stop < len(lines) and stop - i < MAX_BLOCK and _is_freeze(lines[stop]):
        stop += 1
    return range(start, stop) if stop - start >= MIN_FREEZE else None


def _is_freeze(line: str) -> bool:
    return line.startswith(("-e ", "# Editable")) or bool(
        _FREEZE_ROW.match(line[:LIMIT]) and not line.startswith("[")
    )


def parse_freeze(lines: Lines, _: int) -> Iterator[Found]:
    for k in range(len(lines)):
        row = _FREEZE_ROW.match(lines[k][:LIMIT])
        if row is not None:
            yield Found(_frozen(row), k, k)


def _frozen(row: re.Match[str]) -> Package:
    name, version, local, url = row.groups()
    found = _URL_VERSION.search(url) if url else None
    return _package(name, found[1] if found else version, found[2] if found else local, "pip freeze")


def conda_extent(lines: Lines, i: int) -> range | None:
    """``conda list``: comments with the header, then rows with a build column."""
    if not _CONDA_HEADER.match(lines[i][:LIMIT]):
        return None
    start, stop = i, i + 1
    while start > 0 and i - start < 8 and lines[start - 1].startswith("#"):
        start -= 1
    while stop < len(lines) and stop - i < MAX_BLOCK and _LIST_ROW.match(lines[stop][:LIMIT]):
        stop += 1
    return range(start, stop)


def parse_conda(lines: Lines, _: int) -> Iterator[Found]:
    for k in range(len(lines)):
        row = _LIST_ROW.match(lines[k][:LIMIT])
        if row is not None:
            yield Found(_package(row[1], row[2], row[3], "conda list"), k, k)


def _single(lines: Lines, i: int) -> Iterator[Found]:
    """One line of a list that stands alone, and ``pip show``'s pair of lines."""
    line = lines[i][:LIMIT]
    row = _LIST_ROW.match(line)
    if row is not None and normalise(row[1]) in _KNOWN_NAMES and len(line.split()) <= 3:
        yield Found(_package(row[1], row[2], row[3], "pip list"), i, i)
    frozen = _FREEZE_ROW.match(line)
    if frozen is not None and normalise(frozen[1]) in _KNOWN_NAMES:
        yield Found(_frozen(frozen), i, i)


def _show(lines: Lines, i: int) -> Iterator[Found]:
    name = re.match(r"Name: ([\w.\-]{1,100})\s*$", lines[i][:LIMIT])
    version = (
        re.match(rf"Version: ({_VERSION})(?:\+([\w.]{{1,40}}))?\s*$", lines[i + 1][:LIMIT])
        if i + 1 < len(lines)
        else None
    )
    if name is not None and version is not None:
        yield Found(_package(name[1], version[1], version[2], "pip show"), i, i + 1)


def _torch_cudnn(match: re.Match[str]) -> Iterator[Fact]:
    version, local, cudnn = match.groups()
    yield _package("torch", version, local, "log")
    yield TorchBuild(version=version + (f"+{local}" if local else ""), cuda=_cuda_of(local), cudnn=cudnn)


def _cuda_of(local: str | None) -> str | None:
    """
    >>> _cuda_of("cu130"), _cuda_of("cpu")
    ('13.0', None)
    """
    match = re.match(r"cu(\d{2})(\d)\b", local or "")
    return f"{match[1]}.{match[2]}" if match else None


def _torch_printed(match: re.Match[str]) -> Iterator[Fact]:
    """What ``print(torch.__version__, torch.version.cuda)`` prints at the start of a line."""
    yield _package("torch", match[1], match[2], "log")
    yield TorchBuild(version=f"{match[1]}+{match[2]}", cuda=match[3] or _cuda_of(match[2]))


def _mismatch(match: re.Match[str]) -> Iterator[Fact]:
    part, part_version, python_version = match.groups()
    for name, version in ((part, part_version), ("flashinfer-python", python_version)):
        public, _, local = version.partition("+")
        yield _package(name, public, local or None, "log")


_PRINTED = (
    says(
        "Cuda compilation tools, release ",
        r"release \d{1,2}\.\d{1,2}, V(\d{1,2}\.\d{1,2}\.\d{1,4})",
        lambda m: [CudaToolkit(version=m[1], where="nvcc")],
    ),
    says(
        "Current Environment: PyTorch ",
        rf"PyTorch ({_VERSION})(?:\+([\w.]{{1,40}}))? \| CuDNN (\d{{1,2}}\.\d{{1,2}})",
        _torch_cudnn,
    ),
    says(
        "+cu1",
        rf"^({_VERSION})\+(cu1\d{{1,2}})(?:\s{{1,4}}(\d{{1,2}}\.\d))?(?:\s{{1,4}}\[.{{0,400}})?\s*$",
        _torch_printed,
    ),
    says(
        " is using nccl==",
        r"(?:sglang|vLLM) is using nccl==(\d[\d.]{1,20})",
        lambda m: [_package("nccl", m[1], None, "log")],
    ),
    says(
        " does not match flashinfer version (",
        r"(flashinfer-[a-z\-]{4,20}) version \(([\w.+]{1,40})\) does not match flashinfer version \(([\w.+]{1,40})\)",
        _mismatch,
    ),
    says(
        "NVRM version: NVIDIA UNIX",
        r"Kernel Module(?: for [\w\-]{3,12})?\s{1,4}(\d{3}\.\d{1,3}(?:\.\d{1,3})?)\s",
        lambda m: [Driver(version=m[1])],
    ),
)

PARSERS: tuple[Parser, ...] = (
    Parser(
        "pip-list",
        ("Package  ", *(f"{name}  " for name in KNOWN if len(name) > 2)),
        parse_list,
        extent=list_extent,
        document="pip list",
    ),
    Parser("conda-list", ("# Name ",), parse_conda, extent=conda_extent, document="conda list"),
    Parser(
        "pip-freeze",
        tuple(f"{name}==" for name in KNOWN),
        parse_freeze,
        extent=freeze_extent,
        document="pip freeze",
    ),
    *REPORT_PARSERS,
    Parser(
        "package-line",
        (*(f"{name}  " for name in KNOWN if len(name) > 2), *(f"{name}==" for name in KNOWN)),
        _single,
    ),
    Parser("pip-show", ("Name: ",), _show),
    by_statement("versions", _PRINTED),
)
