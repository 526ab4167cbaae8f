"""``nvidia-smi --query-gpu`` and ``--query-compute-apps`` with ``--format=csv``.

Columns are named by the header, without one by the command line above, and without either only those values
count that name themselves (index, GPU name, bus id, p-state, versions, failures). There is no quoting: more
cells than columns mean commas inside the name.

>>> block = [
...     "$ nvidia-smi --query-gpu=index,name,driver_version,memory.used --format=csv,noheader",
...     "0, NVIDIA RTX PRO 6000 Blackwell, 580.126.09, 536 MiB",
...     "1, NVIDIA RTX PRO 6000 Blackwell, 580.126.09, 643 MiB",
... ]
>>> gpus = [found.fact for found in parse(block, 0) if found.fact.kind == "gpu"]
>>> [(gpu.index, gpu.arch, gpu.memory_used_mib) for gpu in gpus]
[(0, 'sm120', 536), (1, 'sm120', 643)]

Sources: field lists of drivers 590 (243 names), 595 and 610 (272); captures of drivers 580 to 610.
"""

from collections.abc import Iterator
from functools import partial

from diagnoser.facts.base import Found
from diagnoser.facts.gpu import Gpu, GpuProcess, Smi
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.nvidia_smi.csv_fields import APPS, ARCH, GPU, SMI
from diagnoser.parsers.nvidia_smi.csv_rows import (
    Fields,
    bare_row,
    command_fields,
    header_fields,
    is_apps,
    is_gpus,
    row_values,
    split_cells,
)
from diagnoser.parsers.nvidia_smi.gather import assemble, process_facts
from diagnoser.parsers.nvidia_smi.header import put_versions
from diagnoser.parsers.nvidia_smi.series import ends, gpu_series
from diagnoser.parsers.nvidia_smi.values import Draft, token, whole

_MOST_ROWS = 100_000
_MOST_GPUS = 1_024
_LOOK_BACK = 16
"""Rows above a hit that are looked at; a table is normally met at its first line."""


def extent(lines: Lines, i: int, apps: bool) -> range | None:
    """Command line, header and rows around line i."""
    first = _top(lines, i)
    if first is None:
        return None
    fields, rows_from = _columns(lines, first)
    if fields is not None and not (is_apps(fields) if apps else is_gpus(fields)):
        return None
    if fields is None and apps:
        return None
    last = rows_from - 1
    while last + 1 < len(lines) and last - first < _MOST_ROWS and _row(lines[last + 1], fields) is not None:
        last += 1
    if last < rows_from and command_fields(lines[last]) is not None:
        return None
    return range(first, last + 1) if first <= i <= last else None


def _row(line: str, fields: Fields | None) -> list[tuple[str, str]] | None:
    return bare_row(line) if fields is None else row_values(line, fields)


def _columns(lines: Lines, first: int) -> tuple[Fields | None, int]:
    """The columns of the table that begins at a line, and where its rows begin."""
    asked = command_fields(lines[first])
    at = first if asked is None else first + 1
    header = header_fields(lines[at], asked) if at < len(lines) else None
    return (header or asked, at + 1 if header else at)


def _top(lines: Lines, i: int) -> int | None:
    """Where the table with line i begins: its command line, header or first row."""
    if command_fields(lines[i]) is not None:
        return i
    if header_fields(lines[i]) is not None:
        return i - 1 if i > 0 and command_fields(lines[i - 1]) is not None else i
    if len(split_cells(lines[i])) < 2:
        return None
    for k in range(i - 1, max(i - 1 - _LOOK_BACK, -1), -1):
        if header_fields(lines[k]) is not None or command_fields(lines[k]) is not None:
            top = _top(lines, k)
            fields = None if top is None else _columns(lines, top)[0]
            if fields is not None and row_values(lines[i], fields) is not None:
                return top
            break
        if len(split_cells(lines[k])) != len(split_cells(lines[i])):
            break
    if bare_row(lines[i]) is None:
        return None
    first = i
    while first > 0 and i - first < _LOOK_BACK and bare_row(lines[first - 1]) is not None:
        first -= 1
    return first


