"""Which document would show which fact, so that "not said" can be told from "not looked at"."""

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Lack(NamedTuple):
    """Something that was not read.

    what: its name in a sentence. command: what shows it. question: how it is asked for. documents: kinds of document
    that show it by their beginning; none: it is told by any server's log. told_by: fact kinds one of which must have
    been read, where the kind of document cannot tell whether such facts would be there.
    """

    what: str
    command: str
    question: str
    documents: tuple[str, ...] = ()
    told_by: tuple[str, ...] = ()


LOG = Lack("the server's log", "the server's whole log, from its start on", "What does the server's log say?")
START = Lack(
    "the start-up part of the server's log",
    "the server's log from its start on",
    "How was the server started?",
    told_by=("server_arg",),
)
SMI = Lack("the state of the GPUs", "nvidia-smi -q", "What state are the GPUs in?", ("nvidia-smi",))
PACKAGES = Lack(
    "the installed packages",
    "pip list",
    "Which packages are installed?",
    ("pip", "collect", "check_env", "conda"),
)
KERNEL = Lack(
    "the kernel log",
    "dmesg -T | grep -i -E 'nvrm|xid|oom'",
    "What does the kernel log say?",
    ("kernel log",),
)
TOPOLOGY = Lack("the GPU topology", "nvidia-smi topo -m", "How are the GPUs connected?", ("nvidia-smi topo",))
NVLINK = Lack(
    "the state of the NVLinks", "nvidia-smi nvlink -s", "Are all NVLinks up?", ("nvidia-smi nvlink",)
)
SAMPLES = Lack(
    "the GPUs under load",
    "nvidia-smi dmon -c 10",
    "How busy are the GPUs over some seconds?",
    ("nvidia-smi dmon", "nvidia-smi pmon", "nvidia-smi --query"),
)
HOST = Lack(
    "the host's limits",
    "lscpu; cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu.stat; df -h /dev/shm; ulimit -a",
    "What limits does the host set?",
    ("host probe",),
)
LSPCI = Lack("the PCIe links", "sudo lspci -vv", "How do the PCIe links run?", ("lspci",))
NUMA = Lack(
    "the memory by NUMA node",
    "numastat -p $(pgrep -f launch_server | head -1)",
    "Where does the memory lie?",
    ("numastat",),
)
ENVIRONMENT = Lack(
    "the server's environment",
    "env | grep -E 'CUDA|NCCL|SGLANG|VLLM|TORCH|TRITON'",
    "What is set in the server's environment?",
    told_by=("env",),
)
NCCL = Lack(
    "NCCL's own messages",
    "the server's log with NCCL_DEBUG=INFO",
    "What does NCCL say with NCCL_DEBUG=INFO?",
    told_by=("nccl_transport", "nccl_network", "nccl_comm", "nccl_path", "nccl_channels"),
)
BENCH = Lack(
    "a benchmark result",
    "the output of the benchmark",
    "What did the benchmark print?",
    told_by=("bench_result",),
)


def _shown(lack: Lack, kinds: str) -> dict[str, Lack]:
    return dict.fromkeys(kinds.split(), lack)


LACKS: Mapping[str, Lack] = {
    **_shown(LOG, "arch_mismatch attention_backend capacity cuda_error cuda_oom driver_too_old engine exception"),
    **_shown(LOG, "exited kernel_backend loader_error message model nccl_error nccl_progress nccl_version"),
    **_shown(LOG, "nccl_version_mismatch nccl_warning nccl_watchdog ready series series_at series_trend"),
    **_shown(LOG, "start_phase unknown_arch"),
    **_shown(START, "server_arg"),
    **_shown(SMI, "driver gpu gpu_name gpu_process gpu_process_list gpu_set lost_gpu mig_instance smi"),
    **_shown(SAMPLES, "gpu_process_sample gpu_sample gpu_series"),
    **_shown(PACKAGES, "cuda_toolkit package torch_build"),
    **_shown(KERNEL, "clocksource_switched clocksource_unstable driver_mismatch gpu_address gpu_init_failed gpu_lost"),
    **_shown(KERNEL, "gsp_stalled hung_task iommu_mode kernel_module nic_power_low oom_kill pcie_error pcie_limited"),
    **_shown(KERNEL, "pcie_link_down peermem_invalid segfault soft_lockup storage_stalled sxid uvm_module xid"),
    **_shown(TOPOLOGY, "p2p_link p2p_matrix topo_gpu topo_link topology"),
    **_shown(NVLINK, "nvlink nvlink_errors"),
    **_shown(HOST, "host_state service"),
    **_shown(LSPCI, "pci_acs pci_link"),
    **_shown(NUMA, "numa_memory"),
    **_shown(ENVIRONMENT, "env"),
    **_shown(NCCL, "nccl_channels nccl_comm nccl_gdr nccl_ib nccl_network nccl_p2p_check nccl_p2p_denied nccl_path"),
    **_shown(NCCL, "nccl_transport"),
    **_shown(BENCH, "bench_result"),
}  # fmt: skip
"""Fact kind -> what would show it; every kind of `facts.registry` is here."""

BY_NAME: Mapping[str, Lack] = {lack.what: lack for lack in LACKS.values()}


def not_shown(kind: str, documents: Collection[str], told: Collection[str]) -> Lack | None:
    """None when something was read that would show facts of a kind; else what is lacking.

    documents: the kinds of the documents read. told: the kinds of the facts read.
    """
    lack = LACKS.get(kind, LOG)
    if lack.documents:
        shown = any(read.startswith(lack.documents) for read in documents)
    elif lack.told_by:
        shown = any(kind in told for kind in lack.told_by)
    else:
        shown = any(read.endswith("log") and not read.startswith("kernel") for read in documents)
    return None if shown else lack
