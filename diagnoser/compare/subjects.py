"""What two sides can differ in: facts as pairs of a subject (whose) and a value (what).

`GpuFact(index=3, power_limit_w=300)` says of the subject "power limit of GPU 3" the value "300 W"; two sides that
name the same subject with other values differ. Readings that move by themselves (temperature, load, clocks at this
moment) are no subjects.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, Protocol, Self, TypeVar

from diagnoser.facts.base import Fact
from diagnoser.facts.factbase import FactBase, Sighting

Area = Literal[
    "flags",
    "environment",
    "packages",
    "engine",
    "model",
    "gpu",
    "topology",
    "host",
    "backends",
    "memory",
    "start-up",
]

Value = str | int | float | bool | None


class Subject(NamedTuple):
    """Whose value it is: of which fact kind, under which name, in which field."""

    area: Area
    kind: str
    name: str
    field: str

    def __str__(self) -> str:
        if self.area in ("flags", "environment"):
            return self.name
        words = self.name.replace("_", " ")
        return (
            words if words.split()[-1:] == [self.field] else f"{words} {self.field.replace('_', ' ')}".strip()
        )


class Stated(NamedTuple):
    """A value with the place where it was last stated. assumed: whose default it is, where nobody stated it."""

    value: Value
    place: Sighting
    assumed: str | None = None


class _Shape(NamedTuple):
    """How a fact kind is taken apart. own: the fields that name the subject. values: the fields that are compared.
    each: the owners are alike (eight cards), so that what is said of several is folded into one."""

    area: Area
    own: tuple[str, ...]
    values: tuple[str, ...]
    each: bool = False


_GPU = (
    "name", "arch", "memory_total_mib", "power_limit_w", "power_default_w", "clock_sm_max_mhz", "clock_app_mhz",
    "pcie_gen_max", "pcie_width_current", "pcie_width_max", "link_gen_below_limit", "link_width_below_max",
    "ecc_mode", "mig_mode", "compute_mode", "persistence_mode", "power_below_default", "power_capped_early",
    "throttled_hw", "throttled_thermal", "vbios_version", "gsp_firmware", "remap_pending", "remap_failure",
    "fabric_state",
)  # fmt: skip
_HOST = (
    "governor", "cpufreq_driver", "epp", "cpu_quota_cores", "cpu_quota_unlimited", "torch_threads", "mem_total_mib",
    "swap_total_mib", "dev_shm_mib", "memlock_kib", "memlock_unlimited", "open_files", "clocksource",
    "numa_balancing", "hugepages", "kernel_release", "cpu_model", "cpus", "sockets", "threads_per_core",
    "numa_nodes", "hypervisor",
)  # fmt: skip

SHAPES: Mapping[str, _Shape] = {
    "server_arg": _Shape("flags", ("name",), ("value",)),
    "env": _Shape("environment", ("name",), ("value",)),
    "package": _Shape("packages", ("name",), ("version", "local")),
    "torch_build": _Shape("packages", (), ("version", "cuda", "cudnn")),
    "cuda_toolkit": _Shape("packages", ("where",), ("version",)),
    "nccl_version": _Shape("packages", (), ("version", "cuda")),
    "driver": _Shape("packages", (), ("version",)),
    "kernel_module": _Shape("packages", (), ("version", "open")),
    "smi": _Shape("packages", (), ("driver_version", "cuda_driver_version")),
    "engine": _Shape("engine", ("name",), ("version",)),
    "model": _Shape(
        "model", (), ("path", "architecture", "attention", "quantization", "dtype", "moe", "multimodal")
    ),
    "gpu": _Shape("gpu", ("index",), _GPU, each=True),
    "gpu_set": _Shape("gpu", (), ("count", "arch", "mixed_arch")),
    "topology": _Shape(
        "topology",
        (),
        ("gpu_count", "has_nvlink", "pcie_only", "nvlinks_min", "nvlinks_max", "worst", "spans_sockets"),
    ),
    "nvlink": _Shape("topology", ("gpu_index",), ("active", "rate_gb_s"), each=True),
    "iommu_mode": _Shape("host", (), ("mode",)),
    "service": _Shape("host", ("name",), ("state",)),
    "host_state": _Shape("host", (), _HOST),
    "attention_backend": _Shape("backends", ("phase",), ("name",)),
    "kernel_backend": _Shape("backends", ("role",), ("name",)),
    "nccl_network": _Shape("backends", (), ("name",)),
    "nccl_transport": _Shape("backends", ("src", "dst"), ("via",), each=True),
    "nccl_channels": _Shape("backends", (), ("coll", "nvls", "p2p")),
    "capacity": _Shape("memory", ("name",), ("value",)),
    "start_phase": _Shape("start-up", ("name",), ("duration_s",)),
}
"""Fact kinds that hold still: what was set, installed, chosen or sized."""

TOLERANCE: Mapping[Area, float] = {"memory": 0.02, "start-up": 0.15}
"""By how much of the larger two sizes may differ and be the same: memory in use at start moves by a percent or
two between starts (H200 captures: kv_tokens within 1.5 % over 12 starts), a phase's duration by the page cache."""


