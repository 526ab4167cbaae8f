r"""The default table of ``nvidia-smi``, drivers 418 to 610, whole or in pieces.

Cells are read by meaning, not by column: widths changed with 530, 550 and 610, and pastes cut or wrap them.

>>> block = [
...     "| NVIDIA-SMI 580.159.04             Driver Version: 580.159.04     CUDA Version: 13.0     |",
...     "|   0  NVIDIA H200                    On  |   00000000:00:06.0 Off |                    0 |",
...     "| N/A   57C    P0            693W /  700W |    1651MiB / 143771MiB |    100%      Default |",
... ]
>>> gpu = next(found.fact for found in parse(block, 0) if found.fact.kind == "gpu")
>>> gpu.index, gpu.name, gpu.arch, gpu.power_w, gpu.memory_used_mib, gpu.util_pct, gpu.under_load
(0, 'NVIDIA H200', 'sm90', 693.0, 1651, 100, True)

Sources: captures of drivers 580, 590, 595 and 610; tables in public reports of 418 to 575.
"""

import re
from collections.abc import Iterable, Iterator

from diagnoser.facts.base import Found
from diagnoser.facts.gpu import Gpu, GpuProcess, MigInstance, Smi
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.nvidia_smi.gather import assemble
from diagnoser.parsers.nvidia_smi.header import DATE, put_versions
from diagnoser.parsers.nvidia_smi.values import Draft, clean

_MOST_LINES = 3_000
_WIDEST = 512

_HEADER = lazy(
    r"NVIDIA-SMI\s{1,40}(\d[\d.]{0,20})\s{1,40}(?:Driver|KMD) Version:\s{0,40}(\S{1,40})"
    r"(?:\s{1,40}CUDA(?: UMD)? Version:\s{0,40}(Not Found|[^\s|]{1,40}))?"
)
_HEADING = lazy(
    r"Volatile Uncorr\. ECC|Compute M\.|MIG M\.|Processes:|No running processes found|MIG devices:"
)
_NEXT_BOX = lazy(r"\|\s{0,10}(?:Processes|MIG devices):")

_GPU = lazy(r"\s*(\d{1,3}|ERR!)\s+(\S.*?)\s+(On|Off|WDDM|TCC|MCDM|N/A|ERR!)\s*$")
_BUS = lazy(r"\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])(?:\s+(On|Off|N/A|ERR!))?")
_STATE = lazy(r"\s*(\S+)\s+(\S+)\s+(P\d{1,2}|N/A|ERR!|Unknown)\s+([^\s/]+|N/A)\s*/\s*(\S+)\s*$")
_USAGE = lazy(r"\s*(\d{1,9}MiB|N/A|ERR!)\s*/\s*(\d{1,9}MiB|N/A|ERR!)\s*$")
_UTIL = lazy(r"\s*(\d{1,3}%|N/A|ERR!)(?:\s+(\S.*?))?\s*$")
_MIG_IDS = lazy(r"\s*(\d{1,3})\s+(\d{1,3})\s+(\d{1,3})\s+(\d{1,3})\s*$")
_MIG_COUNTS = lazy(r"\s*(\d{1,4})\s+(\S+)\s*$")
_PROCESS = lazy(
    r"\s*(\d{1,3})\s+(?:(\d{1,3}|N/A)\s+(\d{1,3}|N/A)\s+)?(\d{1,10})\s+(C\+G|M\+C|[CGM])\s+"
    r"(\S.*?)(?:\s+(\d{1,9}MiB|N/A))?\s*$"
)
_CUT_MEMORY = lazy(r"\s{2,40}\d{1,9}(?:M|Mi)?\Z")
_TAIL = lazy(r"[^|+]{0,40}[|+]\Z")
_MODELS = ("WDDM", "TCC", "MCDM")


def extent(lines: Lines, i: int) -> range | None:
    """The table around line i: its date, its boxes and the boxes of MIG devices and processes below."""
    if not _is_ours(clean(lines[i])):
        return None
    first = last = i
    while i - first < _MOST_LINES and not _HEADER.search(lines[first][:_WIDEST]):
        above = _above(lines, first)
        if above is None:
            break
        first = above
    if first > 1 and _is_tail(lines, first - 1) and _is_rule(lines[first - 2]):
        first -= 2
    elif first > 0 and _is_rule(lines[first - 1]):
        first -= 1
    if first > 0 and DATE.match(clean(lines[first - 1])):
        first -= 1
    while last - i < _MOST_LINES:
        below = _below(lines, last)
        if below is None:
            break
        if _HEADER.search(lines[below][:_WIDEST]):
            last -= _is_rule(lines[last]) and last > i and _is_rule(lines[last - 1])
            break
        last = below
    return range(first, last + 1)


