r"""``nvidia-smi topo -m`` and ``topo -p2p``: tabs or blanks, with or without NICs, NUMA and legends.

>>> block = [
...     "        GPU0    GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID",
...     "GPU0     X      NV18    0-55,112-167    0               N/A",
...     "GPU1    NV18     X      56-111,168-223  1               N/A",
... ]
>>> facts = [found.fact for found in parse(block, 0)]
>>> facts[0].link, facts[0].nvlinks, facts[-1].has_nvlink, facts[-1].numa_nodes
('NV18', 18, True, 2)

The legend always explains ``NV#``, so links are taken from rows only. Sources: captures of drivers 580 to
610; matrices in public reports.
"""

import re
from collections.abc import Iterator
from typing import get_args

from diagnoser.facts.base import Found
from diagnoser.facts.gpu_links import LinkKind, P2pLink, P2pMatrix, TopoGpu, TopoLink, Topology
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.nvidia_smi.values import clean, words

_MOST_DEVICES = 128
_MOST_LINES = 400
_WIDEST = 4_096

_DEVICE = lazy(r"(?:GPU|NIC)\d{1,3}\Z|(?:mlx|bnxt|ib|eth|irdma|rdma|hfi|efa)[A-Za-z0-9_.]{1,30}\Z")
_LINK = lazy(r"(?:NV(\d{1,3})|PIX|PXB|PHB|NODE|SYS|SOC)\Z")
_P2P = lazy(r"(?:OK|CNS|GNS|TNS|NS|DR|U)\Z")
_LEGEND = lazy(
    r"\s*(?:Legend:|NIC Legend:|(?:X|SYS|NODE|PHB|PXB|PIX|NV#|SOC|OK|CNS|GNS|TNS|NS|DR|U)\s{1,8}= )"
)
_NIC = lazy(r"\s*(NIC\d{1,3}): (\S{1,64})\Z")
_MODE = lazy(r"topo\s{1,4}(?:-p2p|--p2pstatus)[ =](\w{1,2})")
_COLUMNS = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_NODE = lazy(r"\d{1,4}\Z")
_RANK = {kind: rank for rank, kind in enumerate(get_args(LinkKind))}


def _header(line: str) -> list[str] | None:
    """The devices of a header line, or None."""
    text = clean(line)
    if len(line) > _WIDEST or "GPU0" not in text:
        return None
    names = text.split("CPU Affinity")[0].split()
    good = names and names[0] == "GPU0" and len(names) <= _MOST_DEVICES and all(map(_DEVICE.match, names))
    return names if good else None


def _row(line: str) -> list[str] | None:
    """The cells of a row, the device first, or None."""
    if len(line) > _WIDEST:
        return None
    cells = clean(line).split()
    if len(cells) < 2 or not _DEVICE.match(cells[0]):
        return None
    return cells if cells[1] == "X" or _LINK.match(cells[1]) or _P2P.match(cells[1]) else None


def extent(lines: Lines, i: int) -> range | None:
    """Header, rows and legends around line i, with the command line if it stands right above."""
    first = i
    if _header(lines[i]) is None:
        if _row(lines[i]) is None:
            return None
        while first > 0 and i - first < _MOST_DEVICES and _row(lines[first - 1]) is not None:
            first -= 1
        if first == 0 or _header(lines[first - 1]) is None:
            return None
        first -= 1
    last = first
    while last + 1 < len(lines) and last - first <= _MOST_DEVICES and _row(lines[last + 1]) is not None:
        last += 1
    if last == first:
        return None
    end = last
    for k in range(last + 1, min(len(lines), last + _MOST_LINES)):
        if _LEGEND.match(clean(lines[k][:200])) or _NIC.match(clean(lines[k][:200])):
            end = k
        elif lines[k].strip():
            break
    if first > 0 and _MODE.search(lines[first - 1][:_WIDEST]):
        first -= 1
    return range(first, end + 1)


def parse(lines: Lines, _: int) -> Iterator[Found]:
    """Links (each pair once), places of the GPUs and a summary; or the peer-to-peer matrix."""
    start = next((k for k, line in enumerate(lines) if _header(line) is not None), None)
    if start is None:
        return
    names = _header(lines[start]) or []
    rows: dict[str, tuple[int, list[str]]] = {}
    for k in range(start + 1, len(lines)):
        cells = _row(lines[k])
        if cells is None:
            break
        rows.setdefault(cells[0], (k, cells[1:]))
    first_cells = [cells[: len(names)] for _, cells in rows.values()]
    if any(_P2P.match(cell) for cells in first_cells for cell in cells):
        mode = _MODE.search(lines[start - 1][:_WIDEST]) if start else None
        yield from _p2p(names, rows, mode[1] if mode else None, start)
    elif rows:
        nics = {found[1]: found[2] for line in lines if (found := _NIC.match(clean(line[:200])))}
        columns = [name for name in _COLUMNS if name in clean(lines[start])]
        places = [
            _place(lines[k], name, len(names), columns) for name, (k, _) in rows.items() if name[:3] == "GPU"
        ]
        yield from _topology(names, rows, places, nics, start)


