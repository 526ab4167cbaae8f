"""What ``-q`` and its XML share: a path of keys leads to a field, whatever stands above it.

A table's key is the shortest end of a path that is unambiguous ("link width/max"), so a fragment whose upper
levels were cut is read as well as the whole. The longest matching end wins; a field of None is ignored.
"""

from collections.abc import Iterator, Mapping, Sequence

from diagnoser.facts.base import Found
from diagnoser.facts.gpu import Gpu, GpuProcess, MigInstance, Smi
from diagnoser.parsers.nvidia_smi.gather import assemble
from diagnoser.parsers.nvidia_smi.header import put_versions
from diagnoser.parsers.nvidia_smi.values import Draft, token, whole

Path = Sequence[str]
Table = Mapping[str, str | None]

DEEPEST = 16
"""Levels of a path that are kept; nvidia-smi prints at most seven."""


def look_up(table: Table, path: Path) -> str | None:
    """The field of the longest end of the path that the table knows.

    >>> look_up({"width/max": "pcie_width_max", "max": None}, ("pci", "width", "max"))
    'pcie_width_max'
    """
    for start in range(max(0, len(path) - 5), len(path)):
        key = "/".join(path[start:])
        if key in table:
            return table[key]
    return None


class TreeReader:
    """Collects values into GPUs, MIG instances, processes and the header."""

    def __init__(self, gpu: Table, mig: Table, process: Table) -> None:
        self.tables = {Gpu: gpu, MigInstance: mig, GpuProcess: process}
        self.smi = Draft(Smi)
        self.headed = False
        self.attached: int | None = None
        self.gpus: list[Draft] = []
        self.migs: list[Draft] = []
        self.processes: list[Draft] | None = None
        self.list_at: int | None = None

    def header(self, line: int, what: str, text: str) -> None:
        """A line above the GPUs; what: driver, cuda, attached, taken or schema_version."""
        if not self.headed:
            self.headed, self.smi.first = True, line
        self.smi.reach(line)
        if what == "driver":
            put_versions(self.smi, text, None)
        elif what == "cuda":
            put_versions(self.smi, None, text)
        elif what == "attached":
            self.attached = whole(text)
            self.smi.put("gpu_count", text)
        else:
            self.smi.put(what, text)

    def begin_gpu(self, line: int, bus: str | None = None) -> None:
        self.gpus.append(Draft(Gpu, line, line))
        if bus is not None:
            self.gpus[-1].put("bus_id", bus)

    def gpu(self, line: int) -> Draft:
        """The GPU at hand; a fragment without its first line has one all the same."""
        if not self.gpus:
            self.begin_gpu(line)
        self.gpus[-1].reach(line)
        return self.gpus[-1]

    def begin_mig(self, line: int) -> None:
        self.gpu(line)
        self.migs.append(Draft(MigInstance, line, line, {"gpu_index": len(self.gpus) - 1}))

    def begin_processes(self, line: int) -> None:
        """A list of this GPU's processes begins here; it may stay empty."""
        self.gpu(line).values.setdefault("processes", 0)
        self.processes = self.processes or []
        self.list_at = line if self.list_at is None else self.list_at

    def begin_process(self, line: int) -> None:
        self.begin_processes(line)
        self.gpu(line).values["processes"] += 1
        process = Draft(GpuProcess, line, line, {"gpu_index": len(self.gpus) - 1})
        bus = self.gpu(line).values.get("bus_id")
        if bus is not None:
            process.values["bus_id"] = bus
        assert self.processes is not None
        self.processes.append(process)

    def put(self, draft: Draft, line: int, path: Path, text: str) -> None:
        """Set the field that the path stands for, if any."""
        name = look_up(self.tables[draft.model], path)
        if name is None:
            return
        if name == "ecc_mode" and token(text) == "n/a":
            return
        draft.put(name, text)
        draft.reach(line)
        if name == "name" and draft.model is GpuProcess:
            draft.values["not_found"] = token(text) == "not found"

    def facts(self) -> Iterator[Found]:
        """All of it. Positions become indexes only if every attached GPU was listed."""
        gpus = [gpu for gpu in self.gpus if gpu.values or gpu.failures]
        if self.headed:
            yield Found(self.smi.fact(), self.smi.first, self.smi.last)
        whole_list = self.attached == len(self.gpus)
        for index, gpu in enumerate(self.gpus):
            if whole_list:
                gpu.values.setdefault("index", index)
        if not whole_list:
            for draft in (*self.migs, *(self.processes or ())):
                draft.values.pop("gpu_index", None)
        yield from assemble(gpus, self.processes, attached=self.attached, list_at=self.list_at)
        for mig in self.migs:
            yield Found(mig.fact(), mig.first, mig.last)