def parse(lines: Lines, _: int) -> Iterator[Found]:
    """The facts of one table: Smi, GPUs, MIG instances, processes and the set."""
    table = _Table()
    for first, last, text in _rows(lines):
        table.read(text, first, last)
    return table.facts()


class _Table:
    """What was read so far; a row of a GPU continues the GPU above it."""

    def __init__(self) -> None:
        self.smi: Draft | None = None
        self.taken = ""
        self.gpus: list[Draft] = []
        self.migs: list[Draft] = []
        self.processes: list[Draft] | None = None
        self.list_at: int | None = None
        self.mig_row: bool | None = None
        self.rows = 0

    def read(self, text: str, first: int, last: int) -> None:
        if header := _HEADER.search(text):
            self.smi = Draft(Smi, first, last)
            self.smi.put("nvidia_smi_version", header[1])
            is_cut = text.startswith("|") and "|" not in text[header.end() :]
            put_versions(self.smi, header[2], None if is_cut else header[3])
        elif DATE.match(text):
            self.taken = text.strip()
        elif "No running processes found" in text:
            self.processes = self.processes or []
            self.list_at = first
        elif "MIG M." in text:
            self.mig_row = True
        elif "Compute M." in text:
            self.mig_row = self.mig_row or False
        elif text.startswith("|"):
            *cells, rest = text[1:].split("|")
            # Without its right border a cell may be cut, unless its shape shows that it is whole; of a process
            # that costs the memory, not the row.
            if cells and (_BUS.match(rest) or _USAGE.match(rest)):
                cells.append(rest)
            self.read_cells(cells or [_CUT_MEMORY.sub("", rest)], first, last)

    def read_cells(self, cells: list[str], first: int, last: int) -> None:
        if len(cells) in (2, 3) and (bus := _BUS.match(cells[1])) and (head := _GPU.match(cells[0])):
            self.gpus.append(_gpu(head, bus, cells[2:], first, last))
            self.rows = 1
        elif self.rows == 1 and cells and (state := _STATE.match(cells[0])):
            _put_state(self.gpus[-1], state, cells[1:], last)
            self.rows = 2
        elif self.rows == 2 and len(cells) == 3 and not cells[0].strip() and not cells[1].strip():
            self.gpus[-1].put("mig_mode", cells[2].strip().rstrip("*"))
            self.gpus[-1].reach(last)
            self.rows = 0
        elif len(cells) in (3, 4) and (ids := _MIG_IDS.match(cells[0])):
            self.migs.append(_mig(ids, cells[1:], first, last))
        elif len(cells) == 1 and (process := _PROCESS.match(cells[0])):
            self.processes = self.processes or []
            self.processes.append(_process(process, first, last))

    def facts(self) -> Iterator[Found]:
        wsl = False
        if self.smi is not None:
            values = self.smi.values
            wsl = values.get("driver_version") not in (None, values.get("nvidia_smi_version"))
            values["wsl"] = wsl or None
            values["gpu_count"] = len(self.gpus) or None
            values["mig_row"] = self.mig_row
            values["taken"] = self.taken or None
            yield Found(self.smi.fact(), self.smi.first, self.smi.last)
        if self.processes is not None:
            owners = [process.values.get("gpu_index") for process in self.processes]
            for gpu in self.gpus:
                gpu.values["processes"] = owners.count(gpu.values.get("index"))
        yield from assemble(self.gpus, self.processes, lists_processes=not wsl, list_at=self.list_at)
        for mig in self.migs:
            yield Found(mig.fact(), mig.first, mig.last)


def _gpu(head: re.Match[str], bus: re.Match[str], rest: list[str], first: int, last: int) -> Draft:
    gpu = Draft(Gpu, first, last)
    gpu.put("index", head[1])
    gpu.put("name_raw", head[2])
    gpu.put("driver_model" if head[3] in _MODELS else "persistence_mode", head[3])
    gpu.put("bus_id", bus[1])
    gpu.put("disp_active", bus[2] or "")
    ecc = rest[0].strip() if rest else ""
    if ecc != "On":  # MIG is on and the count moved to the instances
        gpu.put("ecc_mode" if ecc == "Off" else "ecc_uncorr_volatile", ecc)
    return gpu


