"""What the host says about its CPUs, memory, limits, PCI devices and services."""

from typing import ClassVar, Literal

from diagnoser.facts.base import Fact


class HostState(Fact):
    """What one look at a host showed. Every field may be None: not shown.

    CPU: cpufreq_driver and governor of the first CPU shown; dynamic_clock: the driver scales clocks by load
    whatever the governor is called (intel_pstate, amd-pstate in active mode), so that "powersave" is no
    fixed low clock. epp: energy_performance_preference. cpu_cur_mhz, cpu_max_mhz.
    Control group: cpu_quota_cores (None with cpu_quota_unlimited True: no limit); throttled_ratio: share of
    scheduling periods in which the group was stopped, since it exists (0 to 1); throttled_s.
    torch_threads: torch.get_num_threads(); threads_per_quota_core: those by the quota.
    Memory: mem_total_mib, mem_available_mib, swap_total_mib, swap_used_mib; dev_shm_mib: size of /dev/shm.
    Limits: memlock_kib (None with memlock_unlimited True), open_files, max_processes.
    Kernel: clocksource; clocksource_slow: reading the time is a system call. numa_balancing: 0 or 1.
    hugepages: always, madvise, never. kernel_release: as uname prints it.
    lscpu: cpu_model, cpus, sockets, cores_per_socket, threads_per_core, numa_nodes, hypervisor.
    """

    kind: ClassVar[str] = "host_state"
    governor: str | None = None
    cpufreq_driver: str | None = None
    dynamic_clock: bool | None = None
    epp: str | None = None
    cpu_cur_mhz: float | None = None
    cpu_max_mhz: float | None = None
    cpu_quota_cores: float | None = None
    cpu_quota_unlimited: bool | None = None
    throttled_ratio: float | None = None
    throttled_s: float | None = None
    torch_threads: int | None = None
    threads_per_quota_core: float | None = None
    mem_total_mib: float | None = None
    mem_available_mib: float | None = None
    swap_total_mib: float | None = None
    swap_used_mib: float | None = None
    dev_shm_mib: float | None = None
    dev_shm_used_mib: float | None = None
    memlock_kib: int | None = None
    memlock_unlimited: bool | None = None
    open_files: int | None = None
    max_processes: int | None = None
    clocksource: str | None = None
    clocksource_slow: bool | None = None
    numa_balancing: int | None = None
    hugepages: str | None = None
    kernel_release: str | None = None
    cpu_model: str | None = None
    cpus: int | None = None
    sockets: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    numa_nodes: int | None = None
    hypervisor: str | None = None


class NumaMemory(Fact):
    """On which NUMA nodes a process's memory lies (numastat -p). minor_share: the part that is not on the
    node with the most, 0 to 1."""

    kind: ClassVar[str] = "numa_memory"
    pid: int | None = None
    process: str | None = None
    nodes_mib: tuple[float, ...]
    minor_share: float


class Service(Fact):
    """A systemd unit without its ".service": active, inactive, failed, activating or missing."""

    kind: ClassVar[str] = "service"
    name: str
    state: Literal["active", "inactive", "failed", "activating", "deactivating", "reloading", "missing"]


class PciLink(Fact):
    """A PCIe link as lspci -vv shows it: what the device can do (cap) and what runs now.

    gts: speed per lane in GT/s (32 is gen 5). downgraded: slower or narrower than the device can; an idle
    GPU may show it and be healthy. nvidia: an NVIDIA device.
    """

    kind: ClassVar[str] = "pci_link"
    address: str | None = None
    device: str | None = None
    nvidia: bool | None = None
    gts: float
    width: int
    cap_gts: float | None = None
    cap_width: int | None = None
    downgraded: bool


class PciAcs(Fact):
    """The access control a port applies now (ACSCtl, not what it could do). redirect: peer-to-peer traffic
    is sent up to the root complex (ReqRedir+ or CmpltRedir+)."""

    kind: ClassVar[str] = "pci_acs"
    address: str | None = None
    redirect: bool
    source_validation: bool | None = None
