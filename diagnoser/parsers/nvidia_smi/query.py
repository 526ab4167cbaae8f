r"""``nvidia-smi -q``, whole, with ``-d``, or a few indented lines of it in the middle of a log.

>>> block = [
...     "    Clocks Event Reasons",
...     "        SW Power Cap                      : Active",
...     "        HW Slowdown                       : Not Active",
... ]
>>> gpu = next(found.fact for found in parse(block, 0))
>>> gpu.reason_sw_power_cap, gpu.reason_hw_slowdown, gpu.reasons, gpu.reason_idle
(True, False, ('sw_power_cap',), None)

Keys and sections by generation: drivers 440 to 610 (captures of 580, 590, 595, 610).
"""

from collections.abc import Iterator
from typing import NamedTuple

from diagnoser.facts.base import Found
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.nvidia_smi.query_keys import GPU, HEADER, MIG, PROCESS, SKIPPED, TITLES
from diagnoser.parsers.nvidia_smi.tree import DEEPEST, TreeReader
from diagnoser.parsers.nvidia_smi.values import clean

_MOST_LINES = 30_000
_MOST_TITLES = 6
"""Titles in a row; nvidia-smi nests at most four."""
_WIDEST = 400

_PAIR = lazy(r"( {0,60})([A-Za-z][A-Za-z0-9 ._()/+-]{0,62}) :(?: (.*))?\Z")
_TITLE = lazy(r"( {0,60})((?:[A-Z]|vGPU )[A-Za-z0-9 ./()-]{1,60})\Z")
_DEVICE = lazy(r" {0,8}GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\Z")
_START = lazy(r"={3,40} ?NVSMI LOG ?={3,40}\Z")

_KNOWN = {key.rsplit("/", 1)[-1] for key in (*GPU, *MIG, *PROCESS)}
_SECTIONS = {part for key in GPU for part in key.split("/")[:-1]} | {"gpu reset status", "mig device"}


class Line(NamedTuple):
    """A line of the tree.

    value: None for titles. bus: set for the line that opens a GPU. padded: blanks fill the key's column.
    """

    indent: int
    key: str
    value: str | None = None
    bus: str | None = None
    start: bool = False
    padded: bool = False


def read(line: str) -> Line | None:
    """The line as part of the tree, or None. Keys are lower case, ``throttle`` is read as ``event``.

    >>> read("        GPU Current Temp                : 88 C")
    Line(indent=8, key='gpu current temp', value='88 C', bus=None, start=False, padded=True)
    """
    if len(line) > _WIDEST:
        return None
    text = clean(line).expandtabs(4)
    if device := _DEVICE.match(text):
        return Line(0, "gpu", bus=device[1])
    if _START.match(text.strip()):
        return Line(0, "", start=True)
    head, colon, value = text.partition(" : ")
    pair = _PAIR.match(f"{head} :") if colon else _PAIR.match(text) if text.endswith(" :") else None
    if pair is not None:
        return Line(len(pair[1]), _key(pair[2]), value.strip(), padded=head.endswith("  "))
    if not colon and (title := _TITLE.match(text)):
        return Line(len(title[1]), _key(title[2]))
    return None


def _key(text: str) -> str:
    return " ".join(text.lower().replace("throttle", "event").split())


def extent(lines: Lines, i: int) -> range | None:
    """The tree around line i. In a tree that lost its indentation lines count that know a key."""
    hit = read(lines[i])
    if hit is None or not _opens(lines, i, hit):
        return None
    flat = _is_flat(lines, i, hit)
    first = i if hit.start else _grow(lines, i, -1, flat)
    last = _grow(lines, i, 1, flat)
    while last > i and (not lines[last].strip() or _is_title(read(lines[last]))):
        last -= 1
    return range(first, last + 1)


def _grow(lines: Lines, i: int, way: int, flat: bool) -> int:
    """The farthest line of the tree above (-1) or below (+1) line i; another log's rule ends it."""
    end, titles = i, 0
    while abs(end - i) < _MOST_LINES and titles <= _MOST_TITLES:
        step = _step(lines, end, way, flat)
        if step is None:
            break
        line = read(lines[step])
        if line is not None and line.start:
            return step if way < 0 else end
        titles = titles + 1 if _is_title(line) else 0
        end = step
    return end


def _is_title(line: Line | None) -> bool:
    return line is not None and line.value is None and line.bus is None and not line.start


def _opens(lines: Lines, i: int, hit: Line) -> bool:
    """Is line i by itself a sign of ``-q``: its rule, a known key with a value, or a section with one?"""
    if hit.start or hit.bus is not None:
        return True
    if hit.value is not None:
        return hit.key in HEADER or hit.key in _KNOWN or hit.key in _SECTIONS
    if hit.key not in _SECTIONS:
        return False
    below = (read(line) for line in lines[i + 1 : i + 1 + _MOST_TITLES])
    first = next((line for line in below if line is None or not _is_title(line)), None)
    return first is not None and first.value is not None and first.key in _KNOWN


