"""Fields of ``--query-gpu`` and ``--query-compute-apps``: names and aliases of drivers 418 to 610."""

_REASONS = {
    "gpu_idle": "reason_idle",
    "applications_clocks_setting": "reason_app_clocks",
    "sw_power_cap": "reason_sw_power_cap",
    "hw_slowdown": "reason_hw_slowdown",
    "hw_thermal_slowdown": "reason_hw_thermal",
    "hw_power_brake_slowdown": "reason_hw_power_brake",
    "sync_boost": "reason_sync_boost",
    "sw_thermal_slowdown": "reason_sw_thermal",
}

_COUNTERS = {
    "sw_power_cap": "counter_sw_power_cap_us",
    "sync_boost": "counter_sync_boost_us",
    "sw_thermal_slowdown": "counter_sw_thermal_us",
    "hw_thermal_slowdown": "counter_hw_thermal_us",
    "hw_power_brake_slowdown": "counter_hw_power_brake_us",
}

_ECC = {
    f"ecc.errors.{long}.{scope}.{part}": f"{plus}ecc_{field}"
    for long, short in (("corrected", "corr"), ("uncorrected", "uncorr"))
    for scope in ("volatile", "aggregate")
    for part, plus, field in (
        ("total", "", f"{short}_{scope}"),
        ("sram", "", f"{scope}_sram_{short}"),
        ("dram", "", f"{scope}_dram_{short}"),
    )
}

_ECC_PARTS = {
    f"ecc.errors.uncorrected.{scope}.sram.{part}": f"+ecc_{scope}_sram_uncorr"
    for scope in ("volatile", "aggregate")
    for part in ("parity", "secded")
}

GPU: dict[str, str] = {
    "index": "index",
    "name": "name_raw",
    "gpu_name": "name_raw",
    "pci.bus_id": "bus_id",
    "gpu_bus_id": "bus_id",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "vbios_version": "vbios_version",
    "persistence_mode": "persistence_mode",
    "addressing_mode": "addressing_mode",
    "driver_model.current": "driver_model",
    "display_active": "disp_active",
    "compute_mode": "compute_mode",
    "mig.mode.current": "mig_mode",
    "pstate": "pstate",
    "fan.speed": "fan_pct",
    "temperature.gpu": "temp_c",
    "temperature.gpu.tlimit": "temp_headroom_c",
    "temperature.memory": "temp_memory_c",
    "power.draw": "power_w",
    "power.draw.average": "power_avg_w",
    "power.draw.instant": "power_inst_w",
    "power.limit": "power_limit_w",
    "enforced.power.limit": "power_enforced_w",
    "power.default_limit": "power_default_w",
    "power.min_limit": "power_min_w",
    "power.max_limit": "power_max_w",
    "memory.used": "memory_used_mib",
    "memory.total": "memory_total_mib",
    "memory.reserved": "memory_reserved_mib",
    "memory.free": "memory_free_mib",
    "utilization.gpu": "util_pct",
    "utilization.memory": "util_memory_pct",
    "clocks.current.sm": "clock_sm_mhz",
    "clocks.sm": "clock_sm_mhz",
    "clocks.max.sm": "clock_sm_max_mhz",
    "clocks.current.memory": "clock_mem_mhz",
    "clocks.mem": "clock_mem_mhz",
    "clocks.max.memory": "clock_mem_max_mhz",
    "clocks.max.mem": "clock_mem_max_mhz",
    "clocks.applications.graphics": "clock_app_mhz",
    "clocks.applications.gr": "clock_app_mhz",
    "clocks_event_reasons.active": "reasons_mask",
    **{f"clocks_event_reasons.{name}": field for name, field in _REASONS.items()},
    **{f"clocks_event_reasons_counters.{name}": field for name, field in _COUNTERS.items()},
    "pcie.link.gen.current": "pcie_gen_current",
    "pcie.link.gen.gpucurrent": "pcie_gen_current",
    "pcie.link.gen.max": "pcie_gen_max",
    "pcie.link.gen.gpumax": "pcie_gen_device_max",
    "pcie.link.gen.hostmax": "pcie_gen_host_max",
    "pcie.link.width.current": "pcie_width_current",
    "pcie.link.width.max": "pcie_width_max",
    "ecc.mode.current": "ecc_mode",
    **_ECC,
    **_ECC_PARTS,
    "ecc.errors.uncorrected.aggregate.sram.thresholdexceeded": "ecc_sram_threshold_exceeded",
    "remapped_rows.correctable": "remap_correctable",
    "remapped_rows.uncorrectable": "remap_uncorrectable",
    "remapped_rows.pending": "remap_pending",
    "remapped_rows.failure": "remap_failure",
    **{
        f"remapped_rows.histogram.{bank}": f"remap_banks_{bank}"
        for bank in ("max", "high", "partial", "low", "none")
    },
    "retired_pages.single_bit_ecc.count": "retired_single_bit",
    "retired_pages.sbe": "retired_single_bit",
    "retired_pages.double_bit.count": "retired_double_bit",
    "retired_pages.dbe": "retired_double_bit",
    "retired_pages.pending": "retired_pending",
    "gpu_recovery_action": "recovery_action",
    "reset_status.reset_required": "reset_required",
    "reset_status.drain_and_reset_recommended": "drain_and_reset_recommended",
    "fabric.state": "fabric_state",
    "fabric.status": "fabric_status",
}
"""Canonical names, lower case, without units; ``clocks_throttle_reasons`` is read as ``clocks_event_reasons``."""

SMI: dict[str, str] = {
    "driver_version": "driver",
    "kmd_version": "driver",
    "count": "attached",
    "timestamp": "taken",
}

APPS: dict[str, str] = {
    "gpu_bus_id": "bus_id",
    "pid": "pid",
    "process_name": "name",
    "name": "name",
    "used_gpu_memory": "memory_mib",
    "used_memory": "memory_mib",
}

ARCH = "compute_cap"
"""Not a field of the fact by itself: "12.0" becomes the architecture "sm120"."""
