"""Kernel log lines beyond the composed samples: other wordings, other prefixes, a real capture."""

from pathlib import Path
from typing import Any

import pytest

from diagnoser.facts.base import Fact
from diagnoser.facts.kernel import (
    ClocksourceSwitched,
    DriverMismatch,
    GpuAddress,
    GpuLost,
    HungTask,
    IommuMode,
    KernelModule,
    NicPowerLow,
    OomKill,
    PcieError,
    PcieLinkDown,
    PeermemInvalid,
    Segfault,
    SoftLockup,
    StorageStalled,
    SXid,
    UvmModule,
    Xid,
)
from diagnoser.facts.xid_table import XIDS
from diagnoser.parsers import kernel

XID_79 = "NVRM: Xid (PCI:0000:c1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def facts(read: Any, text: str) -> list[Fact]:
    return [found.fact for found in read(kernel.PARSERS, text)]


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "[ 5312.100001] ",
        "[Mon Mar  2 09:14:07 2026] ",
        "Mar  2 09:14:07 gpu-07 kernel: [ 5312.100001] ",
        "2026-03-02T09:14:07+0000 gpu-07 kernel: ",
        "kern  :err   : [ 5312.100001] ",
    ],
)
def test_any_prefix_passes(prefix: str, read: Any) -> None:
    assert facts(read, prefix + XID_79) == [
        Xid(
            code=79,
            pci="0000:c1:00",
            name="ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS",
            klass="hardware",
            action="RESTART_BM",
            investigate="CONTACT_SUPPORT",
        ),
        GpuLost(bus="0000:c1:00.0"),
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error",
            SXid(code=12028, pci="0000:05:00.0", switch=3, severity="Non-fatal", link=32),
        ),
        (
            "NVRM: API mismatch: the client 'nvidia-smi' (pid 3155)\n"
            "NVRM: has the version 570.195.03, but this kernel module has\n"
            "NVRM: the version 570.172.08.  Please",
            DriverMismatch(client="nvidia-smi", client_version="570.195.03", module_version="570.172.08"),
        ),
        (
            "NVRM: API mismatch: the client 'python3' (pid 77)\n"
            "NVRM: has the version 570.195.03, but this kernel module has the version 570.172.08.  Please\n"
            "NVRM: make sure that this kernel module and all NVIDIA driver\n",
            DriverMismatch(client="python3", client_version="570.195.03", module_version="570.172.08"),
        ),
        (
            "NVRM: API mismatch: the client has the version 535.171.04, but\n"
            "NVRM: this kernel module has the version 535.161.07.  Please",
            DriverMismatch(client_version="535.171.04", module_version="535.161.07"),
        ),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.07  Sat Feb 17 22:55:48 UTC 2024",
            KernelModule(version="535.161.07", open=False),
        ),
        (
            "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build",
            KernelModule(version="580.159.04", open=True),
        ),
        ("[    9.1] nvidia-uvm: Loaded the UVM driver, major device number 508.", UvmModule(loaded=True)),
        ("[   99.1] nvidia-uvm: Unloaded the UVM driver.", UvmModule(loaded=False)),
        (
            "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further "
            "processing",
            PeermemInvalid(),
        ),
        (
            "pcieport 0000:e0:01.1: AER: Uncorrected (Fatal) error message received from 0000:e3:00.0",
            PcieError(bus="0000:e3:00.0", severity="fatal"),
        ),
        (
            "pcieport 0000:00:01.0: AER: Multiple Corrected error received: 0000:01:00.0",
            PcieError(bus="0000:01:00.0", severity="corrected"),
        ),
        (
            "pcieport 0000:e0:01.1: PCIe Bus Error: severity=Uncorrected (Non-Fatal), "
            "type=Transaction Layer, (Requester ID)\n"
            "pcieport 0000:e0:01.1:   device [1022:14ab] error status/mask=00000020/04400000\n"
            "pcieport 0000:e0:01.1:    [ 5] SDES                   (First)\n"
            "pcieport 0000:e0:01.1:    [12] Timeout",
            PcieError(
                bus="0000:e0:01.1",
                severity="nonfatal",
                layer="Transaction Layer",
                driver="pcieport",
                errors=("SDES", "Timeout"),
            ),
        ),
        (
            "pcieport 0000:e0:01.1: pciehp: Slot(3-1): Card not present",
            PcieLinkDown(slot="3-1", port="0000:e0:01.1", card_gone=True),
        ),
        (
            "Out of memory: Kill process 4242 (python3) score 905 or sacrifice child",
            OomKill(scope="global", pid=4242, process="python3"),
        ),
        (
            "Memory cgroup out of memory: Kill process 4242 (python3) score 905 or sacrifice child\n"
            "Killed process 4242 (python3) total-vm:9000kB, anon-rss:8000kB, file-rss:0kB",
            OomKill(scope="memcg", pid=4242, process="python3", anon_rss_kb=8000, total_vm_kb=9000),
        ),
        (
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/b,"
            "task_memcg=/b/c,task=python3,pid=7,uid=0",
            OomKill(scope="memcg", pid=7, process="python3", cgroup="/b"),
        ),
        ("Killed process 4242 was a good title", None),
        ("clocksource: Switched to clocksource tsc-early", ClocksourceSwitched(name="tsc-early", slow=False)),
        ("clocksource: Switched to clocksource acpi_pm", ClocksourceSwitched(name="acpi_pm", slow=True)),
        (
            "INFO: task pt_main_thread:1797828 blocked for more than 122 seconds.",
            HungTask(process="pt_main_thread", pid=1797828, blocked_s=122),
        ),
        (
            "watchdog: BUG: soft lockup - CPU#5 stuck for 23s! [kworker/5:1:812]",
            SoftLockup(cpu=5, stuck_s=23, process="kworker/5:1"),
        ),
        (
            "python3[4242]: segfault at 7f1 ip 00007f sp 00007ff error 4 in libnccl.so.2.27.7[7f00+1000]",
            Segfault(process="python3", pid=4242, library="libnccl.so.2.27.7"),
        ),
        (
            "mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 268269): Detected insufficient power on the PCIe "
            "slot (27W).",
            NicPowerLow(bus="0000:5c:00.0", power_w=27),
        ),
        (
            "nvme nvme0: I/O 123 QID 4 timeout, aborting",
            StorageStalled(kind_of="nvme", name="nvme0"),
        ),
        (
            "nfs: server 10.0.0.9 not responding, still trying",
            StorageStalled(kind_of="nfs", name="10.0.0.9"),
        ),
        ("[    0.9] iommu: Default domain type: Translated", IommuMode(mode="translated")),
    ],
)
def test_wordings(line: str, expected: Fact | None, read: Any) -> None:
    assert facts(read, line) == ([expected] if expected else [])