def stated(facts: FactBase) -> dict[Subject, Stated]:
    """Every subject of these facts with its value; the last statement of a subject holds."""
    found: dict[Subject, Stated] = {}
    for kind, shape in SHAPES.items():
        for fact, sightings in sorted(facts.of(kind), key=lambda pair: pair[1].kept()[-1].place):
            owner = " ".join(
                str(getattr(fact, field)) for field in shape.own if getattr(fact, field) is not None
            )
            name = f"{kind} {owner}" if shape.each else owner or kind
            for field, value in _values(fact, shape):
                subject = Subject(shape.area, kind, name, "" if field == "value" else field)
                found[subject] = Stated(value, sightings.kept()[-1])
    return found


def _values(fact: Fact, shape: _Shape) -> Iterator[tuple[str, Value]]:
    for field in shape.values:
        value = getattr(fact, field, None)
        if value is not None or fact.kind in ("env", "server_arg"):
            yield field, value


def same(subject: Subject, values: Iterable[Value]) -> bool:
    """Whether these values say the same of the subject: sizes within `TOLERANCE`, texts without regard to case."""
    values = list(values)
    share = TOLERANCE.get(subject.area)
    if share is not None and all(isinstance(value, int | float) for value in values):
        numbers = [float(value) for value in values if value is not None]
        return max(numbers) - min(numbers) <= share * max(map(abs, numbers))
    if subject.name.endswith("cudagraph_mode"):
        values = [_GRAPH_MODES.get(_plain(value), value) for value in values]
    return len({_plain(value) for value in values}) <= 1


_GRAPH_MODES: Mapping[str, str] = {
    "0": "none", "1": "piecewise", "2": "full", "[2,0]": "full_decode_only", "[2,1]": "full_and_piecewise",
    "(2, 0)": "full_decode_only", "(2, 1)": "full_and_piecewise",
}  # fmt: skip
"""How vLLM prints the members of CUDAGraphMode (config/compilation.py), in some releases by number."""


def _plain(value: Value) -> str:
    """Engines print one value as True, true or 'true', and 1.0 as 1."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).lower()


class Told(Protocol):
    """Anything that is said of a subject."""

    @property
    def subject(self) -> Subject: ...

    def _replace(self, *, subject: Subject) -> Self: ...


T = TypeVar("T", bound=Told)


def alike(found: Iterable[T], said: Callable[[T], tuple[object, ...]]) -> list[T]:
    """What several alike owners say alike (eight cards with a low limit) as one.

    said: what must be the same, besides the subject's kind and field.
    """
    groups: dict[tuple[object, ...], list[T]] = {}
    for one in found:
        owner = one.subject.kind if SHAPES[one.subject.kind].each else one.subject.name
        groups.setdefault((one.subject.kind, owner, one.subject.field, *said(one)), []).append(one)
    return [
        several[0]._replace(subject=folded(one.subject for one in several)) for several in groups.values()
    ]


def folded(subjects: Iterable[Subject]) -> Subject:
    """One subject for several of alike owners: "gpu 0", "gpu 1" and "gpu 3" become "gpu 0 1 3"."""
    several = sorted(subjects)
    if len(several) == 1:
        return several[0]
    owners = [subject.name.partition(" ")[2] for subject in several]
    return several[0]._replace(name=f"{several[0].kind} {' '.join(owners)}")
