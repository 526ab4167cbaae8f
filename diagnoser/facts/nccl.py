"""What NCCL and torch.distributed say: which way data goes between GPUs, and what failed."""

from typing import ClassVar, Literal

from diagnoser.facts.base import Fact


class NcclVersion(Fact):
    """The NCCL in use ("2.27.7") and the CUDA it was built for ("13.0", None where it is not printed)."""

    kind: ClassVar[str] = "nccl_version"
    version: str
    cuda: str | None = None


class NcclNetwork(Fact):
    """The network plugin NCCL took: "Socket", "IB", "AWS Libfabric". Socket is normal on one node."""

    kind: ClassVar[str] = "nccl_network"
    name: str


class NcclIb(Fact):
    """The InfiniBand or RoCE devices NCCL found ("mlx5_0"), joined with commas; count 0: none."""

    kind: ClassVar[str] = "nccl_ib"
    count: int
    devices: str = ""


class NcclTransport(Fact):
    """How one rank reaches another.

    via: "SHM", "P2P/CUMEM", "P2P/IPC", "P2P/direct", "P2P/indirect", "NET/IB", "NET/Socket", ... without
    device numbers and flags. direction: of network connections, as seen by the rank that printed the line.
    gdr: the network card reads GPU memory itself (None for SHM and P2P). same_node: False or True where the
    line tells; the device numbers of one node follow the rank numbers.
    """

    kind: ClassVar[str] = "nccl_transport"
    src: int
    dst: int
    via: str
    direction: Literal["send", "receive"] | None = None
    gdr: bool | None = None
    same_node: bool | None = None


class NcclPath(Fact):
    """A way that some pair of ranks uses; sightings count the channels. Fields as in `NcclTransport`."""

    kind: ClassVar[str] = "nccl_path"
    kept: ClassVar[int] = 8
    via: str
    gdr: bool | None = None
    same_node: bool | None = None

    @property
    def family(self) -> str:
        return f"nccl_path:{self.via}"


class NcclChannels(Fact):
    """How many channels a communicator has. Compare between a fast and a slow log before versions."""

    kind: ClassVar[str] = "nccl_channels"
    coll: int
    collnet: int | None = None
    nvls: int | None = None
    p2p: int | None = None
    p2p_per_peer: int | None = None


class NcclComm(Fact):
    """The shape of a communicator: ranks in all, nodes, ranks on this node."""

    kind: ClassVar[str] = "nccl_comm"
    ranks: int
    nodes: int
    local_ranks: int


class NcclP2pCheck(Fact):
    """All ranks of a node can use peer-to-peer: direct (inside one process) and over CUDA at all."""

    kind: ClassVar[str] = "nccl_p2p_check"
    all_direct: bool
    all_cuda: bool | None = None


class NcclP2pDenied(Fact):
    """CUDA refused peer-to-peer between two devices of one node."""

    kind: ClassVar[str] = "nccl_p2p_denied"
    src: int
    dst: int


class NcclGdr(Fact):
    """GPU Direct RDMA was enabled or disabled for a network card (or for a GPU, in old releases)."""

    kind: ClassVar[str] = "nccl_gdr"
    device: str
    enabled: bool


class NcclWarning(Fact):
    """A WARN line.

    topic: shared_memory, cuda, network or other. errno: the operating system's number at the end.
    shm_bytes: the size that was asked of /dev/shm. cuda_code and cuda_error: of a CUDA failure.
    """

    kind: ClassVar[str] = "nccl_warning"
    topic: Literal["shared_memory", "cuda", "network", "other"]
    text: str
    errno: int | None = None
    shm_bytes: int | None = None
    cuda_code: int | None = None
    cuda_error: str | None = None


class NcclError(Fact):
    """torch.distributed's exception about NCCL. A wrapper: last_error or the first WARN has the reason."""

    kind: ClassVar[str] = "nccl_error"
    text: str
    version: str | None = None
    last_error: str | None = None


class NcclVersionMismatch(Fact):
    """Ranks of one communicator run different NCCL releases (numbers as printed, 22703 is 2.27.3)."""

    kind: ClassVar[str] = "nccl_version_mismatch"
    rank: int
    version: int
    other_rank: int
    other_version: int


class NcclWatchdog(Fact):
    """A collective did not end in time: a symptom. Compare seq and op across ranks.

    seq is None where old torch releases do not print it.
    """

    kind: ClassVar[str] = "nccl_watchdog"
    op: str
    seq: int | None = None
    rank: int | None = None
    timeout_ms: int | None = None
    ran_ms: int | None = None


class NcclProgress(Fact):
    """How far a rank came when the watchdog spoke: numbers of collectives. at_work: the one that hangs.

    idle: everything enqueued was completed, so this rank never entered the collective that others wait in.
    """

    kind: ClassVar[str] = "nccl_progress"
    rank: int | None = None
    at_work: int | None = None
    last_enqueued: int
    last_completed: int
    idle: bool
