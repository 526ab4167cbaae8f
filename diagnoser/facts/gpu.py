"""Facts about GPUs as nvidia-smi shows them: the cards, their processes, links and samples.

Every optional field is None when the text does not show it or shows an absent token (``N/A``,
``[Not Supported]``, ...). The fields under "derived" are computed once, when the fact is made
(`diagnoser.parsers.nvidia_smi.derive`); rules match them like any other field.
"""

from typing import ClassVar, Literal

from diagnoser.facts.base import Fact
from diagnoser.facts.gpu_links import (
    NvlinkErrors,
    NvlinkState,
    P2pLink,
    P2pMatrix,
    TopoGpu,
    TopoLink,
    Topology,
)
from diagnoser.facts.gpu_samples import GpuProcessSample, GpuSample, GpuSeries

__all__ = [
    "Gpu",
    "GpuProcess",
    "GpuProcessList",
    "GpuProcessSample",
    "GpuSample",
    "GpuSeries",
    "GpuSet",
    "LostGpu",
    "MigInstance",
    "NvlinkErrors",
    "NvlinkState",
    "P2pLink",
    "P2pMatrix",
    "Smi",
    "TopoGpu",
    "TopoLink",
    "Topology",
]

GpuState = Literal["ok", "error", "lost", "needs_reset"]
"""error: several cells read ``ERR!`` or ``[Unknown Error]``; lost: ``[GPU is lost]`` (NVML 15);
needs_reset: ``[GPU requires reset]`` (NVML 16). One failed cell on an otherwise live card stays ok."""

SmiStatus = Literal[
    "ok",
    "driver_not_loaded",
    "version_mismatch",
    "no_devices",
    "device_handle_error",
    "nvml_unknown_error",
    "insufficient_permissions",
    "blocked_by_os",
    "library_not_found",
    "not_installed",
    "invalid_field",
    "nvml_error",
]


class Smi(Fact):
    """nvidia-smi was run, and this is what its header or its failure text says.

    driver_version: kernel driver (``KMD Version`` since 610; the Windows driver under WSL).
    driver_branch: first number of it (580). cuda_driver_version: what the driver supports, not the toolkit.
    cuda_lib: broken (``ERR!``: libcuda could not be asked) or absent (``N/A``, ``Not Found``); None: fine.
    gpu_count: GPUs attached or listed. wsl: nvidia-smi's and the driver's versions differ (both normal).
    mig_row: False when the table has two lines per GPU, so MIG, remapping and event reasons are unknown.
    schema_version: of the XML ("v12"). detail: the rest of a failure text. taken: the time as printed.
    """

    kind: ClassVar[str] = "smi"
    status: SmiStatus = "ok"
    nvidia_smi_version: str | None = None
    driver_version: str | None = None
    driver_branch: int | None = None
    cuda_driver_version: str | None = None
    cuda_lib: Literal["broken", "absent"] | None = None
    nvml_version: str | None = None
    nvml_library_version: str | None = None
    gpu_count: int | None = None
    wsl: bool | None = None
    mig_row: bool | None = None
    schema_version: str | None = None
    detail: str | None = None
    taken: str | None = None


