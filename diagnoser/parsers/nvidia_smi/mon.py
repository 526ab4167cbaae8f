"""``nvidia-smi dmon`` and ``pmon``: columns by their header, which repeats in long captures.

>>> block = [
...     "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk ",
...     "# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz ",
...     "    0    690     57     47    100     23      0      0      0      0   3201   1440 ",
... ]
>>> sample = next(found.fact for found in parse(block, 0))
>>> sample.gpu_index, sample.power_w, sample.sm_pct, sample.pclk_mhz
(0, 690, 100, 1440)

Which columns there are depends on ``-s`` and the driver. Sources: captures of drivers 580 to 610.
"""

from collections.abc import Iterator
from functools import partial

from diagnoser.facts.base import Found
from diagnoser.facts.gpu import Gpu
from diagnoser.facts.gpu_samples import GpuProcessSample, GpuSample
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.nvidia_smi.series import ends, gpu_series
from diagnoser.parsers.nvidia_smi.values import Draft, clean

_MOST_LINES = 200_000
_WIDEST = 512

_SHARED = {
    "sm": "sm_pct",
    "mem": "mem_pct",
    "enc": "enc_pct",
    "dec": "dec_pct",
    "jpg": "jpg_pct",
    "ofa": "ofa_pct",
}

_DMON = _SHARED | {
    "pwr": "power_w",
    "temp": "temp_c",
    "gtemp": "temp_c",
    "mtemp": "mtemp_c",
    "mclk": "mclk_mhz",
    "pclk": "pclk_mhz",
    "pviol": "pviol_pct",
    "tviol": "tviol",
    "fb": "fb_mb",
    "bar1": "bar1_mb",
    "ccpm": "ccpm_mb",
    "sbecc": "sbecc",
    "dbecc": "dbecc",
    "pci": "pci_errors",
    "rxpci": "rx_mb_s",
    "txpci": "tx_mb_s",
}
_PMON = _SHARED | {"pid": "pid", "type": "type", "fb": "fb_mb", "ccpm": "ccpm_mb", "command": "command"}

_AS_GPU = {
    "power_w": "power_w",
    "temp_c": "temp_c",
    "sm_pct": "util_pct",
    "fb_mb": "memory_used_mib",
    "pclk_mhz": "clock_sm_mhz",
}
"""Fields of a sample by those of a GPU, for the series."""

_ROW = lazy(r"\s{0,20}(?:\d{8}\s{1,8}\d{2}:\d{2}:\d{2}\s{1,8})?\d{1,3}\s{1,20}(?:-|\d)")


def _columns(line: str) -> list[str] | None:
    """The column names of a header line ("gpu" among them), or None for units and anything else."""
    text = clean(line)
    if len(line) > _WIDEST or not text.lstrip().startswith("#"):
        return None
    names = text.lstrip()[1:].lower().split()
    return names if "gpu" in names[:3] and len(names) > 2 else None


def _is_units(line: str) -> bool:
    return len(line) <= _WIDEST and clean(line).lstrip()[:1] == "#" and "Idx" in line


def _is_row(line: str) -> bool:
    return len(line) <= _WIDEST and _ROW.match(clean(line)) is not None


def extent(lines: Lines, i: int, pmon: bool) -> range | None:
    """The header at line i and what follows: units, rows, repeated headers of the same table."""
    columns = _columns(lines[i])
    if columns is None or ("pid" in columns) != pmon:
        return None
    last = i
    while last + 1 < len(lines) and last - i < _MOST_LINES:
        line = lines[last + 1]
        if not (_is_row(line) or _is_units(line) or _columns(line) == columns):
            break
        last += 1
    return range(i, last + 1) if last > i else None


def parse(lines: Lines, _: int) -> Iterator[Found]:
    """Samples (of each GPU the first and last ones) and, with several of one GPU, its series."""
    columns: list[str] = []
    by_gpu: dict[int, list[Draft]] = {}
    for number, line in enumerate(lines):
        columns = _columns(line) or columns
        if not columns or not _is_row(line):
            continue
        draft = _sample(columns, line, number)
        if draft is not None:
            by_gpu.setdefault(draft.values["gpu_index"], []).append(draft)
    for samples in by_gpu.values():
        kept = samples if samples[0].model is GpuProcessSample else ends(samples)
        for draft in kept[:256]:
            yield Found(draft.fact(), draft.first, draft.last)
        if samples[0].model is GpuSample and len(samples) > 1:
            yield from gpu_series([_as_gpu(draft) for draft in samples])


def _sample(columns: list[str], line: str, number: int) -> Draft | None:
    """A row by its columns; the last one, a command, may hold blanks."""
    is_pmon = "pid" in columns
    cells = clean(line).split(maxsplit=len(columns) - 1) if is_pmon else clean(line).split()
    shift = columns.index("gpu")
    if len(cells) <= shift or not cells[shift].isascii() or not cells[shift].isdigit():
        return None
    draft = Draft(GpuProcessSample if is_pmon else GpuSample, number, number)
    draft.values["gpu_index"] = int(cells[shift])
    fields = _PMON if is_pmon else _DMON
    for name, cell in zip(columns[shift + 1 :], cells[shift + 1 :], strict=False):
        if name not in fields:
            continue
        if fields[name] == "tviol":
            draft.put("tviol", {"0": "no", "1": "yes"}.get(cell, cell))
        else:
            draft.put(fields[name], cell)
    return draft


def _as_gpu(sample: Draft) -> Draft:
    values = {gpu: sample.values[own] for own, gpu in _AS_GPU.items() if own in sample.values}
    values["index"] = sample.values["gpu_index"]
    if (pviol := sample.values.get("pviol_pct")) is not None:
        values["reason_sw_power_cap"] = pviol > 0
    if (tviol := sample.values.get("tviol")) is not None:
        values["reason_sw_thermal"] = tviol
    return Draft(Gpu, sample.first, sample.last, values)


PARSERS = (
    Parser(
        name="nvidia_smi_dmon",
        literals=("# gpu ", "#Date "),
        parse=parse,
        extent=partial(extent, pmon=False),
        document="nvidia-smi dmon",
    ),
    Parser(
        name="nvidia_smi_pmon",
        literals=("# gpu ", "#Date "),
        parse=parse,
        extent=partial(extent, pmon=True),
        document="nvidia-smi pmon",
    ),
)