def _put_state(gpu: Draft, state: re.Match[str], rest: list[str], last: int) -> None:
    for name, text in zip(
        ("fan_pct", "temp_c", "pstate", "power_w", "power_limit_w"), state.groups(), strict=True
    ):
        gpu.put(name, text)
    if rest and (usage := _USAGE.match(rest[0])):
        gpu.put("memory_used_mib", usage[1])
        gpu.put("memory_total_mib", usage[2])
    if len(rest) > 1 and (util := _UTIL.match(rest[1])):
        gpu.put("util_pct", util[1])
        gpu.put("compute_mode", util[2] or "")
    gpu.reach(last)


def _mig(ids: re.Match[str], rest: list[str], first: int, last: int) -> Draft:
    mig = Draft(MigInstance, first, last)
    for name, text in zip(("gpu_index", "gi", "ci", "device"), ids.groups(), strict=True):
        mig.put(name, text)
    if usage := _USAGE.match(rest[0]):
        mig.put("memory_used_mib", usage[1])
        mig.put("memory_total_mib", usage[2])
    if len(rest) > 1 and (counts := _MIG_COUNTS.match(rest[1])):
        mig.put("sm", counts[1])
        mig.put("ecc_uncorr_volatile", counts[2])
    return mig


def _process(row: re.Match[str], first: int, last: int) -> Draft:
    process = Draft(GpuProcess, first, last)
    fields = ("gpu_index", "gi", "ci", "pid", "type", "name", "memory_mib")
    for name, text in zip(fields, row.groups(), strict=True):
        process.put(name, text or "")
    process.values["not_found"] = row[6] == "[Not Found]"
    return process


def _is_ours(text: str) -> bool:
    """Is this by itself a line of nvidia-smi's table?"""
    text = text.lstrip(" >")
    if len(text) > _WIDEST:
        return False
    if _HEADER.search(text):
        return True
    if not text.startswith("|"):
        return False
    if _HEADING.search(text):
        return True
    cells = text[1:].split("|")
    return len(cells) > 1 and bool(
        _BUS.match(cells[1]) or (_STATE.match(cells[0]) and _USAGE.match(cells[1]))
    )


def _is_box(line: str) -> bool:
    return len(line) <= _WIDEST and clean(line).lstrip(" >")[:1] in ("|", "+")


def _is_rule(line: str) -> bool:
    return len(line) <= _WIDEST and clean(line).lstrip(" >")[:2] == "+-"


def _is_tail(lines: Lines, k: int) -> bool:
    """Is line k the end of a box line that was wrapped?"""
    if k < 1 or len(lines[k]) > _WIDEST or not _is_box(lines[k - 1]):
        return False
    return _TAIL.match(clean(lines[k])) is not None


def _is_blank(line: str) -> bool:
    return len(line) <= _WIDEST and not clean(line)


def _below(lines: Lines, k: int) -> int | None:
    """The line of the same table that follows line k."""
    if k + 1 >= len(lines):
        return None
    if _is_box(lines[k + 1]) or _is_tail(lines, k + 1):
        return k + 1
    start = next((j for j in range(k + 1, min(k + 4, len(lines))) if not _is_blank(lines[j])), None)
    return start if start is not None and start > k + 1 and _opens_box(lines, start) else None


def _above(lines: Lines, k: int) -> int | None:
    """The line of the same table that stands before line k."""
    if k == 0:
        return None
    if _is_box(lines[k - 1]) or _is_tail(lines, k - 1):
        return k - 1
    if not (_is_blank(lines[k - 1]) and _opens_box(lines, k)):
        return None
    end = next((j for j in range(k - 1, max(k - 4, -1), -1) if not _is_blank(lines[j])), None)
    return end if end is not None and (_is_box(lines[end]) or _is_tail(lines, end)) else None


def _opens_box(lines: Lines, k: int) -> bool:
    """Do the boxes of MIG devices or processes begin at line k?"""
    return any(_NEXT_BOX.search(clean(line)) for line in lines[k : k + 3] if _is_box(line)) and _is_box(
        lines[k]
    )


def _rows(lines: Lines) -> Iterable[tuple[int, int, str]]:
    """First line, last line and text of each row; wrapped rows are joined."""
    k = 0
    while k < len(lines):
        start, text = k, clean(lines[k]).lstrip(" >") if len(lines[k]) <= _WIDEST else ""
        if k + 1 < len(lines) and _is_tail(lines, k + 1):
            k += 1
            text += clean(lines[k])
        yield start, k, text
        k += 1


PARSERS = (
    Parser(
        name="nvidia_smi_table",
        literals=(
            "NVIDIA-SMI ",
            "Uncorr. ECC",
            "Compute M.",
            "No running processes found",
            ".0 Off |",
            ".0  On |",
            "MiB |",
        ),
        parse=parse,
        extent=extent,
        document="nvidia-smi table",
    ),
)
