"""``nvidia-smi -L`` and ``nvidia-smi mig -lgi``.

>>> block = [
...     "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1b2c3d4e-0000-1111-2222-333344445555)",
...     "  MIG 3g.40gb     Device  0: (UUID: MIG-aaaaaaaa-0000-1111-2222-333344445555)",
...     "  MIG 1g.10gb     Device  1: (UUID: MIG-bbbbbbbb-0000-1111-2222-333344445555)",
... ]
>>> [(fact.kind, getattr(fact, "profile", None)) for fact, *_ in parse(block, 0)]
[('gpu', None), ('gpu_set', None), ('mig_instance', '3g.40gb'), ('mig_instance', '1g.10gb')]
"""

import re
from collections.abc import Iterator

from diagnoser.facts.base import Found
from diagnoser.facts.gpu import Gpu, MigInstance
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.nvidia_smi.gather import assemble
from diagnoser.parsers.nvidia_smi.values import Draft, clean

_MOST_LINES = 2_000
_WIDEST = 512

GPU_LINE = lazy(r"\s{0,8}GPU (\d{1,3}): (\S.{0,100}?) \(UUID: ([^\s()]{4,80})\)\Z")
MIG_LINE = lazy(r"\s{0,16}MIG (\S{1,24})\s{1,40}Device {1,8}(\d{1,3}): \(UUID: ([^\s()]{4,120})\)\Z")
LINK_LINE = lazy(
    r"\s{0,16}(?:Link \d{1,3}: |NVML: Unable to retrieve NV[Ll]ink|Nvlink queries|"
    r"Device does not have or support Nvlink)"
)

_LGI_TITLE = "| GPU instances:"
_LGI_ROW = lazy(
    r"\s{0,8}\|\s{1,8}(\d{1,3})\s{1,8}MIG (\S{1,24})\s{1,40}(\d{1,3})\s{1,40}(\d{1,3})\s{1,40}(\d{1,3}:\d{1,3})\s*\|?\Z"
)


def read(pattern: re.Pattern[str], line: str) -> re.Match[str] | None:
    """The pattern on a line of reasonable length, without what pasting added."""
    return pattern.match(clean(line)) if len(line) <= _WIDEST else None


def _is_listed(line: str) -> bool:
    return bool(read(GPU_LINE, line) or read(MIG_LINE, line))


def extent(lines: Lines, i: int) -> range | None:
    """The GPU and MIG lines around line i, unless NVLink lines follow: that is another form."""
    if not _is_listed(lines[i]):
        return None
    first = last = i
    while first > 0 and i - first < _MOST_LINES and _is_listed(lines[first - 1]):
        first -= 1
    while last + 1 < len(lines) and last - i < _MOST_LINES and _is_listed(lines[last + 1]):
        last += 1
    around = [k for k in (first - 1, last + 1) if 0 <= k < len(lines)]
    if any(read(LINK_LINE, lines[k]) for k in around):
        return None
    return range(first, last + 1)


def parse(lines: Lines, _: int) -> Iterator[Found]:
    """GPUs with name and UUID, their number, and their MIG instances."""
    gpus: list[Draft] = []
    migs: list[Draft] = []
    for number, line in enumerate(lines):
        if gpu := read(GPU_LINE, line):
            draft = Draft(Gpu, number, number)
            for name, text in zip(("index", "name_raw", "uuid"), gpu.groups(), strict=True):
                draft.put(name, text)
            gpus.append(draft)
        elif mig := read(MIG_LINE, line):
            draft = Draft(MigInstance, number, number)
            if gpus and "index" in gpus[-1].values:
                draft.values["gpu_index"] = gpus[-1].values["index"]
                gpus[-1].values["mig_mode"] = "Enabled"
            for name, text in zip(("profile", "device", "uuid"), mig.groups(), strict=True):
                draft.put(name, text)
            migs.append(draft)
    yield from assemble(gpus)
    for mig_draft in migs:
        yield Found(mig_draft.fact(), mig_draft.first, mig_draft.last)


def extent_instances(lines: Lines, i: int) -> range | None:
    """The box of ``mig -lgi`` below its title."""
    if len(lines[i]) > _WIDEST or not clean(lines[i]).lstrip().startswith(_LGI_TITLE):
        return None
    first = i - 1 if i > 0 and _is_box(lines[i - 1]) else i
    last = i
    while last + 1 < len(lines) and last - i < _MOST_LINES and _is_box(lines[last + 1]):
        last += 1
    return range(first, last + 1)


def _is_box(line: str) -> bool:
    return len(line) <= _WIDEST and clean(line).lstrip()[:1] in ("|", "+")


def parse_instances(lines: Lines, _: int) -> Iterator[Found]:
    """GPU instances with profile and placement ("start:size")."""
    for number, line in enumerate(lines):
        if row := read(_LGI_ROW, line):
            draft = Draft(MigInstance, number, number)
            fields = ("gpu_index", "profile", "profile_id", "gi", "placement")
            for name, text in zip(fields, row.groups(), strict=True):
                draft.put(name, text)
            yield Found(draft.fact(), number, number)


PARSERS = (
    Parser(
        name="nvidia_smi_listing",
        literals=("(UUID: GPU-", "(UUID: MIG-"),
        parse=parse,
        extent=extent,
        document="nvidia-smi -L",
    ),
    Parser(
        name="nvidia_smi_mig",
        literals=("| GPU instances:",),
        parse=parse_instances,
        extent=extent_instances,
        document="nvidia-smi mig -lgi",
    ),
)
