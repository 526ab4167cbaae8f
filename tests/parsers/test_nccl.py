"""NCCL and torch.distributed beyond the composed samples."""

from pathlib import Path
from typing import Any

import pytest

from diagnoser.facts.base import Fact
from diagnoser.facts.engine import EnvVar
from diagnoser.facts.nccl import (
    NcclChannels,
    NcclComm,
    NcclError,
    NcclGdr,
    NcclIb,
    NcclNetwork,
    NcclP2pCheck,
    NcclPath,
    NcclProgress,
    NcclTransport,
    NcclVersion,
    NcclVersionMismatch,
    NcclWarning,
    NcclWatchdog,
)
from diagnoser.parsers import nccl

HEAD = "gpu-box:101:190 [0] NCCL INFO "


def facts(read: Any, text: str) -> list[Fact]:
    return [found.fact for found in read(nccl.PARSERS, text)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM/read",
            NcclTransport(src=1, dst=0, via="P2P/CUMEM", same_node=True),
        ),
        (
            "Channel 00 : 0[0] -> 1[1] via P2P/direct pointer",
            NcclTransport(src=0, dst=1, via="P2P/direct", same_node=True),
        ),
        (
            "Ring 00 : 2[3d000] -> 3[3e000] via direct shared memory",
            NcclTransport(src=2, dst=3, via="SHM", same_node=True),
        ),
        (
            "Ring 00 : 7[b1000] -> 8[3d000] [send] via NET/Socket/0",
            NcclTransport(src=7, dst=8, via="NET/Socket", direction="send", gdr=False),
        ),
        (
            "Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0",
            NcclTransport(src=0, dst=1, via="NET/Socket", direction="send", gdr=False, same_node=True),
        ),
        (
            "Channel 02/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/2/GDRDMA(PCI)/Shared",
            NcclTransport(src=0, dst=8, via="NET/AWS Libfabric", direction="send", gdr=True, same_node=False),
        ),
    ],
)
def test_transports(words: str, expected: NcclTransport, read: Any) -> None:
    path = NcclPath(via=expected.via, gdr=expected.gdr, same_node=expected.same_node)
    assert facts(read, HEAD + words) == [expected, path]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (HEAD + "NCCL_P2P_LEVEL set by environment to SYS", EnvVar(name="NCCL_P2P_LEVEL", value="SYS")),
        (HEAD + "NCCL_IB_DISABLE set by environment to 1.", EnvVar(name="NCCL_IB_DISABLE", value="1")),
        (HEAD + "Using network AWS Libfabric", NcclNetwork(name="AWS Libfabric")),
        (
            "[2026-02-27 15:17:28 TP0] sglang is using nccl==2.27.5",
            NcclVersion(version="2.27.5"),
        ),
        (
            HEAD + "GPU Direct RDMA Enabled for HCA 3 'mlx5_3'",
            NcclGdr(device="mlx5_3", enabled=True),
        ),
        (
            "a:1:2 [0] include/shm.h:48 NCCL WARN Call to posix_fallocate failed : No space left on device",
            NcclWarning(
                topic="shared_memory",
                text="Call to posix_fallocate failed : No space left on device",
                errno=28,
            ),
        ),
        (
            "a:1:2 [1] misc/ibvwrap.cc:284 NCCL WARN Call to ibv_create_qp failed with error "
            "Cannot allocate memory errno 12",
            NcclWarning(
                topic="network",
                text="Call to ibv_create_qp failed with error Cannot allocate memory errno 12",
                errno=12,
            ),
        ),
        (
            "a:1:2 [0] init.cc:9 (ncclInit) NCCL WARN Cuda failure 'invalid argument'",
            NcclWarning(topic="cuda", text="Cuda failure 'invalid argument'", cuda_error="invalid argument"),
        ),
        (
            "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
            NcclError(text="unhandled cuda error"),
        ),
        (
            "[rank7]:[E626 06:24:44.159932949 ProcessGroupNCCL.cpp:616] [Rank 7] Watchdog caught collective "
            "operation timeout: WorkNCCL(OpType=BROADCAST, Timeout(ms)=1800000) ran for 1800017 milliseconds "
            "before timing out.",
            NcclWatchdog(op="BROADCAST", rank=7, timeout_ms=1800000, ran_ms=1800017),
        ),
        (
            "[rank4]:[E703 19:54:01.1 ProcessGroupNCCL.cpp:1987] [PG ID 0 PG GUID 0(default_pg) Rank 4] "
            "Received a dump signal due to a collective timeout from  rank 7 and we will try our best to dump "
            "the debug info. Last enqueued NCCL work: 56116, last completed NCCL work: 56116.",
            NcclProgress(rank=4, last_enqueued=56116, last_completed=56116, idle=True),
        ),
    ],
)
def test_wordings(line: str, expected: Fact, read: Any) -> None:
    assert facts(read, line) == [expected]


def test_mismatched_versions(read: Any) -> None:
    words = "Mismatched NCCL version detected : rank 1 version 22705 rank 0 version 22703"
    assert facts(read, "a:1:2 [0] init.cc:1 NCCL WARN " + words) == [
        NcclWarning(topic="other", text=words),
        NcclVersionMismatch(rank=1, version=22705, other_rank=0, other_version=22703),
    ]


def test_the_reason_behind_a_wrapper_is_kept(fixtures: Path, read: Any) -> None:
    text = (fixtures / "gpu_host/m05_nccl_cuda_failure.log").read_text(encoding="utf-8")
    (error,) = [fact for fact in facts(read, text) if isinstance(fact, NcclError)]
    assert error.last_error == "Cuda failure 2 'out of memory'"
    assert error.version == "2.27.7"


def test_the_same_warning_with_another_random_name_is_the_same_fact(read: Any) -> None:
    lines = [
        f"a:1:2 [0] include/shm.h:48 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-{name} "
        "(size 7340384)"
        for name in ("vG5kQ1", "Zz0aB2")
    ]
    assert len(set(facts(read, "\n".join(lines)))) == 1


def test_a_real_start_on_one_gpu(fixtures: Path, read: Any) -> None:
    found = facts(read, (fixtures / "captures/h200/host/nccl_info.txt").read_text(encoding="utf-8"))
    assert found == [
        NcclVersion(version="2.28.9", cuda="13.0"),
        NcclIb(count=0),
        NcclNetwork(name="Socket"),
        NcclComm(ranks=1, nodes=1, local_ranks=1),
        NcclP2pCheck(all_direct=True, all_cuda=True),
        NcclChannels(coll=64, collnet=64, nvls=0, p2p=64, p2p_per_peer=64),
    ]