def _topology(
    names: list[str],
    rows: dict[str, tuple[int, list[str]]],
    places: list[TopoGpu],
    nics: dict[str, str],
    start: int,
) -> Iterator[Found]:
    pairs: list[TopoLink] = []
    complete = True
    for a_at, a in enumerate(names):
        line, cells = rows.get(a, (start, []))
        complete = complete and len(cells) >= len(names)
        for b_at in range(a_at + 1, len(names)):
            match = _LINK.match(cells[b_at]) if b_at < len(cells) else None
            if match is None:
                continue
            link = TopoLink(a=a, b=names[b_at], link=match[0], path=_path(match), nvlinks=int(match[1] or 0))
            pairs.append(link)
            yield Found(link, line, line)
    for place in places:
        line = rows[f"GPU{place.gpu_index}"][0]
        yield Found(place, line, line)
    gpus = [link for link in pairs if link.a.startswith("GPU") and link.b.startswith("GPU")]
    last = max(line for line, _ in rows.values())
    yield Found(_summary(names, gpus, places, nics, complete), start, last)


def _path(match: re.Match[str]) -> LinkKind:
    text = "NV" if match[1] else "SYS" if match[0] == "SOC" else match[0]
    return next(kind for kind in get_args(LinkKind) if kind == text)


def _place(line: str, name: str, links: int, columns: list[str]) -> TopoGpu:
    """Where a GPU sits. Without tabs an empty cell shifts the rest, so then all or none are taken."""
    if "\t" in line:
        cells = [cell.strip() for cell in clean(line).split("\t")][1 + links : 3 + links]
    else:
        cells = clean(line).split()[1 + links :]
        cells = cells if len(cells) == len(columns) else []
    shown = dict(zip(columns, cells, strict=False))
    numa = words(shown.get("NUMA Affinity", ""))
    return TopoGpu(
        gpu_index=int(name[3:]),
        numa=int(numa) if numa and _NODE.match(numa) else None,
        cpu_affinity=words(shown.get("CPU Affinity", "")),
        numa_affinity=numa,
    )


def _summary(
    names: list[str], pairs: list[TopoLink], places: list[TopoGpu], nics: dict[str, str], complete: bool
) -> Topology:
    others = [name for name in names if not name.startswith("GPU")]
    kinds = [pair.path for pair in pairs]
    nvlinks = [pair.nvlinks for pair in pairs]
    nodes = {place.numa for place in places if place.numa is not None}
    gpu_count = len(names) - len(others)
    return Topology(
        gpu_count=gpu_count,
        nic_count=len(others),
        nics=tuple((name, nics.get(name, None if name.startswith("NIC") else name)) for name in others),
        has_nvlink="NV" in kinds,
        pcie_only=gpu_count > 1 and bool(pairs) and "NV" not in kinds,
        nvlinks_min=min(nvlinks, default=None),
        nvlinks_max=max(nvlinks, default=None),
        nvlinks_equal=len(set(nvlinks)) == 1 if nvlinks else None,
        best=min(kinds, key=_RANK.__getitem__, default=None),
        worst=max(kinds, key=_RANK.__getitem__, default=None),
        pairs_nv=kinds.count("NV"),
        pairs_pix=kinds.count("PIX"),
        pairs_pxb=kinds.count("PXB"),
        pairs_phb=kinds.count("PHB"),
        pairs_node=kinds.count("NODE"),
        pairs_sys=kinds.count("SYS"),
        numa_nodes=len(nodes) or None,
        spans_sockets="SYS" in kinds if kinds else None,
        complete=complete,
    )


def _p2p(
    names: list[str], rows: dict[str, tuple[int, list[str]]], mode: str | None, start: int
) -> Iterator[Found]:
    cells: list[tuple[int, P2pLink]] = []
    for a, (line, row) in rows.items():
        for b, status in zip(names, row, strict=False):
            if a != b and _P2P.match(status):
                cells.append((line, P2pLink(a=int(a[3:]), b=int(b[3:]), status=status, mode=mode)))
    for line, cell in cells:
        yield Found(cell, line, line)
    statuses = sorted({cell.status for _, cell in cells})
    refused = {frozenset((cell.a, cell.b)) for _, cell in cells if cell.status != "OK"}
    fact = P2pMatrix(
        gpu_count=len(names),
        mode=mode,
        all_ok=statuses == ["OK"] if statuses else None,
        statuses=tuple(statuses),
        refused_pairs=len(refused),
    )
    yield Found(fact, start, max(line for line, _ in rows.values()))


PARSERS = (
    Parser(
        name="nvidia_smi_topo",
        literals=("GPU0\t", "GPU0  "),
        parse=parse,
        extent=extent,
        document="nvidia-smi topo",
    ),
)
