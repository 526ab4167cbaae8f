"""Facts about what connects GPUs: the topology matrix, peer-to-peer rights and NVLink."""

from typing import ClassVar, Literal

from diagnoser.facts.base import Fact

LinkKind = Literal["NV", "PIX", "PXB", "PHB", "NODE", "SYS"]
"""Best to worst: NVLink; one PCIe bridge; several; the host bridge; across bridges; across sockets."""


class TopoLink(Fact):
    """How two devices of ``nvidia-smi topo -m`` are connected. a, b: "GPU0", "NIC1" in header order.

    link: as printed ("NV18", "PIX"); path: its kind; nvlinks: bonded NVLinks (0 without NVLink).
    """

    kind: ClassVar[str] = "topo_link"
    a: str
    b: str
    link: str
    path: LinkKind
    nvlinks: int = 0


class TopoGpu(Fact):
    """Where a device of the matrix sits. numa: NUMA node if it is a single one; affinities as printed."""

    kind: ClassVar[str] = "topo_gpu"
    gpu_index: int
    numa: int | None = None
    cpu_affinity: str | None = None
    numa_affinity: str | None = None


class Topology(Fact):
    """Summary of a matrix; best, worst and the counts are over pairs of GPUs.

    nics: (name, device) as the NIC legend says, device None without one. has_nvlink: any GPU pair. pcie_only:
    two or more GPUs and none linked by NVLink (by design on RTX boards). nvlinks_equal: all pairs have the
    same number. numa_nodes: different NUMA nodes of the GPUs; spans_sockets: some pair crosses SYS.
    complete: every row has every link (a paste may be cut).
    """

    kind: ClassVar[str] = "topology"
    gpu_count: int
    nic_count: int = 0
    nics: tuple[tuple[str, str | None], ...] = ()
    has_nvlink: bool = False
    pcie_only: bool = False
    nvlinks_min: int | None = None
    nvlinks_max: int | None = None
    nvlinks_equal: bool | None = None
    best: LinkKind | None = None
    worst: LinkKind | None = None
    pairs_nv: int = 0
    pairs_pix: int = 0
    pairs_pxb: int = 0
    pairs_phb: int = 0
    pairs_node: int = 0
    pairs_sys: int = 0
    numa_nodes: int | None = None
    spans_sockets: bool | None = None
    complete: bool = True


class P2pLink(Fact):
    """A cell of ``nvidia-smi topo -p2p``: may GPU a reach GPU b? mode: r, w, rw, n, a, p if the command shows.

    status: OK; CNS chipset, GNS GPU (driver says no, GeForce), TNS topology, NS not supported; DR disabled by
    a registry key; U unknown.
    """

    kind: ClassVar[str] = "p2p_link"
    a: int
    b: int
    status: str
    mode: str | None = None


class P2pMatrix(Fact):
    """Summary of a peer-to-peer matrix. statuses: those that occur between different GPUs, sorted."""

    kind: ClassVar[str] = "p2p_matrix"
    gpu_count: int
    mode: str | None = None
    all_ok: bool | None = None
    statuses: tuple[str, ...] = ()
    refused_pairs: int = 0


class NvlinkState(Fact):
    """NVLink of one GPU by ``nvidia-smi nvlink -s``.

    active: links with a rate; inactive: numbers of the inactive ones; rate_gb_s: the fastest rate of a link;
    slow: numbers of active links below it. expected: links of the model (V100 6, A100 12, H100, H200 and B200
    18), None if unknown. all_inactive: nvidia-smi said so. mig: it does not answer in MIG mode (no fault).
    unsupported: the card has no NVLink.
    peers_active_max: most active links of a GPU of the same name in this text, itself included.
    down: links that a peer, or the model's count where some are active, has and this GPU has not.
    """

    kind: ClassVar[str] = "nvlink"
    gpu_index: int
    name: str | None = None
    active: int | None = None
    inactive: tuple[int, ...] = ()
    rate_gb_s: float | None = None
    slow: tuple[int, ...] = ()
    expected: int | None = None
    all_inactive: bool = False
    mig: bool = False
    unsupported: bool = False
    peers_active_max: int | None = None
    down: int | None = None


class NvlinkErrors(Fact):
    """Error counters of one NVLink by ``nvidia-smi nvlink -e``; cumulative, so only growth is evidence."""

    kind: ClassVar[str] = "nvlink_errors"
    gpu_index: int
    link: int
    replay: int | None = None
    recovery: int | None = None
    crc: int | None = None
