"""Every fact that the composed kernel, NCCL, loader, CUDA and host samples state is read from them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from diagnoser.facts.base import Fact, Found
from diagnoser.facts.engine import EnvVar
from diagnoser.facts.host import HostState, PciAcs, PciLink
from diagnoser.facts.kernel import (
    ClocksourceSwitched,
    ClocksourceUnstable,
    GpuInitFailed,
    GpuLost,
    GspStalled,
    OomKill,
    PcieError,
    PcieLimited,
    PcieLinkDown,
    SXid,
    Xid,
)
from diagnoser.facts.loader import (
    ArchMismatch,
    CudaError,
    DriverTooOld,
    LoaderError,
    UnknownArch,
)
from diagnoser.facts.nccl import (
    NcclChannels,
    NcclError,
    NcclGdr,
    NcclNetwork,
    NcclP2pCheck,
    NcclP2pDenied,
    NcclProgress,
    NcclTransport,
    NcclVersion,
    NcclWarning,
    NcclWatchdog,
)
from diagnoser.parsers import cuda_errors, host, kernel, loader, lspci, nccl

PARSERS = (
    *kernel.PARSERS,
    *nccl.PARSERS,
    *loader.PARSERS,
    *cuda_errors.PARSERS,
    *host.PARSERS,
    *lspci.PARSERS,
)

F = TypeVar("F", bound=Fact)
Facts = list[Found]


def all_of(found: Facts, kind: type[F]) -> list[F]:
    return [one.fact for one in found if isinstance(one.fact, kind)]


def first(found: Facts, kind: type[F], **fields: object) -> F:
    """The first fact of a kind whose fields have these values."""
    facts = [
        fact for fact in all_of(found, kind) if all(getattr(fact, name) == fields[name] for name in fields)
    ]
    assert facts, f"no {kind.__name__} with {fields} in {[one.fact for one in found]}"
    return facts[0]


def xid(number: int) -> Callable[[Facts], Xid]:
    return lambda found: all_of(found, Xid)[number]


def coded(code: int, number: int = 0) -> Callable[[Facts], Xid]:
    return lambda found: [fact for fact in all_of(found, Xid) if fact.code == code][number]


def loaded(number: int) -> Callable[[Facts], LoaderError]:
    return lambda found: all_of(found, LoaderError)[number]


def way(src: int, dst: int, line: int | None = None) -> Callable[[Facts], NcclTransport]:
    """The transport of a pair, of the line with this index where a sample has several."""

    def find(found: Facts) -> NcclTransport:
        return next(
            one.fact
            for one in found
            if isinstance(one.fact, NcclTransport)
            and (one.fact.src, one.fact.dst) == (src, dst)
            and line in (None, one.first)
        )

    return find


def state(found: Facts) -> HostState:
    return first(found, HostState)


def host_field(name: str) -> Callable[[Facts], Any]:
    return lambda found: getattr(state(found), name)


# The fault that sample K01 reports without an Xid stands on its last three lines.
def lost_in_three_lines(found: Facts) -> str:
    return next(one.fact.bus for one in found if isinstance(one.fact, GpuLost) and one.first == 6)


FACTS: dict[str, dict[str, Callable[[Facts], Any]]] = {
    "F03": {
        "kernel.rm_init_failed.bus": lambda found: first(found, GpuInitFailed, gsp_firmware=False).bus,
        "kernel.rm_init_failed.code": lambda found: first(found, GpuInitFailed, gsp_firmware=False).code,
    },
    "K01": {
        "xids[0].code": lambda found: xid(0)(found).code,
        "xids[0].pci": lambda found: xid(0)(found).pci,
        "xids[0].pid": lambda found: xid(0)(found).pid,
        "xids[1].code": lambda found: xid(1)(found).code,
        "xids[1].recovery_to": lambda found: xid(1)(found).recovery_to,
        "lost_without_xid.bus": lost_in_three_lines,
    },
    "K02": {
        "xids.count": lambda found: len(all_of(found, Xid)),
        "xids[0].gsp_function": lambda found: xid(0)(found).gsp_function,
        "xids[0].timeout_s": lambda found: xid(0)(found).timeout_s,
        "xids[1].timeout_s": lambda found: xid(1)(found).timeout_s,
        "gsp.rate_limited": lambda found: first(found, GspStalled).pci == "0000:9b:00",
    },
    "K03": {
        "xids[code=13].count": lambda found: sum(fact.code == 13 for fact in all_of(found, Xid)),
        "xids[code=31].fault": lambda found: coded(31)(found).fault,
        "xids[code=31][1].unrecognized_client": lambda found: coded(31, 1)(found).unrecognized_client,
        "xids[code=63].pci": lambda found: coded(63)(found).pci,
        "xids[code=94].contained": lambda found: coded(94)(found).contained,
        "xids[code=45].caused_by": lambda found: coded(45)(found).caused_by,
        "xids[code=14].pci": lambda found: coded(14)(found).pci,
        "xids[code=109].process": lambda found: coded(109)(found).process,
    },
    "K04": {
        "xids[0].code": lambda found: xid(0)(found).code,
        "xids[0].gi": lambda found: xid(0)(found).gi,
        "xids[1].ci": lambda found: xid(1)(found).ci,
        "xids[0].pci": lambda found: xid(0)(found).pci,
    },
    "K05": {
        "xids[0].unit": lambda found: xid(0)(found).unit,
        "xids[0].severity": lambda found: xid(0)(found).severity,
        "xids[0].link": lambda found: xid(0)(found).link,
        "xids[0].subcode": lambda found: xid(0)(found).subcode,
        "xids[2].severity": lambda found: xid(2)(found).severity,
        "xids[1].recovery_to": lambda found: xid(1)(found).recovery_to,
        "sxids[0].code": lambda found: first(found, SXid).code,
    },
    "K06": {
        "oom[0].scope": lambda found: all_of(found, OomKill)[0].scope,
        "oom[0].pid": lambda found: all_of(found, OomKill)[0].pid,
        "oom[0].anon_rss_kb": lambda found: all_of(found, OomKill)[0].anon_rss_kb,
        "oom[1].scope": lambda found: all_of(found, OomKill)[1].scope,
        "oom[1].process": lambda found: all_of(found, OomKill)[1].process,
    },
    "K07": {
        "clocksource.unstable": lambda found: first(found, ClocksourceUnstable).name,
        "clocksource.current": lambda found: first(found, ClocksourceSwitched, slow=True).name,
    },
    "K08": {
        "pcie_limited[0].bus": lambda found: first(found, PcieLimited).bus,
        "pcie_limited[0].available_gbps": lambda found: first(found, PcieLimited).available_gbps,
        "pcie_limited[0].capable_gbps": lambda found: first(found, PcieLimited).capable_gbps,
        "aer.corrected": lambda found: sum(fact.severity == "corrected" for fact in all_of(found, PcieError)),
        "pcie.link_down_slot": lambda found: first(found, PcieLinkDown).slot,
    },
    "M01": {
        "nccl.version": lambda found: "{0.version}+cuda{0.cuda}".format(first(found, NcclVersion)),
        "nccl.transport[0->1]": lambda found: way(0, 1)(found).via,
        "nccl.env.NCCL_P2P_DISABLE": lambda found: first(found, EnvVar, name="NCCL_P2P_DISABLE").value,
        "nccl.net": lambda found: first(found, NcclNetwork).name,
        "nccl.coll_channels": lambda found: first(found, NcclChannels).coll,
    },
    "M02": {
        "nccl.transport[0->1]": lambda found: way(0, 1)(found).via,
        "nccl.transport[0->2]": lambda found: way(0, 2)(found).via,
        "nccl.all_direct_p2p": lambda found: first(found, NcclP2pCheck).all_direct,
        "nccl.coll_channels": lambda found: first(found, NcclChannels).coll,
    },
    "M03": {
        "nccl.warn[0].errno": lambda found: all_of(found, NcclWarning)[0].errno,
        "nccl.warn[0].shm_bytes": lambda found: all_of(found, NcclWarning)[0].shm_bytes,
        "nccl.warn.count": lambda found: len(all_of(found, NcclWarning)),
    },
    "M04": {
        "watchdog.op": lambda found: first(found, NcclWatchdog).op,
        "watchdog.seq": lambda found: first(found, NcclWatchdog).seq,
        "watchdog.timeout_ms": lambda found: first(found, NcclWatchdog).timeout_ms,
        "watchdog.last_completed": lambda found: first(found, NcclProgress).last_completed,
        "watchdog.rank": lambda found: first(found, NcclWatchdog).rank,
    },
    "M05": {
        "nccl.warn[0].cuda_error": lambda found: first(found, NcclWarning).cuda_error,
        "nccl.error": lambda found: first(found, NcclError).text,
        "nccl.p2p_denied": lambda found: "{0.src}-{0.dst}".format(first(found, NcclP2pDenied)),
    },
    "M06": {
        "nccl.transport[8->0].0": lambda found: way(8, 0, line=2)(found).via,
        "nccl.gdr[8->0].1": lambda found: way(8, 0, line=3)(found).gdr,
        "nccl.gdr_hca[mlx5_0]": lambda found: first(found, NcclGdr, device="mlx5_0").enabled,
        "nccl.transport[0->8]": lambda found: way(0, 8)(found).via,
    },
    "E01": {
        "loader[0].missing": lambda found: loaded(0)(found).library,
        "loader[0].cuda_major": lambda found: loaded(0)(found).cuda_major,
        "loader[1].missing": lambda found: loaded(1)(found).library,
        "loader[3].symbol": lambda found: loaded(3)(found).function,
        "loader[4].old_abi_string": lambda found: loaded(4)(found).old_abi_string,
        "loader[5].glibc": lambda found: loaded(5)(found).wanted_version,
        "loader[5].library": lambda found: loaded(5)(found).needed_by,
    },
    "E02": {
        "cuda_errors": lambda found: [
            fact.code for fact in all_of(found, CudaError) if fact.code in (802, 803, 804)
        ],
        "torch.driver_cuda_found": lambda found: first(found, DriverTooOld).found,
        "torch.device_arch": lambda found: first(found, ArchMismatch).arch,
        "torch.supported_archs_max": lambda found: first(found, ArchMismatch).supported_max,
        "ptxas.unknown_arch": lambda found: first(found, UnknownArch, tool="ptxas").arch,
    },
    "H01": {
        "host.governor": host_field("governor"),
        "host.cpufreq_driver": host_field("cpufreq_driver"),
        "host.epp": host_field("epp"),
        "cgroup.cpu_quota_cores": host_field("cpu_quota_cores"),
        "cgroup.throttled_ratio": host_field("throttled_ratio"),
        "cgroup.throttled_usec": lambda found: (state(found).throttled_s or 0) * 1e6,
        "host.numa_balancing": host_field("numa_balancing"),
        "host.clocksource": host_field("clocksource"),
        "host.dev_shm_mib": host_field("dev_shm_mib"),
        "host.memlock_kib": host_field("memlock_kib"),
        "host.swap_used_mib": host_field("swap_used_mib"),
    },
    "H02": {
        "host.governor": host_field("governor"),
        "host.cpufreq_driver": host_field("cpufreq_driver"),
        "host.cpu_cur_mhz": host_field("cpu_cur_mhz"),
        "host.cpu_max_mhz": host_field("cpu_max_mhz"),
    },
    "H03": {
        "pci[e3:00.0].lnksta_gts": lambda found: first(found, PciLink, address="e3:00.0").gts,
        "pci[e3:00.0].lnkcap_gts": lambda found: first(found, PciLink, address="e3:00.0").cap_gts,
        "pci[e3:00.0].downgraded": lambda found: first(found, PciLink, address="e3:00.0").downgraded,
        "pci[e0:01.1].acs_redirect": lambda found: first(found, PciAcs, address="e0:01.1").redirect,
    },
}

INDEX = Path(__file__).resolve().parents[2] / "fixtures" / "gpu_host" / "index.json"
SAMPLES = {sample["id"]: sample for sample in json.loads(INDEX.read_text(encoding="utf-8"))["samples"]}
STATED = [
    (sample, fact)
    for sample in SAMPLES.values()
    for fact in sample["facts"]
    if sample["id"][0] in "KMEH" or fact["field"].startswith("kernel.")
]


@pytest.mark.parametrize(
    ("sample", "fact"), STATED, ids=[f"{sample['id']}-{fact['field']}" for sample, fact in STATED]
)
def test_states_what_the_index_says(
    sample: dict[str, Any], fact: dict[str, Any], fixtures: Path, read: Any
) -> None:
    text = (fixtures / "gpu_host" / sample["file"]).read_text(encoding="utf-8")
    assert re.search(fact["evidence_re"], text, re.MULTILINE)
    value = FACTS[sample["id"]][fact["field"]](read(PARSERS, text))
    assert value == fact["value"]


def test_a_governor_that_scales_by_load_is_told_from_one_that_pins(fixtures: Path, read: Any) -> None:
    dynamic, pinned = (
        state(read(PARSERS, (fixtures / "gpu_host" / SAMPLES[name]["file"]).read_text(encoding="utf-8")))
        for name in ("H01", "H02")
    )
    assert dynamic.governor == pinned.governor == "powersave"
    assert (dynamic.dynamic_clock, pinned.dynamic_clock) == (True, False)


def test_capabilities_are_not_taken_for_what_is_switched_on(fixtures: Path, read: Any) -> None:
    text = (fixtures / "gpu_host" / "h03_lspci_acs_lnksta.txt").read_text(encoding="utf-8")
    only_cap = "\n".join(line for line in text.split("\n") if "ACSCtl" not in line)
    assert not all_of(read(PARSERS, only_cap), PciAcs)
