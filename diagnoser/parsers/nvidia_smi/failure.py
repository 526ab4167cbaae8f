"""nvidia-smi that fails says one sentence; and ``nvidia-smi --version``.

>>> lines = ["Unable to determine the device handle for GPU0000:17:00.0: Unknown Error"]
>>> [fact for fact, *_ in parse(lines, 0)][0]
LostGpu(bus_id='0000:17:00.0', pci='0000:17:00', reason='Unknown Error')

``Failed to initialize NVML: Unknown Error`` is something else: a container that lost its devices. Sources:
NVML return codes (nvml.h) and public reports of each text.
"""

import re
from collections.abc import Iterator

from diagnoser.facts.base import Found
from diagnoser.facts.gpu import LostGpu, Smi, SmiStatus
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.nvidia_smi.header import put_versions, version
from diagnoser.parsers.nvidia_smi.values import Draft, canonical_pci, clean

_WIDEST = 4_096

_HANDLE = lazy(
    r"Unable to determine the device handle for (?:GPU|gpu) ?"
    r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]): ([A-Za-z][A-Za-z ]{2,60}?)(?:\.|\s{2}|\Z)"
)

_WORDINGS: tuple[tuple[str, SmiStatus], ...] = (
    (r"couldn.?.?t communicate with the NVIDIA driver", "driver_not_loaded"),
    (r"(?:initialize|shut down) NVML: Driver Not Loaded", "driver_not_loaded"),
    (r"Driver/library version mismatch", "version_mismatch"),
    (r"^\s*No devices were found\.?\s*$", "no_devices"),
    (r"initialize NVML: No supported GPUs were found", "no_devices"),
    (r"initialize NVML: Unknown Error", "nvml_unknown_error"),
    (r"initialize NVML: Insufficient Permissions", "insufficient_permissions"),
    (r"GPU access blocked by the operating system", "blocked_by_os"),
    (r"couldn.?.?t find libnvidia-ml\.so", "library_not_found"),
    (r"initialize NVML: (?:NVML )?[Ll]ibrary [Nn]ot [Ff]ound", "library_not_found"),
    (r"nvidia-smi: (?:command )?not found|command not found: nvidia-smi", "not_installed"),
    (r"nvidia-smi.{0,20}executable file not found", "not_installed"),
    (r"is not a valid field to query", "invalid_field"),
    (r"Failed to initialize NVML: \S", "nvml_error"),
)
"""The first that matches counts."""

_TEXTS = tuple((re.compile(pattern), status) for pattern, status in _WORDINGS)

_LIBRARY = lazy(r"NVML library version: (\d{1,6}(?:\.\d{1,6}){0,3})")
_DETAIL = lazy(r"Field [\"“']?([\w.]{1,80})|NVML: (\S.{0,100})")


def parse(lines: Lines, i: int) -> Iterator[Found]:
    """The failure that line i states; the library's version may follow on the next line."""
    if len(lines[i]) > _WIDEST:
        return
    text = clean(lines[i])
    if handle := _HANDLE.search(text):
        bus, reason = handle.groups()
        yield Found(LostGpu(bus_id=bus, pci=canonical_pci(bus), reason=reason), i, i)
        yield Found(Smi(status="device_handle_error", detail=reason), i, i)
        return
    status = next((status for pattern, status in _TEXTS if pattern.search(text)), None)
    if status is None:
        return
    library = _LIBRARY.search(clean(lines[i + 1][:_WIDEST])) if i + 1 < len(lines) else None
    detail = _DETAIL.search(text)
    said = None if detail is None else (detail[1] or detail[2])
    fact = Smi(
        status=status,
        nvml_library_version=library[1] if library else None,
        detail=said if status in ("invalid_field", "nvml_error") else None,
    )
    yield Found(fact, i, i + 1 if library else i)


_VERSION_LINE = lazy(r"\s{0,4}(NVIDIA-SMI|NVML|DRIVER|CUDA UMD|CUDA|KMD) [Vv]ersion\s{0,20}: (\S.{0,80})\Z")


def _version_line(line: str) -> re.Match[str] | None:
    return _VERSION_LINE.match(clean(line)) if len(line) <= _WIDEST else None


def extent_version(lines: Lines, i: int) -> range | None:
    """The lines of ``--version`` around line i; two at least, as one could be anything."""
    if _version_line(lines[i]) is None:
        return None
    first = last = i
    while first > 0 and i - first < 8 and _version_line(lines[first - 1]):
        first -= 1
    while last + 1 < len(lines) and last - i < 8 and _version_line(lines[last + 1]):
        last += 1
    return range(first, last + 1) if last > first else None


def parse_version(lines: Lines, _: int) -> Iterator[Found]:
    """The versions; since 610 the driver's is called KMD and CUDA's CUDA UMD."""
    smi = Draft(Smi, 0, max(0, len(lines) - 1))
    for line in lines:
        match = _version_line(line)
        if match is None:
            continue
        what, value = match.groups()
        if what in ("DRIVER", "KMD"):
            put_versions(smi, value, None)
        elif what in ("CUDA", "CUDA UMD"):
            put_versions(smi, None, value)
        elif (found := version(value)) is not None:
            smi.put("nvidia_smi_version" if what == "NVIDIA-SMI" else "nvml_version", found)
    if smi.values:
        yield Found(smi.fact(), smi.first, smi.last)


PARSERS = (
    Parser(
        name="nvidia_smi_failure",
        literals=(
            "communicate with the NVIDIA driver",
            "Driver/library version mismatch",
            "No devices were found",
            "initialize NVML",
            "shut down NVML",
            "Unable to determine the device handle",
            "GPU access blocked by the operating system",
            "libnvidia-ml.so",
            "nvidia-smi: command not found",
            "nvidia-smi: not found",
            "command not found: nvidia-smi",
            "executable file not found",
            "is not a valid field to query",
        ),
        parse=parse,
    ),
    Parser(
        name="nvidia_smi_version",
        literals=("NVIDIA-SMI version", "DRIVER version", "KMD version"),
        parse=parse_version,
        extent=extent_version,
        document="nvidia-smi --version",
    ),
)
