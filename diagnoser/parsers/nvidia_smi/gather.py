"""Puts the facts of one text together: GPUs, their processes, and what the GPUs say as a set."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from diagnoser.facts.base import Found
from diagnoser.facts.gpu import Gpu, GpuProcess, GpuProcessList, GpuSet
from diagnoser.parsers.nvidia_smi.derive import BIG_MIB, complete
from diagnoser.parsers.nvidia_smi.values import Draft

T = TypeVar("T")

_IDENTITY = frozenset({"index", "bus_id", "uuid", "name_raw"})


def assemble(
    drafts: Sequence[Draft],
    processes: Sequence[Draft] | None = None,
    *,
    attached: int | None = None,
    lists_processes: bool = True,
    list_at: int | None = None,
    also: Sequence[Draft] = (),
) -> Iterator[Found]:
    """The GPUs, their processes and what the GPUs say together.

    processes: rows of a shown process list, None where none was shown; list_at: the line that says it is
    empty. attached: GPUs that the text says there are. GPUs without any identity come from a fragment, which
    does not tell how many there are, so they make no set. also: earlier samples, which do not join the set.
    """
    gpus = [(complete(draft, lists_processes), draft) for draft in drafts]
    for draft in also:
        yield Found(complete(draft, lists_processes), draft.first, draft.last)
    for gpu, draft in gpus:
        yield Found(gpu, draft.first, draft.last)
    if processes is not None:
        yield from process_facts(processes, list_at)
    if gpus and all(_IDENTITY & draft.values.keys() for draft in drafts):
        first, last = min(draft.first for draft in drafts), max(draft.last for draft in drafts)
        yield Found(gpu_set([gpu for gpu, _ in gpus], processes, attached), first, last)


def process_facts(processes: Sequence[Draft], list_at: int | None = None) -> Iterator[Found]:
    """The processes of a shown list and the list itself; list_at: its line when it is empty."""
    for draft in processes:
        yield Found(GpuProcess(**draft.values), draft.first, draft.last)
    rows = [draft.values for draft in processes]
    memory = [row["memory_mib"] for row in rows if row.get("memory_mib") is not None]
    fact = GpuProcessList(
        listed=len(rows),
        not_found=sum(bool(row.get("not_found")) for row in rows),
        memory_mib=sum(memory) if memory else None,
    )
    first = min((draft.first for draft in processes), default=list_at or 0)
    yield Found(fact, first, max((draft.last for draft in processes), default=first))


def gpu_set(gpus: Sequence[Gpu], processes: Sequence[object] | None, attached: int | None = None) -> GpuSet:
    """What the GPUs of one text say together; see `GpuSet`."""
    util = _shown(gpu.util_pct for gpu in gpus)
    power = _shown(gpu.power_w for gpu in gpus)
    limits = _shown(gpu.power_limit_w for gpu in gpus)
    used = _shown(gpu.memory_used_mib for gpu in gpus)
    clocks = _shown(gpu.clock_sm_mhz for gpu in gpus)
    links = {
        (gpu.pcie_gen_current, gpu.pcie_width_current) for gpu in gpus if gpu.pcie_gen_current is not None
    }
    names = {gpu.name_raw for gpu in gpus if gpu.name_raw is not None}
    arches = {gpu.arch for gpu in gpus if gpu.arch is not None}
    persistence = _shown(gpu.persistence_mode for gpu in gpus)
    loaded = _shown(gpu.under_load for gpu in gpus)
    throttled = _shown(gpu.throttled for gpu in gpus)
    judged = [gpu for gpu in gpus if gpu.unowned_memory is not None]
    unowned = [gpu.memory_used_mib or 0 for gpu in judged if gpu.unowned_memory]
    listed = None if processes is None else len(processes)
    holding = [
        gpu.util_pct for gpu in gpus if (gpu.memory_used_mib or 0) >= BIG_MIB and gpu.util_pct is not None
    ]
    faultless = _faultless(gpus, attached)
    all_idle = max(util) == 0 if len(util) == len(gpus) else None
    all_empty = max(used) < BIG_MIB if len(used) == len(gpus) else None
    any_listed = bool(listed)
    return GpuSet(
        count=len(gpus),
        attached=attached,
        names_equal=len(names) == 1 if names else None,
        arch=next(iter(arches)) if len(arches) == 1 else None,
        mixed_arch=len(arches) > 1 if arches else None,
        memory_totals_equal=_same(gpu.memory_total_mib for gpu in gpus),
        power_limits_equal=_same(limits),
        links_equal=len(links) == 1 if links else None,
        util_min_pct=min(util, default=None),
        util_max_pct=max(util, default=None),
        power_min_w=min(power, default=None),
        power_max_w=max(power, default=None),
        power_ratio=round(max(power) / min(power), 2) if power and min(power) > 0 else None,
        power_limit_min_w=min(limits, default=None),
        power_limit_max_w=max(limits, default=None),
        temp_max_c=max(_shown(gpu.temp_c for gpu in gpus), default=None),
        clock_sm_min_mhz=min(clocks, default=None),
        clock_sm_max_mhz=max(clocks, default=None),
        memory_used_min_mib=min(used, default=None),
        memory_used_max_mib=max(used, default=None),
        memory_total_max_mib=max(_shown(gpu.memory_total_mib for gpu in gpus), default=None),
        processes=listed,
        unowned_count=len(unowned) if judged else None,
        unowned_mib=sum(unowned) if judged else None,
        container_possible=None if listed is None or not (listed or unowned) else not any_listed,
        loaded_count=sum(loaded) if loaded else None,
        throttled_count=sum(throttled) if throttled else None,
        bad_count=sum(gpu.state != "ok" for gpu in gpus),
        mig_count=sum(bool(gpu.mig_enabled) for gpu in gpus),
        vgpu_count=sum(bool(gpu.is_vgpu) for gpu in gpus),
        persistence_off_count=sum(not on for on in persistence) if persistence else None,
        all_idle=all_idle,
        all_empty=all_empty,
        uneven=min(holding) <= 5 and max(holding) >= 90 if len(holding) >= 2 else None,
        faultless=faultless,
        clean=bool(faultless and all_idle and all_empty and not any_listed) if used else None,
    )


def _faultless(gpus: Sequence[Gpu], attached: int | None) -> bool | None:
    """Does nothing speak of a fault? None for lists that show names only."""
    if any(_faulty(gpu) for gpu in gpus) or attached not in (None, len(gpus)):
        return False
    told = any((gpu.util_pct, gpu.power_w, gpu.temp_c, gpu.reasons) != (None,) * 4 for gpu in gpus)
    return True if told else None


def _faulty(gpu: Gpu) -> bool:
    """Does anything that is shown speak of a fault? An unseen value does not."""
    normal_cap = gpu.reasons == ("sw_power_cap",) and gpu.power_at_cap and not gpu.power_below_default
    return (
        gpu.state != "ok"
        or gpu.error_cells > 0
        or bool(gpu.reasons and not normal_cap)
        or bool(gpu.link_width_below_max)
        or bool(gpu.link_gen_below_limit and gpu.under_load)
        or bool(gpu.ecc_uncorr_volatile)
        or bool(gpu.remap_failure or gpu.remap_pending or gpu.retired_pending or gpu.unrepairable_memory)
        or bool(gpu.reset_needed or gpu.thermal_limit_reached or gpu.vgpu_unlicensed)
        or gpu.fabric_ok is False
    )


def _shown(values: Iterable[T | None]) -> list[T]:
    return [value for value in values if value is not None]


def _same(values: Iterable[object]) -> bool | None:
    shown = {value for value in values if value is not None}
    return len(shown) == 1 if shown else None
