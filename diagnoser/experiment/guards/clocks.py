"""What held the GPUs back while it was measured, and whether they ran alike for both arms."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from diagnoser.experiment.guards.gpus import Gpu, State
from diagnoser.experiment.load.guards import Finding, Level

POWER_CAP, THERMAL = 0x4, 0x20
HARDWARE = {0x8: "hardware slowdown", 0x40: "hardware thermal slowdown", 0x80: "power brake"}
"""Bits of ``clocks_event_reasons.active`` (NVML's nvmlClocksEventReasons). Any sample of one of these voids a run."""

THERMAL_VOID = 0.05
"""Share of samples with software thermal slowdown from which a run is void."""

CLOCK_WARN, CLOCK_VOID = 0.01, 0.03
"""Relative difference of the arms' median SM clocks."""

TEMPERATURE_WARN_C = 5.0


def held_back(samples: Sequence[State], used: frozenset[str]) -> Iterator[Finding]:
    """What the reasons of the driver say about one run."""
    seen = [gpu for state in samples for gpu in state.gpus if gpu.uuid in used or not used]
    masks = [gpu.reasons for gpu in seen if gpu.reasons is not None]
    for bit, name in HARDWARE.items():
        hit = sum(bool(mask & bit) for mask in masks)
        if hit:
            gpu = next(one.number for one in seen if one.reasons and one.reasons & bit)
            yield Finding("gpu-slowdown", "void", f"{name} on GPU {gpu} in {hit} of {len(masks)} samples")
    hot = sum(bool(mask & THERMAL) for mask in masks)
    if hot:
        level: Level = "void" if hot >= THERMAL_VOID * len(masks) else "warn"
        text = f"thermal slowdown in {hot} of {len(masks)} samples"
        yield Finding("gpu-thermal", level, text)


class Ran(NamedTuple):
    """How one GPU ran during a launch: medians of its samples, the temperature at the first, and the most of
    PCIe, which saves power between transfers."""

    number: int
    name: str
    driver: str
    sm_clock_mhz: float | None
    temperature_c: float | None
    power_limit_w: float | None
    pcie_gen: float | None
    pcie_width: float | None
    ecc_uncorrected: float | None
    power_capped: bool


def ran(samples: Sequence[State], used: frozenset[str]) -> dict[str, Ran]:
    """Each used GPU of a launch by its id."""
    of: dict[str, list[Gpu]] = {}
    for state in samples:
        for gpu in state.gpus:
            if gpu.uuid in used or not used:
                of.setdefault(gpu.uuid, []).append(gpu)

    def middle(gpus: list[Gpu], read: Callable[[Gpu], float | None]) -> float | None:
        values = [value for gpu in gpus if (value := read(gpu)) is not None]
        return statistics.median(values) if values else None

    def most(gpus: list[Gpu], read: Callable[[Gpu], float | None]) -> float | None:
        return max((value for gpu in gpus if (value := read(gpu)) is not None), default=None)

    return {
        uuid: Ran(
            gpus[0].number, gpus[0].name, gpus[0].driver, middle(gpus, lambda g: g.sm_clock_mhz), gpus[0].temperature_c,
            middle(gpus, lambda g: g.power_limit_w), most(gpus, lambda g: g.pcie_gen),
            most(gpus, lambda g: g.pcie_width), gpus[-1].ecc_uncorrected,
            any((gpu.reasons or 0) & POWER_CAP for gpu in gpus),
        )
        for uuid, gpus in of.items()
    }  # fmt: skip


def alike(a: dict[str, Ran], b: dict[str, Ran]) -> Iterator[Finding]:
    """Whether two launches ran on GPUs in the same state; what differs voids the second."""
    if a.keys() != b.keys():
        names = [f"GPU {one.number}" for one in {**a, **b}.values()]
        yield Finding("gpu-other", "void", f"the launches did not run on the same GPUs ({', '.join(names)})")
        return
    for uuid, first in a.items():
        second = b[uuid]
        for field, words in (
            ("driver", "driver"), ("power_limit_w", "power limit"), ("pcie_gen", "PCIe generation"),
            ("pcie_width", "PCIe width"), ("ecc_uncorrected", "count of uncorrected ECC errors"),
        ):  # fmt: skip
            before, after = getattr(first, field), getattr(second, field)
            if before is not None and after is not None and before != after:
                text = f"the {words} of GPU {first.number} changed from {before} to {after}"
                yield Finding("gpu-changed", "void", text)
        if first.sm_clock_mhz and second.sm_clock_mhz:
            off = abs(second.sm_clock_mhz / first.sm_clock_mhz - 1)
            if off > CLOCK_WARN:
                text = (
                    f"the SM clock of GPU {first.number} was {first.sm_clock_mhz:.0f} MHz in the one launch and "
                    f"{second.sm_clock_mhz:.0f} MHz in the other"
                )
                yield Finding("gpu-clock", "void" if off > CLOCK_VOID else "warn", text)
        begin, again = first.temperature_c, second.temperature_c
        if begin is not None and again is not None and abs(begin - again) > TEMPERATURE_WARN_C:
            text = f"GPU {first.number} began at {begin:.0f} and at {again:.0f} degrees"
            yield Finding("gpu-temperature", "warn", text)
        if first.power_capped != second.power_capped:
            yield Finding("gpu-power-cap", "warn", f"the power cap held GPU {first.number} in one arm only")
