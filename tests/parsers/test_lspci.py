"""lspci -vv beyond the composed sample."""

from typing import Any

import pytest

from diagnoser.facts.host import PciAcs, PciLink
from diagnoser.parsers import lspci

GPU = "0000:e3:00.0 3D controller: NVIDIA Corporation GB202GL (rev a1)"


def facts(read: Any, text: str) -> list[object]:
    return [found.fact for found in read(lspci.PARSERS, text)]


@pytest.mark.parametrize(
    ("status", "downgraded"),
    [
        ("Speed 32GT/s, Width x16", False),
        ("Speed 32GT/s (ok), Width x16 (ok)", False),
        ("Speed 2.5GT/s (downgraded), Width x16 (ok)", True),
        ("Speed 32GT/s (ok), Width x8 (downgraded)", True),
        ("Speed 16GT/s, Width x16, TrErr- Train-", True),
    ],
)
def test_links(status: str, downgraded: bool, read: Any) -> None:
    text = f"{GPU}\n\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L1\n\t\tLnkSta:\t{status}"
    (link,) = facts(read, text)
    assert isinstance(link, PciLink)
    assert (link.address, link.nvidia, link.cap_gts, link.cap_width) == ("0000:e3:00.0", True, 32.0, 16)
    assert link.downgraded is downgraded


def test_each_device_has_its_own_capability(read: Any) -> None:
    text = (
        f"{GPU}\n\tSubsystem: x\n\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n\n"
        "e0:01.1 PCI bridge: AMD Device 14ab\n\tCapabilities: [58] Express\n\t\tLnkSta:\tSpeed 16GT/s, Width x16"
    )
    (link,) = facts(read, text)
    assert isinstance(link, PciLink)
    assert (link.address, link.cap_gts, link.downgraded, link.nvidia) == ("e0:01.1", None, False, False)


@pytest.mark.parametrize(
    ("flags", "redirect"),
    [
        ("SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-", True),
        ("SrcValid- TransBlk- ReqRedir- CmpltRedir+ UpstreamFwd- EgressCtrl- DirectTrans-", True),
        ("SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-", False),
    ],
)
def test_acs_pasted_alone(flags: str, redirect: bool, read: Any) -> None:
    (acs,) = facts(read, f'INFO a log line\nACSCtl:\t{flags}\n  File "a.py", line 1, in f')
    assert isinstance(acs, PciAcs)
    assert (acs.address, acs.redirect) == (None, redirect)


def test_a_line_pasted_alone_takes_no_neighbours() -> None:
    (parser,) = lspci.PARSERS
    lines = [
        "    indented code",
        "ACSCtl:\tSrcValid+ ReqRedir+",
        '  File "a.py", line 1, in f',
        "ValueError: x",
    ]
    assert parser.extent is not None
    assert parser.extent(lines, 1) == range(1, 2)