def xid(stamp: str, code: int, pci: str = "0000:c1:00") -> str:
    return f"{stamp}NVRM: Xid (PCI:{pci}): {code}, pid=7, name=python3, Ch 00000008"


@pytest.mark.parametrize(
    ("lines", "firsts"),
    [
        ([xid("[ 10.000000] ", 31), xid("[ 10.200000] ", 43)], [True, False]),
        ([xid("[ 10.000000] ", 31), xid("[ 25.000000] ", 43)], [True, True]),
        ([xid("[ 10.000000] ", 31), xid("[ 10.200000] ", 31, "0000:c2:00")], [True, True]),
        ([xid("[ 10.000000] ", 45), xid("[ 10.200000] ", 31)], [True, True]),
        ([xid("Mar  2 23:59:58 h kernel: ", 79), xid("Mar  3 00:00:03 h kernel: ", 31)], [True, False]),
        ([xid("", 79), xid("", 31)], [True, False]),
    ],
    ids=["consequence", "later", "other gpu", "a consequence is no cause", "over midnight", "no stamps"],
)
def test_first_on_gpu(lines: list[str], firsts: list[bool], read: Any) -> None:
    seen = [fact.first_on_gpu for fact in facts(read, "\n".join(lines)) if isinstance(fact, Xid)]
    assert seen == firsts


def test_an_unknown_code_is_not_called_harmless(read: Any) -> None:
    (fact,) = facts(read, xid("", 9999))
    assert isinstance(fact, Xid)
    assert (fact.name, fact.klass, fact.informational, fact.consequence) == (None, None, False, False)


def test_the_catalogue() -> None:
    assert {code for code, entry in XIDS.items() if entry.consequence} == {43, 45, 154}
    assert XIDS[48].klass == "hardware"
    assert XIDS[119].name == "GSP_RPC_TIMEOUT"
    assert XIDS[79].action == "RESTART_BM"


def test_a_real_kernel_log(fixtures: Path, read: Any) -> None:
    found = facts(read, (fixtures / "captures/h200/host/dmesg_nvrm.txt").read_text(encoding="utf-8"))
    assert found[:2] == [
        KernelModule(version="580.159.04", open=True),
        GpuAddress(pci="0000:00:06", uuid="GPU-00000000-0000-4000-8000-000000000001"),
    ]
    (fault,) = found[2:]
    assert isinstance(fault, Xid)
    assert (fault.code, fault.pid, fault.process, fault.fault) == (31, 758, "k2", "FAULT_PDE")
