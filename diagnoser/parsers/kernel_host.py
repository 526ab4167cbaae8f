"""Kernel log lines about PCIe, memory, clocks, stuck tasks and storage.

    pcieport 0000:e0:01.1: pciehp: Slot(3): Link Down
    -> PcieLinkDown(slot="3", port="0000:e0:01.1")

Wordings: Linux 4.18 to 6.18, drivers/pci/pcie/aer.c, drivers/pci/pci.c, mm/oom_kill.c and
kernel/time/clocksource.c.
"""

from typing import Literal

from diagnoser.facts.base import Found
from diagnoser.facts.kernel import (
    ClocksourceSwitched,
    ClocksourceUnstable,
    HungTask,
    IommuMode,
    NicPowerLow,
    OomKill,
    PcieError,
    PcieLimited,
    PcieLinkDown,
    Segfault,
    SoftLockup,
    StorageStalled,
)
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.base import Lines
from diagnoser.parsers.by_literal import by_literal, text

_DEVICE = r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"

Severity = Literal["corrected", "nonfatal", "fatal"]

_BUS_ERROR = lazy(
    rf"(?P<driver>[\w-]{{1,32}}) (?P<bus>{_DEVICE}): (?:AER: )?PCIe Bus Error: "
    r"severity=(?P<severity>[^,]{1,32}), type=(?P<layer>[^,]{1,32})"
)
_STATUS_BIT = lazy(r"\[ ?\d{1,2}\] (\w{1,32})")
_RECEIVED = lazy(
    r"AER: (?:Multiple )?(?P<severity>Corrected|Correctable|Uncorrected \(Non-Fatal\)|Uncorrected \(Fatal\)|"
    r"Uncorrectable \(Non-Fatal\)|Uncorrectable \(Fatal\)) error (?:message )?received"
    rf"(?: from|:) (?P<bus>{_DEVICE})"
)


def _severity(words: str) -> Severity:
    if "Corr" in words:
        return "corrected"
    return "nonfatal" if "Non-Fatal" in words else "fatal"


def _bus_error(lines: Lines, i: int) -> Found | None:
    found = _BUS_ERROR.search(text(lines, i))
    if found is None:
        return None
    errors: list[str] = []
    last = i
    for j in range(i + 1, min(i + 9, len(lines))):
        line = text(lines, j)
        if found["bus"] not in line or "PCIe Bus Error" in line:
            break
        if bit := _STATUS_BIT.search(line, line.find(found["bus"])):
            errors.append(bit[1])
            last = j
    fact = PcieError(
        bus=found["bus"].lower(),
        severity=_severity(found["severity"]),
        layer=found["layer"].strip(),
        driver=found["driver"],
        errors=tuple(errors),
    )
    return Found(fact, i, last)


def _received(lines: Lines, i: int) -> PcieError | None:
    found = _RECEIVED.search(text(lines, i))
    if found is None:
        return None
    # The port announces, then the device describes: one event, and the description says more.
    if any(f"{found['bus']}: PCIe Bus Error" in text(lines, j) for j in range(i + 1, i + 4)):
        return None
    return PcieError(bus=found["bus"].lower(), severity=_severity(found["severity"]))


_LIMITED = lazy(
    rf"({_DEVICE}): ([\d.]{{1,12}}) Gb/s available PCIe bandwidth, "
    rf"limited by ([\d.]{{1,8}}) GT/s PCIe x(\d{{1,2}}) link at ({_DEVICE}) "
    r"\(capable of ([\d.]{1,12}) Gb/s with ([\d.]{1,8}) GT/s PCIe x(\d{1,2}) link\)"
)
_SLOT = lazy(
    rf"(?:({_DEVICE}): )?(?:pciehp: )?Slot\(([^)]{{1,32}})\): (Link Down|Card not present|Card removed)"
)


