"""Kernel log lines of the NVIDIA driver and of NVSwitches.

    [171167.620242] NVRM: Xid (PCI:0000:c1:00): 79, pid=77, name=python3, GPU has fallen off the bus.
    -> Xid(code=79, pci="0000:c1:00", ...), GpuLost(bus="0000:c1:00.0")

Wordings: kernel_rc.c, osinit.c, osapi.c, kernel_gsp.c and gpu.c of NVIDIA open-gpu-kernel-modules 595.45.04,
and older ones that drivers since 450 printed. Any prefix passes: dmesg (-T, -x), journalctl, syslog.
"""

import re

from diagnoser.facts.base import Found
from diagnoser.facts.kernel import (
    DriverMismatch,
    GpuAddress,
    GpuInitFailed,
    GpuLost,
    GspStalled,
    KernelModule,
    PeermemInvalid,
    SXid,
    UvmModule,
    Xid,
)
from diagnoser.facts.lazy import lazy
from diagnoser.facts.xid_table import XIDS, XidEntry
from diagnoser.parsers import kernel_host
from diagnoser.parsers.base import Lines
from diagnoser.parsers.by_literal import by_literal, text

_PCI = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}"

_XID = lazy(
    rf"NVRM: Xid \((?:PCI:)?(?P<pci>{_PCI})(?: GPU-I:(?P<gi>\d{{1,4}}))?(?: GPU-CI:(?P<ci>\d{{1,4}}))?\): "
    r"(?P<code>\d{1,5})(?:,|$) ?(?P<rest>.*)"
)
_OWNER = lazy(r"pid='?(?:(\d{1,10})|[^',]{0,32})'?(?:, name=([^,]{0,64}))?(?:, |$)")

_DETAILS = tuple(
    re.compile(pattern)
    for pattern in (
        r"Exception on \([^)]{0,64}\): (?P<error>.{1,80})",
        r"errorString (?P<error>[^,]{1,80})",
        r"Fault is of type (?P<fault>\w{1,64})",
        r"caused by previous Xid (?P<caused_by>\d{1,5})",
        r"recovery action changed from 0x\w{1,8} \((?P<recovery_from>[^)]{1,64})\) "
        r"to 0x\w{1,8} \((?P<recovery_to>[^)]{1,64})\)",
        r"Expected function \d{1,8} \((?P<gsp_function>\w{1,64})\)",
        r"Timeout after (?P<timeout_s>\d{1,6})s",
        r"^(?P<unit>\w{1,32}) {1,8}(?P<severity>Fatal|Nonfatal) {1,8}"
        r"XC\d{1,4} i\d{1,4} Link (?P<link>\d{1,4})",
    )
)
_NUMBERS = {"caused_by": int, "timeout_s": float, "link": int}
_NVLINK5 = lazy(r"Link \d{1,4} \(0x([0-9a-fA-F]{1,8})")
_WINDOW_S = 10.0
_LOOK_BACK = 64

_BOOT_TIME = lazy(r"\[ {0,8}(\d{1,12}\.\d{3,9})\]")
_CLOCK_TIME = lazy(r"(\d\d):(\d\d):(\d\d)")


def _stamp(line: str) -> tuple[str, float] | None:
    """The line's own time: seconds since boot, or else of the day. Only times of one sort compare."""
    head = line[:120]
    if found := _BOOT_TIME.search(head):
        return "boot", float(found[1])
    if found := _CLOCK_TIME.search(head):
        return "clock", int(found[1]) * 3600.0 + int(found[2]) * 60 + int(found[3])
    return None


def _soon_after(earlier: str, later: str) -> bool:
    """Within the window, as far as the stamps tell. Lines without comparable stamps stand close enough."""
    first, second = _stamp(earlier), _stamp(later)
    if first is None or second is None or first[0] != second[0]:
        return True
    gap = second[1] - first[1]
    return abs(gap if first[0] == "boot" else gap % 86_400) <= _WINDOW_S


def _first_on_gpu(lines: Lines, i: int, pci: str) -> bool:
    """No possible cause for this Xid on the same GPU in the lines before it. O(64) lines."""
    for j in range(i - 1, max(-1, i - 1 - _LOOK_BACK), -1):
        earlier = text(lines, j)
        if "NVRM: Xid (" not in earlier:
            continue
        found = _XID.search(earlier)
        if found is None or found["pci"].lower() != pci:
            continue
        entry = XIDS.get(int(found["code"]))
        may_be_cause = entry is None or not (entry.informational or entry.consequence)
        if may_be_cause and _soon_after(earlier, text(lines, i)):
            return False
    return True


def _xid(lines: Lines, i: int) -> Xid | None:
    found = _XID.search(text(lines, i))
    if found is None:
        return None
    code, pci, rest = int(found["code"]), found["pci"].lower(), found["rest"]
    entry = XIDS.get(code, XidEntry(None, "", None, None))
    owner = _OWNER.match(rest)
    message = rest[owner.end() :] if owner else rest
    details: dict[str, object] = {}
    for pattern in _DETAILS:
        if seen := pattern.search(message):
            details |= {name: _NUMBERS.get(name, str)(value) for name, value in seen.groupdict().items()}
    if isinstance(error := details.get("error"), str):
        details["error"] = error.strip()
    if "unit" in details and (word := _NVLINK5.search(message)):
        details["subcode"] = int(word[1], 16) >> 20 & 0x3F
    if "fault" in details:
        details["unrecognized_client"] = "UNRECOGNIZED_CLIENT" in message
    if "ontained: " in message:
        details["contained"] = "Uncontained: " not in message
    process = owner[2] if owner else None
    return Xid.model_validate(
        {
            "code": code,
            "pci": pci,
            "gi": int(found["gi"]) if found["gi"] else None,
            "ci": int(found["ci"]) if found["ci"] else None,
            "pid": int(owner[1]) if owner and owner[1] else None,
            "process": None if process in (None, "", "<unknown>") else process,
            "name": entry.name,
            "klass": entry.klass or None,
            "action": entry.action,
            "investigate": entry.investigate,
            "informational": entry.informational,
            "consequence": entry.consequence,
            "first_on_gpu": _first_on_gpu(lines, i, pci),
            **details,
        }
    )


