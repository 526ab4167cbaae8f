"""``lspci -vv``: the speed and width of links, and the access control that redirects peer-to-peer traffic.

    e3:00.0 3D controller: NVIDIA Corporation Device 2bb5 (rev a1)
                LnkCap:	Port #0, Speed 32GT/s, Width x16, ASPM L1, Exit Latency L1 <4us
                LnkSta:	Speed 5GT/s (downgraded), Width x16
    -> PciLink(address="e3:00.0", gts=5.0, width=16, cap_gts=32.0, cap_width=16, downgraded=True, ...)

ACSCap, LnkCap2 and LnkSta2 say what a device could do and are left alone. A capability line pasted without its
device is read too. Format: pciutils 3.5 to 3.13 (ls-caps.c, ls-ecaps.c).
"""

import re
from collections.abc import Iterator

from diagnoser.facts.base import Found
from diagnoser.facts.host import PciAcs, PciLink
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.by_literal import text

MAX_BLOCK = 40_000
MAX_DEVICE = 120
"""How many lines above a capability its device is looked for; the longest device of pciutils' own tests has 80."""
_DEVICE = lazy(r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (\S.{0,200})")
_CAPABILITY = lazy(r"\s{0,16}(?:LnkCap|LnkSta|ACSCtl|ACSCap|LnkCtl|LnkCap2|LnkSta2|LnkCtl2):")
_CAP = lazy(r"\s{0,16}LnkCap:.{0,40}?Speed ([\d.]{1,5})GT/s, Width x(\d{1,2})")
_STA = lazy(
    r"\s{0,16}LnkSta:\s{0,8}Speed ([\d.]{1,5})GT/s( \(downgraded\))?[^,]{0,16}, Width x(\d{1,2})( \(downgraded\))?"
)
_ACS = lazy(r"\s{0,16}ACSCtl:\s{0,8}(.{1,200})")


def _belongs(line: str) -> bool:
    return line.startswith(("\t", "  ")) or _is_head(line)


def _is_head(line: str) -> bool:
    return _DEVICE.match(line) is not None or _CAPABILITY.match(line) is not None


def _extent(lines: Lines, i: int) -> range | None:
    if not _CAPABILITY.match(text(lines, i)):
        return None
    first = i
    while (
        i - first < MAX_DEVICE and not _DEVICE.match(text(lines, first)) and _belongs(text(lines, first - 1))
    ):
        first -= 1
    # Without a device above, indented neighbours may be anything.
    belongs = _belongs
    if not _DEVICE.match(text(lines, first)):
        first, belongs = i, _is_head
        while i - first < MAX_DEVICE and _CAPABILITY.match(text(lines, first - 1)):
            first -= 1
    last = i
    while last + 1 < len(lines) and last - i < MAX_BLOCK:
        if not (belongs(text(lines, last + 1)) or _gap(lines, last + 1)):
            break
        last += 1
    return range(first, last + 1)


def _gap(lines: Lines, i: int) -> bool:
    """The empty line between two devices."""
    return not text(lines, i) and _DEVICE.match(text(lines, i + 1)) is not None


def _gts(words: str) -> float | None:
    return float(words) if words.count(".") <= 1 and words != "." else None


def _parse(lines: Lines, _i: int) -> Iterator[Found]:
    address = device = None
    cap: re.Match[str] | None = None
    cap_line = 0
    for i in range(len(lines)):
        line = text(lines, i)
        if found := _DEVICE.match(line):
            address, device, cap = found[1], found[2].strip(), None
        elif found := _CAP.match(line):
            cap, cap_line = found, i
        elif found := _STA.match(line):
            if link := _link(address, device, cap, found):
                yield Found(link, cap_line if cap else i, i)
            cap = None
        elif found := _ACS.match(line):
            flags = found[1].split()
            redirect = "ReqRedir+" in flags or "CmpltRedir+" in flags
            yield Found(
                PciAcs(address=address, redirect=redirect, source_validation="SrcValid+" in flags), i, i
            )


def _link(
    address: str | None, device: str | None, cap: re.Match[str] | None, sta: re.Match[str]
) -> PciLink | None:
    gts, width = _gts(sta[1]), int(sta[3])
    if gts is None:
        return None
    cap_gts, cap_width = (_gts(cap[1]), int(cap[2])) if cap else (None, None)
    below = (cap_gts is not None and gts < cap_gts) or (cap_width is not None and width < cap_width)
    return PciLink(
        address=address,
        device=device,
        nvidia="NVIDIA" in device if device else None,
        gts=gts,
        width=width,
        cap_gts=cap_gts,
        cap_width=cap_width,
        downgraded=below or sta[2] is not None or sta[4] is not None,
    )


PARSERS = (
    Parser(
        name="lspci",
        literals=("LnkSta:", "LnkCap:", "ACSCtl:"),
        parse=_parse,
        extent=_extent,
        document="lspci -vv",
    ),
)