def _limited(lines: Lines, i: int) -> PcieLimited | None:
    found = _LIMITED.search(text(lines, i))
    if found is None or not all(_is_number(found[group]) for group in (2, 3, 6, 7)):
        return None
    return PcieLimited(
        bus=found[1].lower(),
        available_gbps=float(found[2]),
        link_gts=float(found[3]),
        link_width=int(found[4]),
        limited_at=found[5].lower(),
        capable_gbps=float(found[6]),
        capable_gts=float(found[7]),
        capable_width=int(found[8]),
    )


def _is_number(word: str) -> bool:
    return word.count(".") <= 1 and word != "."


def _slot(lines: Lines, i: int) -> PcieLinkDown | None:
    found = _SLOT.search(text(lines, i))
    if found is None:
        return None
    return PcieLinkDown(
        slot=found[2], port=found[1].lower() if found[1] else None, card_gone=found[3] != "Link Down"
    )


_KILLED = lazy(r"Kill(?:ed)? process (\d{1,10})(?:,? (?:UID \d{1,10},)? ?\(([^)]{1,64})\))?")
_CONSTRAINT = lazy(r"oom-kill:constraint=(CONSTRAINT_\w{1,32})")
_OOM_TASK = lazy(r",task=([^,]{1,64}),pid=(\d{1,10})")
_OOM_GROUP = lazy(r",(?:oom_memcg|task_memcg)=([^,]{1,256})")
_SIZES = lazy(r"\b(total-vm|anon-rss):(\d{1,15})kB")
_NEAR = 8

Scope = Literal["global", "memcg"]


def _scope(line: str) -> Scope | None:
    if "Memory cgroup out of memory" in line or "CONSTRAINT_MEMCG" in line:
        return "memcg"
    return "global" if "Out of memory" in line or "oom-kill:constraint=" in line else None


def _killed(lines: Lines, i: int) -> Found | None:
    """The line that says who died; the lines just before it say why (since Linux 5.0 in ``oom-kill:``)."""
    line = text(lines, i)
    found = _KILLED.search(line)
    if found is None:
        return None
    pid = found[1]
    before = [j for j in range(max(0, i - _NEAR), i) if _names(text(lines, j), pid)]
    after = [j for j in range(i + 1, min(i + 4, len(lines))) if f"Killed process {pid} " in text(lines, j)]
    if "Kill process" in line and after:
        return None
    scope = _scope(line) or next((known for j in reversed(before) if (known := _scope(text(lines, j)))), None)
    if scope is None and "total-vm:" not in line:
        return None
    group = next((seen[1] for j in reversed(before) if (seen := _OOM_GROUP.search(text(lines, j)))), None)
    sizes = {name: int(size) for name, size in _SIZES.findall(line)}
    fact = OomKill(
        scope=scope,
        pid=int(pid),
        process=found[2],
        anon_rss_kb=sizes.get("anon-rss"),
        total_vm_kb=sizes.get("total-vm"),
        cgroup=group if scope == "memcg" else None,
    )
    return Found(fact, before[0] if before else i, i)


def _names(line: str, pid: str) -> bool:
    if "oom-kill:constraint=" in line:
        return f",pid={pid}," in line
    return f"Kill process {pid} " in line


def _constraint(lines: Lines, i: int) -> OomKill | None:
    """``oom-kill:`` alone, where the paste ends before the line that says who died."""
    line = text(lines, i)
    task = _OOM_TASK.search(line)
    if task is None or _CONSTRAINT.search(line) is None:
        return None
    if any(f"Killed process {task[2]} " in text(lines, j) for j in range(i + 1, i + 1 + _NEAR)):
        return None
    scope, group = _scope(line), _OOM_GROUP.search(line)
    return OomKill(
        scope=scope,
        pid=int(task[2]),
        process=task[1],
        cgroup=group[1] if group and scope == "memcg" else None,
    )


