"""Lines of CSV output: which are headers, commands and rows, and what their cells are."""

import re
from collections.abc import Iterator

from diagnoser.facts.gpu import Gpu
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.nvidia_smi.csv_fields import APPS, GPU, SMI
from diagnoser.parsers.nvidia_smi.names import GPU_NAME
from diagnoser.parsers.nvidia_smi.values import ABSENT, FAILURES, LONGEST, clean, converters, token, truth

_MOST_CELLS = 400
_SPECIAL = ABSENT | FAILURES

_COMMAND = lazy(
    r"nvidia-smi\b.{0,400}?--query-(gpu|compute-apps|remapped-rows)[= ][\"']?([a-zA-Z0-9_.,]{2,20000})"
)
_NAME = lazy(r"[A-Za-z][A-Za-z0-9_.]{1,80}(?: \[(?:MiB|W|W/s|%|MHz|us|ms|seconds|KiB/s|C)\])?\Z")
_BUS = lazy(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]\Z")
_PSTATE = lazy(r"P\d{1,2}\Z")
_WORD = lazy(r"[A-Za-z][A-Za-z ._]{0,40}\Z")
_VERSION = lazy(r"\d{3}\.\d{2,3}(?:\.\d{2})?\Z")
_MASK = lazy(r"0x[0-9A-Fa-f]{16}\Z")
_COMPUTE_MODES = ("Default", "E. Process", "Exclusive_Process", "Prohibited", "E. Thread")
_NUMBER_CELL = lazy(r"[+-]?\d{1,20}(?:\.\d{1,9})?(?: ?(?:MiB|W|%|MHz|us|C|x))?\Z|0x[0-9A-Fa-f]{1,16}\Z")

_SHAPES = {
    "index": re.compile(r"\d{1,3}\Z"),
    "pid": re.compile(r"\d{1,10}\Z"),
    "name_raw": re.compile(GPU_NAME.pattern + r"(?:, [^,|:;]{1,40})*\Z"),
    "bus_id": _BUS,
    "uuid": re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{8,90}\Z"),
    "pstate": _PSTATE,
    "driver": re.compile(r"[0-9.]{2,20}(?: \[.{1,100}\])?\Z"),
    "vbios_version": re.compile(r"[0-9A-Fa-f.]{5,40}\Z"),
    "taken": re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d"),
    **dict.fromkeys(
        ("compute_mode", "addressing_mode", "driver_model", "mig_mode", "ecc_mode", "recovery_action"), _WORD
    ),
    **dict.fromkeys(("fabric_state", "fabric_status"), _WORD),
}
"""What a cell of a text field looks like, by field."""

Fields = tuple[str, ...]


def header_fields(line: str, asked: Fields | None = None) -> Fields | None:
    """The column names of a header line, lower case, without units; None if it is none.

    A single name is a header only with its unit or if the command above asked for it.

    >>> header_fields("index, memory.used [MiB], clocks_throttle_reasons.active")
    ('index', 'memory.used', 'clocks_event_reasons.active')
    """
    cells = split_cells(line)
    if not cells or not all(_NAME.match(cell) for cell in cells):
        return None
    fields = _canonical(cell.split(" ", 1)[0] for cell in cells)
    known = [name for name in fields if name in GPU or name in APPS or name in SMI]
    if len(cells) == 1:
        return fields if known and (cells[0].endswith("]") or fields == asked) else None
    return fields if len(known) >= 2 or any("." in name or "_" in name for name in known) else None


def command_fields(line: str) -> Fields | None:
    """The column names that a command line asks for."""
    match = _COMMAND.search(line[:LONGEST])
    if match is None:
        return None
    return _canonical(name for name in match[2].split(",") if name)


def _canonical(names: Iterator[str]) -> Fields:
    return tuple(name.lower().replace("clocks_throttle_reasons", "clocks_event_reasons") for name in names)


def split_cells(line: str) -> list[str]:
    """The cells of a line. There is no quoting."""
    text = clean(line)
    return [cell.strip() for cell in text.split(",", _MOST_CELLS)] if text else []


def is_apps(fields: Fields) -> bool:
    """A table of processes."""
    return "pid" in fields and (
        "process_name" in fields or "used_gpu_memory" in fields or "used_memory" in fields
    )


def is_gpus(fields: Fields) -> bool:
    """A table of GPUs, not of processes, accounted processes or single retired pages."""
    return (
        "pid" not in fields
        and "retired_pages.address" not in fields
        and any(f in GPU or f in SMI for f in fields)
    )


def row_values(line: str, fields: Fields) -> list[tuple[str, str]] | None:
    """The cells of a row with their columns; None if the line is no row of this table."""
    cells = split_cells(line)
    wanted = len(fields)
    if len(cells) > wanted:
        at = next((i for i, name in enumerate(fields) if name in ("name", "gpu_name", "process_name")), None)
        if at is None or len(cells) > wanted + 8:
            return None
        spare = len(cells) - wanted
        cells[at : at + spare + 1] = [", ".join(cells[at : at + spare + 1])]
    if len(cells) < wanted and (len(cells) < 2 or len(cells) * 2 < wanted):
        return None
    pairs = list(zip(fields, cells, strict=False))
    return pairs if all(_fits(name, cell) for name, cell in pairs) else None


def _fits(name: str, cell: str) -> bool:
    """Can this cell stand in this column?"""
    if not cell[:1].isdigit() and token(cell) in _SPECIAL:
        return True
    shape = _SHAPES.get(GPU.get(name) or SMI.get(name) or APPS.get(name) or "")
    if shape is not None:
        return bool(shape.match(cell))
    field = GPU.get(name, "").lstrip("+")
    if not field:
        return len(cell) <= 200
    if converters(Gpu)[field] is truth:
        return truth(cell) is not None
    return bool(_NUMBER_CELL.match(cell))


def bare_row(line: str) -> list[tuple[str, str]] | None:
    """A row whose columns nobody named: the values that name themselves."""
    cells = split_cells(line)
    if len(cells) < 3 or not (cells[0].isascii() and cells[0].isdigit() and len(cells[0]) <= 3):
        return None
    if len(cells) > 64 or not GPU_NAME.fullmatch(cells[1]) or "=" in line[:LONGEST]:
        return None
    found = [("index", cells[0]), ("name", cells[1])]
    for cell in cells[2:]:
        if _PSTATE.match(cell):
            found.append(("pstate", cell))
        elif _BUS.match(cell):
            found.append(("pci.bus_id", cell))
        elif cell.startswith("GPU-"):
            found.append(("uuid", cell))
        elif _VERSION.match(cell):
            found.append(("driver_version", cell))
        elif _MASK.match(cell):
            found.append(("clocks_event_reasons.active", cell))
        elif cell in _COMPUTE_MODES:
            found.append(("compute_mode", cell))
        elif token(cell) in FAILURES:
            found.append(("gpu_recovery_action", cell))
    return found
