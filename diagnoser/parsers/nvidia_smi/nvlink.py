r"""``nvidia-smi nvlink -s`` (rates) and ``-e`` (error counters).

>>> block = [
...     "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1b2c3d4e-0000-1111-2222-333344445555)",
...     "\t Link 0: 26.562 GB/s",
...     "\t Link 1: <inactive>",
... ]
>>> state = next(found.fact for found in parse(block, 0))
>>> state.active, state.inactive, state.rate_gb_s, state.expected
(1, (1,), 26.562, 18)

Sources: captures of drivers 590 and 595; public reports. Links by model: V100 6, A100 12, H100, H200, B200 18.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from diagnoser.facts.base import Found
from diagnoser.facts.gpu_links import NvlinkErrors, NvlinkState
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.nvidia_smi.listing import GPU_LINE, LINK_LINE, MIG_LINE, read

_MOST_LINES = 20_000

_RATE = lazy(r"\s{0,16}Link (\d{1,3}): (?:(\d{1,5}(?:\.\d{1,4})?) GB/s|<inactive>)\Z")
_ERRORS = lazy(r"\s{0,16}Link (\d{1,3}): (Replay|Recovery|CRC) Errors: (\d{1,18})\Z")

_LINKS: tuple[tuple[str, int | None], ...] = (
    ("V100", 6),
    ("A100", 12),
    ("H100 PCIe", None),
    ("H100 NVL", None),
    ("H100", 18),
    ("H200 NVL", None),
    ("H200", 18),
    ("B200", 18),
)
"""Links of SXM boards; cards with bridges have other numbers, so nothing is expected of them."""

_INACTIVE, _MIG, _UNSUPPORTED = "links are inactive", "mig mode", "not have or support nvlink"


@dataclass(slots=True)
class _Gpu:
    index: int
    name: str | None
    first: int
    last: int
    rates: dict[int, float | None] = field(default_factory=dict)
    errors: dict[int, dict[str, int]] = field(default_factory=dict)
    error_lines: dict[int, list[int]] = field(default_factory=dict)
    said: str = ""


def _belongs(line: str) -> bool:
    return bool(read(LINK_LINE, line) or read(GPU_LINE, line) or read(MIG_LINE, line))


def extent(lines: Lines, i: int) -> range | None:
    """GPU and link lines around a link line; single empty lines stand between links of ``-e``."""
    if read(LINK_LINE, lines[i]) is None:
        return None
    first = last = i
    while first > 0 and i - first < _MOST_LINES:
        above = next((k for k in (first - 1, first - 2) if k >= 0 and lines[k].strip()), None)
        if above is None or not _belongs(lines[above]):
            break
        first = above
    while last + 1 < len(lines) and last - i < _MOST_LINES:
        below = next((k for k in (last + 1, last + 2) if k < len(lines) and lines[k].strip()), None)
        if below is None or not _belongs(lines[below]):
            break
        last = below
    return range(first, last + 1)


def parse(lines: Lines, _: int) -> Iterator[Found]:
    """NVLink state or error counters of each GPU."""
    gpus: list[_Gpu] = []
    for number, line in enumerate(lines):
        if head := read(GPU_LINE, line):
            gpus.append(_Gpu(int(head[1]), head[2], number, number))
        elif gpus and read(LINK_LINE, line):
            gpus[-1].last = number
            _take(gpus[-1], line, number)
    for gpu in gpus:
        if gpu.rates or gpu.said:
            yield Found(_state(gpu, gpus), gpu.first, gpu.last)
        for link, counts in gpu.errors.items():
            places = gpu.error_lines[link]
            yield Found(NvlinkErrors(gpu_index=gpu.index, link=link, **counts), places[0], places[-1])


def _take(gpu: _Gpu, line: str, number: int) -> None:
    if rate := read(_RATE, line):
        gpu.rates[int(rate[1])] = float(rate[2]) if rate[2] else None
    elif error := read(_ERRORS, line):
        link = int(error[1])
        gpu.errors.setdefault(link, {})[error[2].lower()] = int(error[3])
        gpu.error_lines.setdefault(link, []).append(number)
    else:
        lower = line.lower()
        gpu.said = next((said for said in (_INACTIVE, _MIG, _UNSUPPORTED) if said in lower), gpu.said)


def _state(gpu: _Gpu, all_gpus: list[_Gpu]) -> NvlinkState:
    active = _active(gpu)
    peers = max(_active(other) for other in all_gpus if other.name == gpu.name)
    expected = next((count for part, count in _LINKS if part in (gpu.name or "")), None)
    rates = [rate for rate in gpu.rates.values() if rate is not None]
    silent = gpu.said in (_MIG, _UNSUPPORTED)
    should = max(peers, expected or 0, len(gpu.rates)) if peers else 0
    return NvlinkState(
        gpu_index=gpu.index,
        name=gpu.name,
        active=None if silent else active,
        inactive=tuple(sorted(link for link, rate in gpu.rates.items() if rate is None)),
        rate_gb_s=max(rates, default=None),
        slow=tuple(
            sorted(link for link, rate in gpu.rates.items() if rate is not None and rate < max(rates))
        ),
        expected=expected,
        all_inactive=gpu.said == _INACTIVE,
        mig=gpu.said == _MIG,
        unsupported=gpu.said == _UNSUPPORTED,
        peers_active_max=peers,
        down=None if silent else max(0, should - active),
    )


def _active(gpu: _Gpu) -> int:
    return sum(rate is not None for rate in gpu.rates.values())


PARSERS = (
    Parser(
        name="nvidia_smi_nvlink",
        literals=(
            " GB/s",
            "<inactive>",
            "&lt;inactive",
            "Replay Errors",
            "CRC Errors",
            "inActive",
            "Nvlink queries",
        ),
        parse=parse,
        extent=extent,
        document="nvidia-smi nvlink",
    ),
)