class Gpu(Fact):
    """One GPU as one text shows it.

    index: nvidia-smi's; from ``-q`` and XML (which print none) the position, if all attached GPUs are there.
    bus_id: as printed ("00000000:3B:00.0"); pci: the same place as an Xid names it ("0000:3b:00").
    name: the full name, None when the column cut it; name_raw: as printed. arch: "sm90", from the name or
    ``compute_cap``; None when unknown or ambiguous. edition: of RTX PRO boards, if the full name is shown.
    error_cells: how many values read ``ERR!``, ``Unknown Error`` or another failure.
    power_w: draw as shown, else the average, else the instantaneous one; power_limit_w: the enforced or
    current limit. ecc_mode: as printed ("Off" in the table, "Enabled"/"Disabled" elsewhere). ecc_*_volatile:
    since the driver was loaded; aggregate: lifetime. temp_headroom_c: T.Limit, degrees left before slowdown
    (0 is at the limit); temp_slowdown_c and temp_shutdown_c: absolute thresholds.
    reasons_mask: bits of clock event reasons. counter_*_us: cumulative since the driver was loaded; only
    their growth means something. recovery_action: as printed; "None" means none is needed.

    Derived (judgement of states, thresholds from NVML's documentation unless "ours"):

    * under_load: util >= 50 % or draw >= 40 % of the limit; where util is not shown also P0 to P2 with the SM
      clock above half of its maximum. (A card that only holds memory keeps P0 and full clocks at 0 % util:
      captured on an H200, so clocks do not speak against a shown util.)
    * link_gen_limit = min(device max, host max); link_gen_below_limit, link_width_below_max,
      link_below_limit (either); link_bandwidth_share: of the possible bandwidth, 0 to 1. At idle a low
      generation is normal.
    * reasons: names of active clock reasons except idle and display; throttled: there are some;
      throttled_hw (HW slowdown, thermal or brake), throttled_thermal (software or hardware);
      reasons_unknown_bits: bits nobody here knows (None when zero).
    * power_share = draw / limit; power_at_cap (>= 0.9); power_limit_share = limit / default;
      power_below_default; power_capped_early: SW power cap active below 80 % of the limit (ours).
    * clock_share = SM clock / its maximum. thermal_limit_reached: absolute threshold or no headroom left.
    * processes: listed for this GPU; unowned_memory: >= 1 GiB used and no process listed (never said of MIG
      parents, vGPU, WSL or Windows, whose lists are empty by design).
    * reset_needed: a reset flag, a recovery action or the state asks for it. fabric_ok: None without fabric.
    """

    kind: ClassVar[str] = "gpu"
    index: int | None = None
    bus_id: str | None = None
    pci: str | None = None
    uuid: str | None = None
    name: str | None = None
    name_raw: str | None = None
    name_truncated: bool | None = None
    arch: str | None = None
    edition: Literal["server", "workstation", "max-q"] | None = None
    vbios_version: str | None = None
    gsp_firmware: str | None = None
    state: GpuState = "ok"
    error_cells: int = 0
    persistence_mode: bool | None = None
    driver_model: str | None = None
    compute_mode: str | None = None
    addressing_mode: str | None = None
    disp_active: bool | None = None
    mig_mode: str | None = None
    virtualization: str | None = None
    vgpu_license: str | None = None

    pstate: str | None = None
    fan_pct: int | None = None
    temp_c: int | None = None
    temp_memory_c: int | None = None
    temp_headroom_c: int | None = None
    temp_slowdown_c: int | None = None
    temp_shutdown_c: int | None = None
    power_w: float | None = None
    power_avg_w: float | None = None
    power_inst_w: float | None = None
    power_limit_w: float | None = None
    power_requested_w: float | None = None
    power_enforced_w: float | None = None
    power_default_w: float | None = None
    power_min_w: float | None = None
    power_max_w: float | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    memory_reserved_mib: int | None = None
    memory_free_mib: int | None = None
    util_pct: int | None = None
    util_memory_pct: int | None = None
    clock_sm_mhz: int | None = None
    clock_sm_max_mhz: int | None = None
    clock_mem_mhz: int | None = None
    clock_mem_max_mhz: int | None = None
    clock_app_mhz: int | None = None

    reasons_mask: int | None = None
    reason_idle: bool | None = None
    reason_app_clocks: bool | None = None
    reason_sw_power_cap: bool | None = None
    reason_hw_slowdown: bool | None = None
    reason_hw_thermal: bool | None = None
    reason_hw_power_brake: bool | None = None
    reason_sync_boost: bool | None = None
    reason_sw_thermal: bool | None = None
    reason_display: bool | None = None
    counter_sw_power_cap_us: int | None = None
    counter_sync_boost_us: int | None = None
    counter_sw_thermal_us: int | None = None
    counter_hw_thermal_us: int | None = None
    counter_hw_power_brake_us: int | None = None

    pcie_gen_current: int | None = None
    pcie_gen_max: int | None = None
    pcie_gen_device_max: int | None = None
    pcie_gen_host_max: int | None = None
    pcie_width_current: int | None = None
    pcie_width_max: int | None = None
    pcie_replays: int | None = None
    pcie_replay_rollovers: int | None = None
    pcie_tx_kb_s: int | None = None
    pcie_rx_kb_s: int | None = None

    ecc_mode: str | None = None
    ecc_uncorr_volatile: int | None = None
    ecc_corr_volatile: int | None = None
    ecc_uncorr_aggregate: int | None = None
    ecc_corr_aggregate: int | None = None
    ecc_volatile_sram_corr: int | None = None
    ecc_volatile_sram_uncorr: int | None = None
    ecc_volatile_dram_corr: int | None = None
    ecc_volatile_dram_uncorr: int | None = None
    ecc_volatile_single_bit: int | None = None
    ecc_volatile_double_bit: int | None = None
    ecc_aggregate_sram_corr: int | None = None
    ecc_aggregate_sram_uncorr: int | None = None
    ecc_aggregate_dram_corr: int | None = None
    ecc_aggregate_dram_uncorr: int | None = None
    ecc_aggregate_single_bit: int | None = None
    ecc_aggregate_double_bit: int | None = None
    ecc_sram_threshold_exceeded: bool | None = None
    channel_repair_pending: bool | None = None
    tpc_repair_pending: bool | None = None
    unrepairable_memory: bool | None = None
    remap_correctable: int | None = None
    remap_uncorrectable: int | None = None
    remap_pending: bool | None = None
    remap_failure: bool | None = None
    remap_banks_max: int | None = None
    remap_banks_high: int | None = None
    remap_banks_partial: int | None = None
    remap_banks_low: int | None = None
    remap_banks_none: int | None = None
    retired_single_bit: int | None = None
    retired_double_bit: int | None = None
    retired_pending: bool | None = None
    recovery_action: str | None = None
    reset_required: bool | None = None
    drain_and_reset_recommended: bool | None = None
    fabric_state: str | None = None
    fabric_status: str | None = None

    under_load: bool | None = None
    link_gen_limit: int | None = None
    link_gen_below_limit: bool | None = None
    link_width_below_max: bool | None = None
    link_below_limit: bool | None = None
    link_bandwidth_share: float | None = None
    reasons: tuple[str, ...] | None = None
    throttled: bool | None = None
    throttled_hw: bool | None = None
    throttled_thermal: bool | None = None
    reasons_unknown_bits: int | None = None
    power_share: float | None = None
    power_at_cap: bool | None = None
    power_limit_share: float | None = None
    power_below_default: bool | None = None
    power_capped_early: bool | None = None
    clock_share: float | None = None
    thermal_limit_reached: bool | None = None
    mem_used_gib: float | None = None
    mem_total_gib: float | None = None
    mem_used_share: float | None = None
    mig_enabled: bool | None = None
    is_vgpu: bool | None = None
    vgpu_unlicensed: bool | None = None
    ecc_enabled: bool | None = None
    processes: int | None = None
    unowned_memory: bool | None = None
    reset_needed: bool | None = None
    fabric_ok: bool | None = None