_FAST_CLOCKS = ("tsc", "tsc-early", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page")
_UNSTABLE = lazy(r"Marking clocksource '(\w{1,32})' as unstable")
_SWITCHED = lazy(r"Switched to clocksource ([\w-]{1,32})")


def is_slow_clock(name: str) -> bool:
    """Reading this clock source leaves user space (vDSO has no page for it)."""
    return name not in _FAST_CLOCKS


def _unstable(lines: Lines, i: int) -> ClocksourceUnstable | None:
    line = text(lines, i)
    if "Marking TSC unstable" in line:
        return ClocksourceUnstable(name="tsc")
    found = _UNSTABLE.search(line)
    return ClocksourceUnstable(name=found[1]) if found else None


def _switched(lines: Lines, i: int) -> ClocksourceSwitched | None:
    found = _SWITCHED.search(text(lines, i))
    return ClocksourceSwitched(name=found[1], slow=is_slow_clock(found[1])) if found else None


_HUNG = lazy(r"INFO: task (.{1,64}):(\d{1,10}) blocked for more than (\d{1,6}) seconds")
_LOCKUP = lazy(r"soft lockup - CPU#(\d{1,5}) stuck for (\d{1,6})s! \[([^\]]{1,64})\]")
_SEGFAULT = lazy(r"([^\s\[]{1,32})\[(\d{1,10})\]: segfault at ")
_IN_LIBRARY = lazy(r" in ([^\s\[]{1,128})\[")
_NIC_POWER = lazy(
    rf"mlx5_core ({_DEVICE}):.{{0,80}}Detected insufficient power on the PCIe slot(?: \((\d{{1,5}})W\))?"
)
_NVME = lazy(r"nvme (nvme\d{1,4}): .{0,64}\btimeout\b")
_NFS = lazy(r"nfs: server (\S{1,128}) not responding")
_IOMMU = lazy(r"iommu: Default domain type: (Translated|Passthrough)")


def _hung(lines: Lines, i: int) -> HungTask | None:
    found = _HUNG.search(text(lines, i))
    return HungTask(process=found[1], pid=int(found[2]), blocked_s=int(found[3])) if found else None


def _lockup(lines: Lines, i: int) -> SoftLockup | None:
    found = _LOCKUP.search(text(lines, i))
    if found is None:
        return None
    return SoftLockup(
        cpu=int(found[1]), stuck_s=int(found[2]), process=found[3].rpartition(":")[0] or found[3]
    )


def _segfault(lines: Lines, i: int) -> Segfault | None:
    line = text(lines, i)
    found = _SEGFAULT.search(line)
    if found is None:
        return None
    library = _IN_LIBRARY.search(line, found.end())
    return Segfault(process=found[1], pid=int(found[2]), library=library[1] if library else None)


def _nic_power(lines: Lines, i: int) -> NicPowerLow | None:
    found = _NIC_POWER.search(text(lines, i))
    if found is None:
        return None
    return NicPowerLow(bus=found[1].lower(), power_w=int(found[2]) if found[2] else None)


def _nvme(lines: Lines, i: int) -> StorageStalled | None:
    found = _NVME.search(text(lines, i))
    return StorageStalled(kind_of="nvme", name=found[1]) if found else None


def _nfs(lines: Lines, i: int) -> StorageStalled | None:
    found = _NFS.search(text(lines, i))
    return StorageStalled(kind_of="nfs", name=found[1]) if found else None


def _iommu(lines: Lines, i: int) -> IommuMode | None:
    found = _IOMMU.search(text(lines, i))
    if found is None:
        return None
    return IommuMode(mode="translated" if found[1] == "Translated" else "passthrough")


PARSERS = (
    by_literal(
        "kernel_host",
        (
            ("PCIe Bus Error: severity=", _bus_error),
            ("AER: ", _received),
            ("Gb/s available PCIe bandwidth", _limited),
            ("Slot(", _slot),
            ("Killed process ", _killed),
            ("Kill process ", _killed),
            ("oom-kill:constraint=", _constraint),
            ("Marking clocksource", _unstable),
            ("Marking TSC unstable", _unstable),
            ("Switched to clocksource", _switched),
            (" blocked for more than ", _hung),
            ("soft lockup - CPU#", _lockup),
            ("]: segfault at ", _segfault),
            ("insufficient power on the PCIe slot", _nic_power),
            ("nvme nvme", _nvme),
            ("nfs: server ", _nfs),
            ("iommu: Default domain type", _iommu),
        ),
    ),
)
