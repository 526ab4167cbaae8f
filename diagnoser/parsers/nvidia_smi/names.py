"""What a GPU's name tells: architecture, edition, vGPU profile.

Architectures: CUDA compute capabilities of the parts (sm70 V100, sm75 T4, sm80 A100, sm86 A10/A40/3090,
sm89 L4/L40S/4090, sm90 H100/H200/GH200, sm100 B200/GB200, sm103 B300/GB300, sm110 Thor, sm120 RTX PRO
Blackwell/5090, sm121 GB10), extended to whole families by NVIDIA's list of CUDA GPUs.
"""

from typing import Literal

from diagnoser.facts.lazy import lazy

_FAMILIES: tuple[tuple[str, str], ...] = (
    ("sm121", r"GB10|DGX Spark"),
    ("sm120", r"RTX 50[5-9]0(?: ?[A-Z])?|RTX PRO \d{4}"),
    ("sm110", r"Thor"),
    ("sm103", r"G?B300"),
    ("sm100", r"G?B[12]00"),
    ("sm90", r"G?H[128]00L?|H20"),
    ("sm89", r"L40S?|L20|L4|L2|RTX 40[5-9]0(?: ?[A-Z])?|RTX \d{4}(?: SFF)? Ada"),
    ("sm87", r"Orin"),
    ("sm86", r"A10G?|A16|A2|A40|RTX 30[5-9]0(?: ?[A-Z])?|RTX A\d{4}"),
    ("sm80", r"A[18]00X?|A30X?"),
    ("sm75", r"T4G?|RTX 20[678]0|GTX 16[5-6]0|TITAN RTX|Quadro RTX \d{4}"),
    ("sm70", r"V100S?|TITAN V|GV100"),
    ("sm61", r"P40|P4|GTX 10[5-8]0"),
    ("sm60", r"P100|GP100"),
    ("sm37", r"K80"),
)

_ARCH = lazy("|".join(rf"(?P<{sm}>(?<![A-Za-z0-9])(?:{parts})(?![A-Za-z0-9]))" for sm, parts in _FAMILIES))

_EDITIONS: tuple[tuple[str, Literal["server", "workstation", "max-q"]], ...] = (
    ("max-q", "max-q"),
    ("server edition", "server"),
    ("workstation edition", "workstation"),
)

_VGPU_PROFILE = lazy(r"-\d{1,3}[QCBA]\Z")

GPU_NAME = lazy(
    r"(?:NVIDIA|Tesla|Quadro|GeForce|GRID|TITAN|RTX|GTX|NVS|Orin|[ABHLTVPK]\d{1,3})\b[^,|:;=\"'<>{}]{0,70}"
)
"""The beginning of a text that can be a GPU's name."""


def arch_of(name: str) -> str | None:
    """Architecture ("sm90") of a name, cut or not; None when unknown or when it names several.

    >>> arch_of("NVIDIA H100 80GB HBM3"), arch_of("NVIDIA A100-SXM..."), arch_of("RTX 5090 + RTX 3090")
    ('sm90', 'sm80', None)
    """
    found = {match.lastgroup for match in _ARCH.finditer(name[:200])}
    return found.pop() if len(found) == 1 else None


def edition_of(name: str) -> Literal["server", "workstation", "max-q"] | None:
    """Edition of an RTX PRO board by its full name."""
    lower = name.lower()
    return next((edition for text, edition in _EDITIONS if text in lower), None)


def is_vgpu_name(name: str) -> bool:
    """Does the name end in a vGPU profile, as "NVIDIA L4-12Q" does?"""
    return _VGPU_PROFILE.search(name) is not None