_LOST = lazy(rf"NVRM: GPU ({_PCI}\.[0-9a-fA-F]): GPU has fallen off the bus")
_LOST_IN_THREE = lazy(rf"The NVIDIA GPU ({_PCI}\.[0-9a-fA-F])")


def _lost(lines: Lines, i: int) -> GpuLost | Found | None:
    line = text(lines, i)
    if found := _LOST.search(line):
        return GpuLost(bus=found[1].lower())
    if (found := _XID.search(line)) and found["code"] == "79":
        return GpuLost(bus=found["pci"].lower() + ".0")
    if "is not responding to commands" not in line:
        return None
    for j in range(i, max(-1, i - 5), -1):
        if found := _LOST_IN_THREE.search(text(lines, j)):
            return Found(GpuLost(bus=found[1].lower()), j, i)
    return None


_SXID = lazy(
    rf"nvidia-nvswitch(\d{{1,4}}): SXid \((?:PCI:)?({_PCI}(?:\.[0-9a-fA-F])?)\): (\d{{1,6}}),? ?(.*)"
)
_SXID_REST = lazy(r"(Fatal|Non-fatal)?,? ?(?:Link (\d{1,4}))?")


def _sxid(lines: Lines, i: int) -> SXid | None:
    found = _SXID.search(text(lines, i))
    if found is None:
        return None
    rest = _SXID_REST.match(found[4])
    return SXid(
        code=int(found[3]),
        pci=found[2].lower(),
        switch=int(found[1]),
        severity=rest[1] if rest else None,
        link=int(rest[2]) if rest and rest[2] else None,
    )


_ADDRESS = lazy(rf"NVRM: GPU at PCI:({_PCI}): (GPU-[0-9a-fA-F-]{{36}})")
_RATE_LIMIT = lazy(rf"Rate limiting GSP RPC error prints for GPU at PCI:({_PCI})")
_INIT_FAILED = lazy(rf"NVRM: GPU ({_PCI}\.[0-9a-fA-F]): RmInitAdapter failed! \(([0-9a-fA-Fx:]{{1,40}})\)")
_MODULE = lazy(
    r"NVIDIA UNIX (?P<open>Open )?(?:Kernel Module for )?\S{1,16} {1,4}(?:Kernel Module {1,4})?"
    r"(?P<version>\d{3}\.\d{1,3}(?:\.\d{1,3})?)"
)
_CLIENT = lazy(r"API mismatch: the client '([^']{1,64})'")
_CLIENT_VERSION = lazy(r"has the version (\d[\w.-]{2,24}?),? but")
_MODULE_VERSION = lazy(r"this kernel module has the version (\d[\w.]{2,24}?)\.?(?: |$)")


def _address(lines: Lines, i: int) -> GpuAddress | None:
    found = _ADDRESS.search(text(lines, i))
    return GpuAddress(pci=found[1].lower(), uuid=found[2]) if found else None


def _rate_limited(lines: Lines, i: int) -> GspStalled | None:
    found = _RATE_LIMIT.search(text(lines, i))
    return GspStalled(pci=found[1].lower()) if found else None


def _init_failed(lines: Lines, i: int) -> GpuInitFailed | None:
    line = text(lines, i)
    if "Cannot initialize GSP firmware RM" in line:
        return GpuInitFailed(gsp_firmware=True)
    found = _INIT_FAILED.search(line)
    return GpuInitFailed(bus=found[1].lower(), code=found[2]) if found else None


def _module(lines: Lines, i: int) -> KernelModule | None:
    found = _MODULE.search(text(lines, i))
    return KernelModule(version=found["version"], open=found["open"] is not None) if found else None


def _mismatch(lines: Lines, i: int) -> Found | None:
    # One sentence, broken over two to five log lines, differently in each driver branch.
    said = ""
    for j in range(i, min(i + 5, len(lines))):
        said += " " + text(lines, j).rpartition("NVRM:")[2].strip()
        client, module = _CLIENT_VERSION.search(said), _MODULE_VERSION.search(said)
        if client and module:
            who = _CLIENT.search(said)
            fact = DriverMismatch(
                client=who[1] if who else None, client_version=client[1], module_version=module[1]
            )
            return Found(fact, i, j)
    return None


def _uvm(lines: Lines, i: int) -> UvmModule:
    return UvmModule(loaded="Loaded the UVM driver" in text(lines, i))


def _peermem(_lines: Lines, _i: int) -> PeermemInvalid:
    return PeermemInvalid()


PARSERS = (
    by_literal(
        "kernel",
        (
            ("NVRM: Xid (", _xid),
            ("fallen off the bus", _lost),
            (": SXid (", _sxid),
            ("NVRM: GPU at PCI:", _address),
            ("Rate limiting GSP RPC error prints", _rate_limited),
            ("RmInitAdapter", _init_failed),
            ("NVIDIA UNIX ", _module),
            ("NVRM: API mismatch", _mismatch),
            ("nvidia-uvm: Loaded the UVM driver", _uvm),
            ("nvidia-uvm: Unloaded the UVM driver", _uvm),
            ("ERROR detected invalid context, skipping further processing", _peermem),
        ),
    ),
    *kernel_host.PARSERS,
)
