"""Completes GPU facts: everything that follows from what a text shows, computed in one place.

Thresholds and meanings stand in the docstring of `facts.gpu.Gpu`.
"""

from typing import Any

from diagnoser.facts.gpu import Gpu
from diagnoser.parsers.nvidia_smi.names import arch_of, edition_of, is_vgpu_name
from diagnoser.parsers.nvidia_smi.values import LOST, NEEDS_RESET, Draft, canonical_pci

BIG_MIB = 1024
"""From here on used memory belongs to somebody: the driver's own share is 400 to 700 MiB."""

REASON_BITS = {
    "reason_idle": 0x1,
    "reason_app_clocks": 0x2,
    "reason_sw_power_cap": 0x4,
    "reason_hw_slowdown": 0x8,
    "reason_sync_boost": 0x10,
    "reason_sw_thermal": 0x20,
    "reason_hw_thermal": 0x40,
    "reason_hw_power_brake": 0x80,
    "reason_display": 0x100,
}
"""Bits of nvmlClocksEventReasons (nvml.h)."""

_HARMLESS = ("reason_idle", "reason_display")
_HARDWARE = ("reason_hw_slowdown", "reason_hw_thermal", "reason_hw_power_brake")
_THERMAL = ("reason_sw_thermal", "reason_hw_thermal")
_KNOWN_BITS = 0x1FF