def parse(lines: Lines, _: int) -> Iterator[Found]:
    """GPUs of a ``--query-gpu`` table; with several samples of a GPU its first and last ones and a series."""
    if not lines:
        return
    fields, start = _columns(lines, 0)
    smi, attached = Draft(Smi), None
    gpus: list[Draft] = []
    for number in range(start, len(lines)):
        row = _row(lines[number], fields)
        if row is None:
            continue
        gpu = Draft(Gpu, number, number)
        for name, cell in row:
            if name == ARCH and "." in cell:
                gpu.put("arch", "sm" + cell.replace(".", ""))
            elif name in GPU:
                gpu.put(GPU[name], cell)
            elif SMI.get(name) == "driver":
                put_versions(smi, cell, None)
                smi.reach(number)
                smi.first = smi.first or number
            elif SMI.get(name) == "attached":
                attached = whole(cell)
        if gpu.values or gpu.failures:
            gpus.append(gpu)
    if smi.values:
        yield Found(smi.fact(), smi.first, smi.last)
    kept, latest, series = _samples(gpus)
    yield from assemble(latest, attached=attached, also=kept)
    yield from series


def _samples(gpus: list[Draft]) -> tuple[list[Draft], list[Draft], list[Found]]:
    """Older samples to keep, the latest of each GPU, and series of those with several.

    A row with a name only is a GPU of its own; rows without any identity may be anything, so they make no
    series.
    """
    by_gpu: dict[object, list[Draft]] = {}
    for gpu in gpus:
        values = gpu.values
        key = values.get("bus_id") or values.get("uuid") or values.get("index")
        if key is None and "name_raw" in values:
            key = ("row", gpu.first)
        if key in by_gpu or len(by_gpu) < _MOST_GPUS:
            by_gpu.setdefault(key, []).append(gpu)
    latest = [samples[-1] for samples in by_gpu.values()]
    older = [draft for samples in by_gpu.values() for draft in ends(samples)[:-1]]
    known = [samples for key, samples in by_gpu.items() if key is not None and len(samples) > 1]
    return older, latest, [found for samples in known for found in gpu_series(samples)]


def parse_apps(lines: Lines, _: int) -> Iterator[Found]:
    """The processes of a ``--query-compute-apps`` table; without rows an empty list."""
    if not lines:
        return
    fields, start = _columns(lines, 0)
    processes: list[Draft] = []
    for number in range(start, len(lines)):
        row = None if fields is None else row_values(lines[number], fields)
        if row is None:
            continue
        process = Draft(GpuProcess, number, number)
        for name, cell in row:
            if name in APPS:
                process.put(APPS[name], cell)
            if APPS.get(name) == "name":
                process.values["not_found"] = token(cell) == "not found"
        if process.values:
            processes.append(process)
    if fields is not None and (processes or start == len(lines)):
        yield from process_facts(processes, max(0, start - 1))


_NAMES = tuple(sorted(name for name in GPU if "." in name or "_" in name))

PARSERS = (
    Parser(
        name="nvidia_smi_query_gpu",
        literals=(
            *_NAMES,
            "--query-gpu",
            "clocks_throttle_reasons.",
            "driver_version",
            "index, name",
            "index, pstate",
            "index, uuid",
            "name, index",
            "name, pstate",
            "name, uuid",
            "uuid, name",
            ", NVIDIA ",
            ", Tesla ",
            ", GeForce ",
            ", Quadro ",
            "[GPU is lost]",
            "[GPU requires reset]",
        ),
        parse=parse,
        extent=partial(extent, apps=False),
        document="nvidia-smi --query-gpu",
    ),
    Parser(
        name="nvidia_smi_query_apps",
        literals=("--query-compute-apps", "process_name", "used_gpu_memory", "used_memory"),
        parse=parse_apps,
        extent=partial(extent, apps=True),
        document="nvidia-smi --query-compute-apps",
    ),
)