def _is_flat(lines: Lines, i: int, hit: Line) -> bool:
    """Did the tree lose its indentation? Then keys of the GPU stand at the margin."""
    near = [hit, *(line for line in map(read, lines[i : i + 14]) if line is not None)]
    pairs = [line for line in near if line.value is not None and line.key not in HEADER]
    return bool(pairs) and all(line.indent == 0 for line in pairs)


def _step(lines: Lines, k: int, way: int, flat: bool) -> int | None:
    """The next line of the tree above (-1) or below (+1) line k; up to two empty lines are crossed."""
    for j in range(k + way, k + 4 * way, way):
        if not 0 <= j < len(lines):
            return None
        if not lines[j].strip():
            continue
        line = read(lines[j])
        return j if line is not None and _belongs(line, flat) else None
    return None


def _belongs(line: Line, flat: bool) -> bool:
    if line.start or line.bus is not None or line.indent >= 4 or line.key in HEADER:
        return True
    return flat and (line.key in _KNOWN or line.key in _SECTIONS or line.key in TITLES or line.padded)


def parse(lines: Lines, _: int) -> Iterator[Found]:
    """The facts of one tree: Smi if its head is there, GPUs, MIG instances, processes and the set."""
    tree = TreeReader(GPU, MIG, PROCESS)
    for number, line, path in _walk(lines):
        _take(tree, number, line, path)
    return tree.facts()


def _take(tree: TreeReader, number: int, line: Line, path: tuple[str, ...]) -> None:
    if line.bus is not None:
        tree.begin_gpu(number, line.bus)
    elif line.value is not None and line.key in HEADER and len(path) == 1:
        tree.header(number, HEADER[line.key], line.value)
    elif "mig device" in path:
        if line.value is None and line.key == "mig device":
            tree.begin_mig(number)
        elif line.value is not None and tree.migs:
            tree.put(tree.migs[-1], number, path, line.value)
    elif "processes" in path:
        _take_process(tree, number, line, path)
    elif line.value is not None and not SKIPPED.intersection(path):
        tree.put(tree.gpu(number), number, path, line.value)


def _take_process(tree: TreeReader, number: int, line: Line, path: tuple[str, ...]) -> None:
    if line.key == "processes":
        tree.begin_processes(number)
        return
    begun = tree.processes[-1] if tree.processes else None
    first_keys = ("gpu instance id", "process id")
    if line.key in first_keys and (begun is None or "pid" in begun.values or line.key == "gpu instance id"):
        tree.begin_process(number)
    if tree.processes and line.value is not None:
        tree.put(tree.processes[-1], number, path, line.value)


def _walk(lines: Lines) -> Iterator[tuple[int, Line, tuple[str, ...]]]:
    """Number, line and path of each line; without any indentation the last title stands for the path."""
    found = [(number, line) for number, text in enumerate(lines) if (line := read(text)) is not None]
    flat = not any(line.indent for _, line in found)
    stack: list[tuple[int, str]] = []
    for number, line in found:
        if line.bus is not None or line.start:
            stack.clear()
        elif flat:
            if line.value is None:
                stack = [(0, line.key)]
            yield number, line, (*(key for _, key in stack), line.key)
            continue
        else:
            while stack and stack[-1][0] >= line.indent:
                stack.pop()
            if len(stack) < DEEPEST:
                stack.append((line.indent, line.key))
        yield number, line, tuple(key for _, key in stack)


PARSERS = (
    Parser(
        name="nvidia_smi_query",
        literals=(
            "NVSMI LOG",
            "Attached GPUs",
            "Product Name  ",
            "Clocks Event Reasons",
            "Clocks Throttle Reasons",
            "SW Power Cap",
            "HW Slowdown",
            "HW Thermal Slowdown",
            "SW Thermal Slowdown",
            "HW Power Brak",
            "Performance State  ",
            "GPU Current Temp",
            "GPU T.Limit Temp",
            "Power Draw  ",
            "Power Limit  ",
            "PCIe Generation",
            "Link Width",
            "Replays Since Reset",
            "FB Memory Usage",
            "GPU Reset Status",
            "Reset Required",
            "GPU Recovery Action",
            "Remapped Rows",
            "Remapping Failure",
            "DRAM Uncorrectable",
            "SRAM Uncorrectable",
            "Pending Page Blacklist",
            "Persistence Mode  ",
            "Virtualization Mode  ",
            "License Status  ",
            "GSP Firmware Version",
            "MIG Mode",
            "ECC Mode",
            "ClusterUUID",
        ),
        parse=parse,
        extent=extent,
        document="nvidia-smi -q",
    ),
)
