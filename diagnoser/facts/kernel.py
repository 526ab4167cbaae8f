"""What the kernel log says about GPUs, PCIe links, memory and clocks.

PCI places are written as the kernel writes them, in lower case: "0000:c1:00" for an Xid (no function),
"0000:c1:00.0" for a device.
"""

from typing import ClassVar, Literal

from diagnoser.facts.base import Fact


class Xid(Fact):
    """An error that the NVIDIA driver reported for one GPU.

    name, klass, action and investigate come from NVIDIA's catalogue (`facts.xid_table`); klass joins what is
    at fault with a slash ("driver/hardware"). consequence: never a cause by itself, another Xid stands above
    it. first_on_gpu: no Xid that could be its cause was printed for this GPU in the ten seconds before it.
    gi and ci: MIG instance. pid and process: whom it hit, often a victim. subcode: of NVLink 5 errors
    (144 to 150), with unit, severity ("Fatal", "Nonfatal") and link. recovery_*: of 154. error: the short
    text of 13 and 109.
    """

    kind: ClassVar[str] = "xid"
    code: int
    pci: str | None = None
    gi: int | None = None
    ci: int | None = None
    pid: int | None = None
    process: str | None = None
    name: str | None = None
    klass: str | None = None
    action: str | None = None
    investigate: str | None = None
    informational: bool = False
    consequence: bool = False
    first_on_gpu: bool = True
    error: str | None = None
    fault: str | None = None
    unrecognized_client: bool | None = None
    contained: bool | None = None
    caused_by: int | None = None
    recovery_from: str | None = None
    recovery_to: str | None = None
    gsp_function: str | None = None
    timeout_s: float | None = None
    unit: str | None = None
    severity: str | None = None
    link: int | None = None
    subcode: int | None = None


class SXid(Fact):
    """An error of an NVSwitch. severity is "Fatal" or "Non-fatal" as printed."""

    kind: ClassVar[str] = "sxid"
    code: int
    pci: str | None = None
    switch: int | None = None
    severity: str | None = None
    link: int | None = None


class GpuLost(Fact):
    """A GPU no longer answers on the bus, in any of the driver's wordings (Xid 79 is one of them)."""

    kind: ClassVar[str] = "gpu_lost"
    bus: str


class GpuAddress(Fact):
    """Which GPU sits at a PCI place; the driver prints it once before the first Xid of that GPU."""

    kind: ClassVar[str] = "gpu_address"
    pci: str
    uuid: str


class GspStalled(Fact):
    """The driver gave up printing every GSP timeout of this GPU: it repeats, a reset is likely needed."""

    kind: ClassVar[str] = "gsp_stalled"
    pci: str


class DriverMismatch(Fact):
    """User-space driver files and the loaded kernel module have different versions."""

    kind: ClassVar[str] = "driver_mismatch"
    client: str | None = None
    client_version: str
    module_version: str


class KernelModule(Fact):
    """The loaded NVIDIA kernel module. open: the open flavour, which Blackwell requires."""

    kind: ClassVar[str] = "kernel_module"
    version: str
    open: bool


class UvmModule(Fact):
    """The kernel log says that nvidia-uvm, which CUDA needs, was loaded or unloaded."""

    kind: ClassVar[str] = "uvm_module"
    loaded: bool


class GpuInitFailed(Fact):
    """The driver could not bring a GPU up. bus and code ("0x62:0x65:1792") are None on the firmware line."""

    kind: ClassVar[str] = "gpu_init_failed"
    bus: str | None = None
    code: str | None = None
    gsp_firmware: bool = False


class PeermemInvalid(Fact):
    """nvidia-peermem met an invalid context: GPUDirect RDMA lost a registration."""

    kind: ClassVar[str] = "peermem_invalid"


class PcieError(Fact):
    """A PCIe error that AER reported for a device. driver is the one bound to it ("nvidia", "pcieport")."""

    kind: ClassVar[str] = "pcie_error"
    bus: str
    severity: Literal["corrected", "nonfatal", "fatal"]
    layer: str | None = None
    driver: str | None = None
    errors: tuple[str, ...] = ()


class PcieLimited(Fact):
    """At probe time a device's link was slower than the device. May be a power state: confirm under load."""

    kind: ClassVar[str] = "pcie_limited"
    bus: str
    available_gbps: float
    capable_gbps: float
    limited_at: str
    link_gts: float
    link_width: int
    capable_gts: float
    capable_width: int


class PcieLinkDown(Fact):
    """A hot-plug slot lost its link or its card."""

    kind: ClassVar[str] = "pcie_link_down"
    slot: str
    port: str | None = None
    card_gone: bool = False


class OomKill(Fact):
    """The kernel killed a process for memory. scope: of the whole host, or of a control group's limit."""

    kind: ClassVar[str] = "oom_kill"
    scope: Literal["global", "memcg"] | None = None
    pid: int
    process: str | None = None
    anon_rss_kb: int | None = None
    total_vm_kb: int | None = None
    cgroup: str | None = None


class ClocksourceUnstable(Fact):
    """The kernel no longer trusts a clock source ("tsc"): reads of the time become slow system calls."""

    kind: ClassVar[str] = "clocksource_unstable"
    name: str


class ClocksourceSwitched(Fact):
    """The kernel took a clock source. slow: reading it is a system call (hpet, acpi_pm, ...)."""

    kind: ClassVar[str] = "clocksource_switched"
    name: str
    slow: bool


class HungTask(Fact):
    """A process waited in the kernel, uninterruptible, for longer than the watchdog allows."""

    kind: ClassVar[str] = "hung_task"
    process: str
    pid: int
    blocked_s: int


class SoftLockup(Fact):
    """A CPU ran in the kernel without a break for so long that the watchdog spoke."""

    kind: ClassVar[str] = "soft_lockup"
    cpu: int
    stuck_s: int
    process: str | None = None


class Segfault(Fact):
    """A process crashed. library: the file the instruction pointer was in ("libnccl.so.2.27.7")."""

    kind: ClassVar[str] = "segfault"
    process: str
    pid: int
    library: str | None = None


class NicPowerLow(Fact):
    """A network card reports that its slot gives too little power. Some machines print it at every boot."""

    kind: ClassVar[str] = "nic_power_low"
    bus: str
    power_w: int | None = None


class StorageStalled(Fact):
    """A disk or a file server does not answer in time. kind_of: nvme or nfs; name: device or server."""

    kind: ClassVar[str] = "storage_stalled"
    kind_of: Literal["nvme", "nfs"]
    name: str


class IommuMode(Fact):
    """How the IOMMU treats devices by default. translated: P2P between GPUs may be redirected or blocked."""

    kind: ClassVar[str] = "iommu_mode"
    mode: Literal["translated", "passthrough"]
