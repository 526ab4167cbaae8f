"""The GPU, host and NCCL rules against composed samples: which judgement each allows, and which it must not get.

A judgement is named in a rule's references ("XID-79", "PCI-LOAD-GEN"). A sample may limit one to a place:
"GPU-LOST(gpu2)", "HOST-TSC (from 'Switched to clocksource tsc')", or to a role: "XID-45 (as root cause)".
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from diagnoser.inference.diagnose import Judged, judge_readings
from diagnoser.inference.diagnosis import Finding
from diagnoser.inference.reading import Reader

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "fixtures" / "gpu_host"
INDEX: list[dict[str, Any]] = json.loads((SAMPLES / "index.json").read_text("utf-8"))["samples"]

ELSEWHERE: Mapping[str, frozenset[str]] = {
    "DRV-MISMATCH": frozenset(["nvml-driver-lib-mismatch"]),
    "CUDA-802": frozenset(["err802-fabricmanager"]),
    "CUDA-803": frozenset(["err803-ldcache-compat"]),
    "CUDA-804": frozenset(["err804-driver-older-than-image"]),
    "CUDA-DRV-OLD": frozenset(["driver-too-old"]),
    "CUDA-NOKERNEL": frozenset(["gpu-arch-not-in-build", "no-kernel-image-sm120"]),
    "TRITON-PTXAS": frozenset(["ptxas-too-old", "ptxas-older-than-triton"]),
    "LIB-SONAME": frozenset(["missing-shared-library", "nvrtc-not-on-path", "cuda-major-mix"]),
    "LIB-ABI": frozenset(["sgl-kernel-torch-abi", "vllm-torch-abi", "extension-torch-abi"]),
    "LIB-GLIBC": frozenset(["glibc-too-old"]),
}
"""Judgements about CUDA and loaders, whose rules carry no such names."""

SAYS_SO = ("root", "consequence")
"""Roles in which a rule makes its statement; a bystander rule states the opposite."""


@pytest.fixture(scope="session")
def named(catalog: Any) -> dict[str, set[str]]:
    """Judgement -> the rules that make it."""
    named: dict[str, set[str]] = {}
    for rule, cause in catalog.pack.causes.items():
        for reference in cause["references"]:
            named.setdefault(reference, set()).add(rule)
    return named


def judged(catalog: Any, file: Path) -> Judged:
    reader = Reader(catalog, file.name)
    data = file.read_bytes()
    reader.feed(data if data.endswith(b"\n") else data + b"\n", 1, last=True)
    return judge_readings([reader.reading], catalog.pack)


def rules_of(judgement: str, named: Mapping[str, set[str]]) -> set[str]:
    """The rules that make a judgement; "THR-*" stands for all that begin so."""
    if judgement in named:
        return named[judgement] | ELSEWHERE.get(judgement, frozenset())
    base = re.sub(r"\s*\(.*", "", judgement)
    if base.endswith("*"):
        return {rule for name, rules in named.items() if name.startswith(base[:-1]) for rule in rules}
    return named.get(base, set()) | ELSEWHERE.get(base, frozenset())


def speaking(judgement: str, findings: list[Finding], lines: list[str]) -> Iterator[Finding]:
    """The findings that say it, at the place the judgement is limited to."""
    limit = re.search(r"\((gpu\d+|from .*|as root cause)", judgement)
    for finding in findings:
        if finding.role not in SAYS_SO:
            continue
        if limit and limit[1] == "as root cause":
            if finding.role == "root":
                yield finding
        elif limit and limit[1].startswith("gpu"):
            row = next(i for i, line in enumerate(lines, 1) if line.startswith(f"{limit[1][3:]},"))
            if any(place.line <= row <= place.end_line for place in finding.evidence):
                yield finding
        elif limit and "ACSCap" in limit[1]:
            if any("ACSCap" in place.text for place in finding.evidence):
                yield finding
        elif limit and "clocksource tsc" in limit[1]:
            if any(place.text.rstrip().endswith("Switched to clocksource tsc") for place in finding.evidence):
                yield finding
        else:
            yield finding


@pytest.mark.parametrize("sample", INDEX, ids=[sample["file"] for sample in INDEX])
def test_samples_get_their_judgement(
    sample: dict[str, Any], catalog: Any, named: dict[str, set[str]]
) -> None:
    file = SAMPLES / sample["file"]
    findings = judged(catalog, file).diagnosis.findings
    lines = file.read_text("utf-8", "replace").splitlines()
    fired = {finding.rule for finding in findings}
    for judgement in sample["judge"]:
        wanted = rules_of(judgement, named)
        assert wanted, f"no rule makes the judgement {judgement}"
        assert wanted & fired, f"{judgement}: none of {sorted(wanted)} fired, but {sorted(fired)}"
    for judgement in sample["must_not"]:
        forbidden = rules_of(judgement, named)
        wrong = [
            finding.rule for finding in speaking(judgement, findings, lines) if finding.rule in forbidden
        ]
        assert not wrong, f"{judgement}: {wrong} fired"


HEALTHY = sorted(
    path
    for state in ("idle", "busy", "held")
    for path in (ROOT / "fixtures" / "captures" / "h200" / state).glob("*")
    if path.is_file()
)


@pytest.mark.parametrize("file", HEALTHY, ids=[f"{path.parent.name}/{path.name}" for path in HEALTHY])
def test_a_healthy_gpu_gives_nothing_above_info(file: Path, catalog: Any) -> None:
    findings = judged(catalog, file).diagnosis.findings
    loud = [(finding.rule, finding.severity) for finding in findings if finding.severity != "info"]
    assert loud == []


def test_full_draw_at_the_default_limit_is_a_bystander(catalog: Any) -> None:
    busy = ROOT / "fixtures" / "captures" / "h200" / "busy" / "q.txt"
    if not busy.exists():
        pytest.skip("no captures")
    findings = {finding.rule: finding for finding in judged(catalog, busy).diagnosis.findings}
    assert findings["power-cap-at-full-draw"].role == "bystander"
    assert "power-cap" not in findings


def xid_line(code: int, text: str = "pid=4242, name=python3, Ch 00000008") -> bytes:
    return f"[ 5312.100000] NVRM: Xid (PCI:0000:3b:00): {code}, {text}\n".encode()


def roots(catalog: Any, data: bytes) -> list[str]:
    reader = Reader(catalog, "dmesg")
    reader.feed(data, 1, last=True)
    diagnosis = judge_readings([reader.reading], catalog.pack).diagnosis
    return [finding.rule for finding in diagnosis.findings if finding.role == "root"]


def test_every_catalogued_xid_is_judged(catalog: Any) -> None:
    from diagnoser.facts.xid_table import XIDS as TABLE

    silent = []
    for code in TABLE:
        text = "SAW_ERR Fatal XC0 i0 Link 01 (0x021425c6 0x0 0x0 0x0 0x0 0x0)" if 144 <= code <= 150 else None
        if code == 154:
            text = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
        reader = Reader(catalog, "dmesg")
        reader.feed(xid_line(code, text) if text else xid_line(code), 1, last=True)
        findings = judge_readings([reader.reading], catalog.pack).diagnosis.findings
        if not any(finding.rule.startswith(("xid", "gpu-", "row-")) for finding in findings):
            silent.append(code)
        assert "xid-unknown" not in {finding.rule for finding in findings}, code
    assert silent == []


def test_what_follows_the_fall_from_the_bus_is_its_consequence(catalog: Any) -> None:
    log = (
        xid_line(79, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
        + xid_line(119, "pid=1, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU0 GSP!")
        + xid_line(154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)")
        + xid_line(43)
    )
    assert roots(catalog, log) == ["xid79-fell-off-bus"]


def test_heat_and_link_errors_name_the_reason_of_a_fall(catalog: Any) -> None:
    fall = xid_line(79, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
    hot = b"index, name, temperature.gpu, power.draw [W]\n0, NVIDIA GeForce RTX 3090, 93, 340.00 W\n"
    error = b"[ 5311.9] nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)\n"
    assert roots(catalog, hot + fall)[0] == "xid79-thermal"
    assert roots(catalog, error + fall)[0] == "xid79-link"