class GpuProcess(Fact):
    """A process that nvidia-smi lists. type: C, G, C+G, M, M+C. gi, ci: MIG instance ids.

    name is None for ``[Not Found]`` (then not_found: the pid is gone or lives in another pid namespace) and
    for ``[Insufficient Permissions]``. Long names are cut at the left. memory_mib is None under WDDM and WSL.
    """

    kind: ClassVar[str] = "gpu_process"
    gpu_index: int | None = None
    bus_id: str | None = None
    pid: int | None = None
    type: str | None = None
    name: str | None = None
    not_found: bool = False
    memory_mib: int | None = None
    gi: int | None = None
    ci: int | None = None


class GpuProcessList(Fact):
    """A list of GPU processes was shown, with ``listed`` rows (0: nothing visible), memory summed."""

    kind: ClassVar[str] = "gpu_process_list"
    listed: int
    not_found: int = 0
    memory_mib: int | None = None


class MigInstance(Fact):
    """A MIG instance. device: MIG device number; placement: "start:size"; sm: multiprocessors."""

    kind: ClassVar[str] = "mig_instance"
    gpu_index: int | None = None
    device: int | None = None
    gi: int | None = None
    ci: int | None = None
    profile: str | None = None
    profile_id: int | None = None
    placement: str | None = None
    uuid: str | None = None
    sm: int | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    ecc_uncorr_volatile: int | None = None


class GpuSet(Fact):
    """What the GPUs of one text say together; figures are over those GPUs that show a value.

    names_equal compares the printed names. uneven: among GPUs that hold >= 1 GiB one is at <= 5 % while
    another is at >= 90 % (no MIG): the look of a hung or waiting rank. power_ratio: highest draw over lowest.
    processes: rows listed; None: this form lists none. unowned_count and unowned_mib: GPUs (and their MiB)
    with >= 1 GiB used and no listed process. container_possible: memory is used and no process at all is
    visible, as in a container without the host's pid namespace; False when some are visible.
    all_empty: every GPU uses less than 1 GiB. all_idle: util is 0 % on all. bad_count: GPUs not in state ok.
    faultless: at least one GPU, all attached ones present, and nothing shown that speaks of a fault (state,
    reasons other than a power cap at full draw, link width, loaded link generation, ECC, remapping, reset);
    None where only names or memory are shown.
    clean: faultless, all empty and idle, no process listed.
    """

    kind: ClassVar[str] = "gpu_set"
    count: int
    attached: int | None = None
    names_equal: bool | None = None
    arch: str | None = None
    mixed_arch: bool | None = None
    memory_totals_equal: bool | None = None
    power_limits_equal: bool | None = None
    links_equal: bool | None = None
    util_min_pct: int | None = None
    util_max_pct: int | None = None
    power_min_w: float | None = None
    power_max_w: float | None = None
    power_ratio: float | None = None
    power_limit_min_w: float | None = None
    power_limit_max_w: float | None = None
    temp_max_c: int | None = None
    clock_sm_min_mhz: int | None = None
    clock_sm_max_mhz: int | None = None
    memory_used_min_mib: int | None = None
    memory_used_max_mib: int | None = None
    memory_total_max_mib: int | None = None
    processes: int | None = None
    unowned_count: int | None = None
    unowned_mib: int | None = None
    container_possible: bool | None = None
    loaded_count: int | None = None
    throttled_count: int | None = None
    bad_count: int = 0
    mig_count: int = 0
    vgpu_count: int = 0
    persistence_off_count: int | None = None
    all_idle: bool | None = None
    all_empty: bool | None = None
    uneven: bool | None = None
    faultless: bool | None = None
    clean: bool | None = None


class LostGpu(Fact):
    """nvidia-smi could not open a GPU. reason: "GPU is lost", "Unknown Error", "Not Found" as printed.

    bus_id: as printed; pci: as an Xid names it ("0000:3b:00").
    """

    kind: ClassVar[str] = "lost_gpu"
    bus_id: str
    pci: str | None = None
    reason: str
