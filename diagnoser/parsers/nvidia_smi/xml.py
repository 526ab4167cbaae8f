"""``nvidia-smi -q -x``: every DTD from v10 to v13, whole or cut, with real line numbers.

A paste that was cut is no well-formed XML, so tags are read one by one. No entity, DTD or attribute is ever
expanded except the five standard entities in values, which is why no XML library is needed here.

>>> block = [
...     '<gpu id="00000000:00:1E.0">',
...     "	<product_name>Tesla T4</product_name>",
...     "	<performance_state>P0</performance_state>",
... ]
>>> gpu = next(found.fact for found in parse(block, 0))
>>> gpu.bus_id, gpu.name, gpu.arch, gpu.pstate
('00000000:00:1E.0', 'Tesla T4', 'sm75', 'P0')

The DTD's number does not tell the spelling (v12 of driver 525 says ``throttle``, of 535 ``event``): elements
are taken as they come. Sources: captures of driver 580; public test data of drivers 418 to 595.
"""

import html
from collections.abc import Iterator

from diagnoser.facts.base import Found
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.nvidia_smi.tree import DEEPEST, TreeReader
from diagnoser.parsers.nvidia_smi.values import LONGEST, clean
from diagnoser.parsers.nvidia_smi.xml_keys import GPU, HEADER, MIG, PROCESS, SKIPPED

_MOST_LINES = 60_000

_TOKEN = lazy(r"<(/?)([A-Za-z_][\w.-]{0,80}+)([^<>]{0,200}+)>|([^<]++)|<")
_DTD = lazy(r"nvsmi_device_(v\d{1,3})\.dtd")
_BUS = lazy(r"id=[\"']([0-9A-Fa-f:.]{8,20})[\"']")
_TAG_LINE = lazy(r"\s{0,200}<(?:[/?!]?[A-Za-z_])")
_ROOT = "nvidia_smi_log"


def extent(lines: Lines, i: int) -> range | None:
    """The XML around line i: from its declaration to ``</nvidia_smi_log>`` as far as they are there."""
    if not _is_tag(lines[i]):
        return None
    first = last = i
    while first > 0 and i - first < _MOST_LINES and not _starts(lines, first):
        if not _is_inside(lines, first - 1) or f"/{_ROOT}" in lines[first - 1]:
            break
        first -= 1
    while last + 1 < len(lines) and last - i < _MOST_LINES and f"/{_ROOT}" not in lines[last]:
        if not _is_inside(lines, last + 1) or _starts(lines, last + 1, above=lines[last]):
            break
        last += 1
    while last > i and not _is_tag(lines[last]):
        last -= 1
    while first < i and not _is_tag(lines[first]):
        first += 1
    return range(first, last + 1)


def _is_tag(line: str) -> bool:
    return bool(_TAG_LINE.match(clean(line[:400])))


def _is_inside(lines: Lines, k: int) -> bool:
    """Tags, or the text of an element on lines of its own (``None``, ``N/A``) next to tags."""
    if _is_tag(lines[k]):
        return True
    near = [j for j in (k - 1, k + 1) if 0 <= j < len(lines)]
    return len(lines[k]) < 80 and lines[k][:1] in (" ", "\t", "") and all(_is_tag(lines[j]) for j in near)


def _starts(lines: Lines, k: int, above: str = "") -> bool:
    """Does a document begin at line k? Declaration, DOCTYPE or root, whichever comes first."""
    line = lines[k]
    if "<?xml" in line:
        return True
    previous = above or (lines[k - 1] if k > 0 else "")
    if "<!DOCTYPE" in line:
        return "<?xml" not in previous
    return f"<{_ROOT}" in line and "<!DOCTYPE" not in previous


def parse(lines: Lines, _: int) -> Iterator[Found]:
    """The facts of one document: Smi, GPUs, MIG instances, processes and the set."""
    reader = _XmlReader()
    for number, line in enumerate(lines):
        text = line if "<" in line else clean(line)
        if dtd := _DTD.search(text[:400]):
            reader.tree.header(number, "schema_version", dtd[1])
        for match in _TOKEN.finditer(text[:LONGEST]):
            closing, tag, attributes, value = match.groups()
            if value is not None:
                reader.text(value)
            elif tag is None:
                continue
            elif closing:
                reader.close(number, tag)
            elif not attributes.endswith("/"):
                reader.open(number, tag, attributes)
    return reader.tree.facts()


class _XmlReader:
    """Path of open elements, and the text of the innermost one."""

    def __init__(self) -> None:
        self.tree = TreeReader(GPU, MIG, PROCESS)
        self.path: list[str] = []
        self.value: list[str] = []
        self.began = 0

    def text(self, value: str) -> None:
        if self.path and len(self.value) < 16:
            self.value.append(value[:4096])

    def open(self, number: int, tag: str, attributes: str) -> None:
        tag = tag.replace("throttle", "event")
        self.value = []
        self.began = number
        if len(self.path) < DEEPEST:
            self.path.append(tag)
        if tag == "gpu":
            bus = _BUS.search(attributes)
            self.tree.begin_gpu(number, bus[1] if bus else None)
            self.path = ["gpu"]
        elif tag == "mig_device":
            self.tree.begin_mig(number)
        elif tag == "processes":
            self.tree.begin_processes(number)
        elif tag == "process_info" and "processes" in self.path:
            self.tree.begin_process(number)

    def close(self, number: int, tag: str) -> None:
        tag = tag.replace("throttle", "event")
        value = html.unescape(" ".join("".join(self.value).split()))
        self.value = []
        if not self.path or self.path[-1] != tag:
            if tag in self.path:
                del self.path[self.path.index(tag) :]
            return
        if value:
            self.take(number, value)
        self.path.pop()

    def take(self, number: int, value: str) -> None:
        tree, path = self.tree, self.path
        if path[-1] in HEADER and not tree.gpus:
            tree.header(self.began, HEADER[path[-1]], value)
        elif "mig_device" in path and tree.migs:
            tree.put(tree.migs[-1], number, path, value)
        elif "process_info" in path and "processes" in path and tree.processes:
            tree.put(tree.processes[-1], number, path, value)
        elif not SKIPPED.intersection(path) and path[-1] != "processes":
            tree.put(tree.gpu(number), number, path, value)


PARSERS = (
    Parser(
        name="nvidia_smi_xml",
        literals=(
            "nvsmi_device_v",
            "<nvidia_smi_log",
            "</nvidia_smi_log>",
            "<product_name>",
            "<clocks_event_reason",
            "<clocks_throttle_reason",
            "<gpu_power_readings>",
            "<power_readings>",
            "<reset_required>",
            "<gpu_recovery_action>",
            "<pcie_gen>",
            "<link_widths>",
            "<fb_memory_usage>",
            "<remapped_row",
            "<ecc_errors>",
            "<gpu_temp>",
            "<performance_state>",
            "&lt;nvidia_smi_log",
            "&lt;product_name",
        ),
        parse=parse,
        extent=extent,
        document="nvidia-smi -q -x",
    ),
)