LANE_GB_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""PCIe payload rate of a lane and direction by generation, encoding taken off (PCI-SIG)."""

Values = dict[str, Any]


def derived(draft: Draft, lists_processes: bool = True) -> Values:
    """The values of a draft and all that follows from them.

    lists_processes: False where process lists are empty by design (WSL, Windows).
    """
    v = dict(draft.values)
    _identity(v)
    _memory(v)
    _power(v)
    _load(v)
    _link(v)
    _reasons(v)
    _health(v, draft)
    if v.get("processes") is not None and v.get("memory_used_mib") is not None:
        hidden = v.get("mig_enabled") or v.get("is_vgpu") or v.get("driver_model")
        if lists_processes and not hidden:
            v["unowned_memory"] = v["processes"] == 0 and v["memory_used_mib"] >= BIG_MIB
    return {name: value for name, value in v.items() if value is not None}


def complete(draft: Draft, lists_processes: bool = True) -> Gpu:
    """The GPU of a draft with its derived fields; see `derived`."""
    return Gpu(**derived(draft, lists_processes))


def _identity(v: Values) -> None:
    raw = v.get("name_raw") or v.get("name")
    if raw is not None:
        v["name_raw"] = raw
        v["name_truncated"] = raw.endswith("...")
        v["name"] = None if v["name_truncated"] else raw
        v.setdefault("arch", arch_of(raw))
        v["edition"] = edition_of(raw)
    if v.get("bus_id"):
        v["pci"] = canonical_pci(v["bus_id"])
    mig = v.get("mig_mode")
    v["mig_enabled"] = None if mig is None else mig.lower().startswith("enabled")
    virtual = v.get("virtualization")
    if raw is not None or virtual is not None:
        v["is_vgpu"] = virtual == "VGPU" or (raw is not None and is_vgpu_name(raw))
    if v.get("vgpu_license"):
        v["vgpu_unlicensed"] = v["vgpu_license"].lower().startswith("unlicensed")


def _memory(v: Values) -> None:
    used, total = v.get("memory_used_mib"), v.get("memory_total_mib")
    v["mem_used_gib"] = None if used is None else round(used / 1024, 2)
    v["mem_total_gib"] = None if total is None else round(total / 1024, 2)
    v["mem_used_share"] = _share(used, total)


def _power(v: Values) -> None:
    for better in ("power_avg_w", "power_inst_w"):
        if v.get("power_w") is None:
            v["power_w"] = v.get(better)
    if v.get("power_enforced_w") is not None:
        v["power_limit_w"] = v["power_enforced_w"]
    limit, default = v.get("power_limit_w"), v.get("power_default_w")
    v["power_share"] = share = _share(v.get("power_w"), limit)
    v["power_at_cap"] = None if share is None else share >= 0.9
    v["power_limit_share"] = _share(limit, default)
    v["power_below_default"] = None if limit is None or default is None else limit < default - 0.5


def _load(v: Values) -> None:
    v["clock_share"] = clock = _share(v.get("clock_sm_mhz"), v.get("clock_sm_max_mhz"))
    util, power, pstate = v.get("util_pct"), v.get("power_share"), v.get("pstate")
    signs = []
    if util is not None:
        signs.append(util >= 50)
    if power is not None:
        signs.append(power >= 0.4)
    if util is None and clock is not None and pstate is not None:
        signs.append(pstate in ("P0", "P1", "P2") and clock > 0.5)
    v["under_load"] = any(signs) if signs else None


def _link(v: Values) -> None:
    device = v.get("pcie_gen_device_max") or v.get("pcie_gen_max")
    ends = [gen for gen in (device, v.get("pcie_gen_host_max")) if gen is not None]
    v["link_gen_limit"] = limit = min(ends) if device is not None else None
    gen, width, most = v.get("pcie_gen_current"), v.get("pcie_width_current"), v.get("pcie_width_max")
    v["link_gen_below_limit"] = low = None if gen is None or limit is None else gen < limit
    v["link_width_below_max"] = narrow = None if width is None or most is None else width < most
    known = [sign for sign in (low, narrow) if sign is not None]
    v["link_below_limit"] = any(known) if known else None
    if width is not None and most and limit is not None and gen in LANE_GB_S and limit in LANE_GB_S:
        v["link_bandwidth_share"] = round(LANE_GB_S[gen] * width / (LANE_GB_S[limit] * most), 3)


def _reasons(v: Values) -> None:
    mask = v.get("reasons_mask")
    if mask is not None:
        for name, bit in REASON_BITS.items():
            v.setdefault(name, bool(mask & bit))
        v["reasons_unknown_bits"] = mask & ~_KNOWN_BITS or None
    shown = [name for name in REASON_BITS if v.get(name) is not None]
    if not shown:
        return
    active = [name for name in shown if v[name] and name not in _HARMLESS]
    v["reasons"] = tuple(name.removeprefix("reason_") for name in active)
    v["throttled"] = bool(active)
    v["throttled_hw"] = any(name in _HARDWARE for name in active)
    v["throttled_thermal"] = any(name in _THERMAL for name in active)
    if v.get("power_share") is not None and v.get("reason_sw_power_cap") is not None:
        v["power_capped_early"] = v["reason_sw_power_cap"] and v["power_share"] < 0.8


def _health(v: Values, draft: Draft) -> None:
    failed = draft.failures
    v["error_cells"] = len(failed)
    if LOST in failed:
        v["state"] = "lost"
    elif NEEDS_RESET in failed:
        v["state"] = "needs_reset"
    elif len(failed) >= 2:
        v["state"] = "error"
    for scope in ("volatile", "aggregate"):
        for short in ("corr", "uncorr"):
            bits = "single" if short == "corr" else "double"
            parts = (f"sram_{short}", f"dram_{short}", f"{bits}_bit")
            counts = [v[key] for part in parts if (key := f"ecc_{scope}_{part}") in v]
            if counts:
                v.setdefault(f"ecc_{short}_{scope}", sum(counts))
    mode = v.get("ecc_mode")
    if mode is not None:
        v["ecc_enabled"] = mode.lower() in ("enabled", "on")
    elif v.get("ecc_uncorr_volatile") is not None:
        v["ecc_enabled"] = True
    temp, slow, room = v.get("temp_c"), v.get("temp_slowdown_c"), v.get("temp_headroom_c")
    signs = [] if temp is None or slow is None else [temp >= slow]
    signs += [] if room is None else [room <= 0]
    v["thermal_limit_reached"] = any(signs) if signs else None
    action = v.get("recovery_action")
    asked = [
        flag for flag in (v.get("reset_required"), v.get("drain_and_reset_recommended")) if flag is not None
    ]
    asked += [] if action is None else [action.lower() != "none"]
    if asked or v.get("state") == "needs_reset":
        v["reset_needed"] = any(asked) or v.get("state") == "needs_reset"
    fabric = v.get("fabric_state")
    if fabric is not None:
        v["fabric_ok"] = fabric == "Completed" and v.get("fabric_status") in (None, "Success")


def _share(part: float | None, whole: float | None) -> float | None:
    return round(part / whole, 3) if part is not None and whole else None
