"""NCCL's log (NCCL_DEBUG=INFO or WARN) and torch.distributed's words about it.

    gpu-box:101:190 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct
    -> NcclTransport(src=0, dst=1, via="SHM", same_node=True), NcclPath(via="SHM", same_node=True)

Wordings: NVIDIA/nccl 2.4 to 2.28 (src/transport, src/init.cc, src/debug.cc), torch 2.0 to 2.9
(ProcessGroupNCCL.cpp, NCCLUtils.cpp).
"""

import re
from collections.abc import Iterator
from typing import Literal

from diagnoser.facts.base import Found
from diagnoser.facts.engine import EnvVar
from diagnoser.facts.lazy import lazy
from diagnoser.facts.nccl import (
    NcclChannels,
    NcclComm,
    NcclError,
    NcclGdr,
    NcclIb,
    NcclNetwork,
    NcclP2pCheck,
    NcclP2pDenied,
    NcclPath,
    NcclProgress,
    NcclTransport,
    NcclVersion,
    NcclVersionMismatch,
    NcclWarning,
    NcclWatchdog,
)
from diagnoser.parsers.bare import bare
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.by_literal import by_literal, text

_WAY = lazy(
    r"(?:Channel|Ring) \d{1,4}(?:/\d{1,4})? : (?P<src>\d{1,6})(?:\[(?P<src_dev>[0-9a-f]{1,10})\])? -> "
    r"(?P<dst>\d{1,6})(?:\[(?P<dst_dev>[0-9a-f]{1,10})\])? "
    r"(?:\[(?P<direction>send|receive)\] )?via (?P<via>\S.{0,80})"
)
_NETWORK_NAME = lazy(r"NET/[^/]{1,40}")
_DEVICE_INDEX = lazy(r"\d{1,3}$")


def _via(words: str) -> str:
    """The transport without device numbers and flags.

    >>> [_via(words) for words in ("SHM/direct/direct", "P2P/CUMEM/read", "NET/IB/0/GDRDMA")]
    ['SHM', 'P2P/CUMEM', 'NET/IB']
    """
    if words.startswith(("SHM", "direct shared memory")):
        return "SHM"
    if named := _NETWORK_NAME.match(words):
        return named[0]
    return "/".join(words.split(maxsplit=1)[0].split("/")[:2])


def _same_node(via: str, way: re.Match[str]) -> bool | None:
    if via == "SHM" or (via.startswith("P2P/") and "MNNVL" not in via):
        return True
    devices = way["src_dev"], way["dst_dev"]
    # Old releases print the bus address in the brackets, which says nothing about the node.
    if not all(device and _DEVICE_INDEX.match(device) for device in devices):
        return None
    src, dst = int(devices[0]), int(devices[1])
    if src == dst:
        return False
    return True if int(way["src"]) - src == int(way["dst"]) - dst else None


def _ways(lines: Lines, i: int) -> Iterator[Found]:
    way = _WAY.search(text(lines, i))
    if way is None:
        return
    via = _via(way["via"])
    gdr = "/GDRDMA" in way["via"] if via.startswith("NET/") else None
    same_node = _same_node(via, way)
    direction: Literal["send", "receive"] | None = None
    if way["direction"]:
        direction = "send" if way["direction"] == "send" else "receive"
    transport = NcclTransport(
        src=int(way["src"]),
        dst=int(way["dst"]),
        via=via,
        direction=direction,
        gdr=gdr,
        same_node=same_node,
    )
    yield Found(transport, i, i)
    yield Found(NcclPath(via=via, gdr=gdr, same_node=same_node), i, i)


_VERSION = lazy(r"NCCL version (\d{1,3}\.[\d.]{1,12}\d)(?:\+cuda(\d{1,3}\.\d{1,3}))?")
_ENGINE_VERSION = lazy(r"is using nccl==(\d{1,3}\.[\d.]{1,12}\d)")
_CHANNELS = lazy(
    r"(\d{1,5}) coll channels, (?:(\d{1,5}) collnet channels, )?(?:(\d{1,5}) nvls channels, )?"
    r"(\d{1,5}) p2p channels(?:, (\d{1,5}) p2p channels per peer)?"
)
_COMM = lazy(r"nRanks (\d{1,7}) nNodes (\d{1,6}) localRanks (\d{1,4})")
_CHECK = lazy(r"isAllDirectP2p ([01])(?: directMode \d)?(?: isAllCudaP2p ([01]))?")
_DENIED = lazy(r"Could not enable P2P between dev (\d{1,4})\([^)]{0,24}\) and dev (\d{1,4})\(")
_GDR = lazy(r"GPU Direct RDMA (Enabled|Disabled) for (?:HCA \d{1,3} '([^']{1,64})'|GPU (\w{1,16}))")
_IB_DEVICE = lazy(r"\[\d{1,3}\]([\w.-]{1,64}):\d{1,3}/")
_ENV = lazy(r"(NCCL_\w{1,64}) set by environment to (.{0,200})")
_MISMATCH = lazy(
    r"Mismatched NCCL version detected : rank (\d{1,7}) version (\d{1,7}) rank (\d{1,7}) version (\d{1,7})"
)


def _version(lines: Lines, i: int) -> NcclVersion | None:
    line = text(lines, i)
    if found := _VERSION.search(line):
        return NcclVersion(version=found[1], cuda=found[2])
    found = _ENGINE_VERSION.search(line)
    return NcclVersion(version=found[1]) if found else None


def _network(lines: Lines, i: int) -> NcclNetwork | None:
    name = text(lines, i).partition("Using network ")[2].strip()
    return NcclNetwork(name=name) if 0 < len(name) <= 64 else None


def _ib(lines: Lines, i: int) -> NcclIb | None:
    line = text(lines, i)
    if "NET/IB : No device found" in line:
        return NcclIb(count=0)
    found = _IB_DEVICE.findall(line.partition("NET/IB : Using ")[2])
    return NcclIb(count=len(found), devices=",".join(found)) if found else None


def _channels(lines: Lines, i: int) -> NcclChannels | None:
    found = _CHANNELS.search(text(lines, i))
    if found is None:
        return None
    coll, collnet, nvls, p2p, per_peer = (int(count) if count else None for count in found.groups())
    return NcclChannels(coll=coll or 0, collnet=collnet, nvls=nvls, p2p=p2p, p2p_per_peer=per_peer)


def _comm(lines: Lines, i: int) -> NcclComm | None:
    found = _COMM.search(text(lines, i))
    if found is None:
        return None
    return NcclComm(ranks=int(found[1]), nodes=int(found[2]), local_ranks=int(found[3]))


def _check(lines: Lines, i: int) -> NcclP2pCheck | None:
    found = _CHECK.search(text(lines, i))
    if found is None:
        return None
    return NcclP2pCheck(all_direct=found[1] == "1", all_cuda=found[2] == "1" if found[2] else None)


def _denied(lines: Lines, i: int) -> NcclP2pDenied | None:
    found = _DENIED.search(text(lines, i))
    return NcclP2pDenied(src=int(found[1]), dst=int(found[2])) if found else None


def _gdr(lines: Lines, i: int) -> NcclGdr | None:
    found = _GDR.search(text(lines, i))
    return NcclGdr(device=found[2] or found[3], enabled=found[1] == "Enabled") if found else None


def _env(lines: Lines, i: int) -> EnvVar | None:
    found = _ENV.search(text(lines, i))
    return EnvVar(name=found[1], value=found[2].strip().removesuffix(".")) if found else None


_WARN = lazy(r"NCCL WARN (.{1,600})")
_ERRNO = lazy(r"\((\d{1,3})\)\s{0,4}$|errno (\d{1,3})\b")
_SHM_BYTES = lazy(r"(?:to (\d{1,15}) bytes|\(size (\d{1,15})\b)")
_CUDA = lazy(r"Cuda failure (\d{1,4} )?'([^']{1,200})'")
_SHM_NAME = lazy(r"/nccl-\w{1,32}")

Topic = Literal["shared_memory", "cuda", "network", "other"]
_TOPICS: tuple[tuple[Topic, tuple[str, ...]], ...] = (
    ("shared_memory", ("/dev/shm", "shared memory", "posix_fallocate")),
    ("cuda", ("Cuda failure", "CUDA")),
    ("network", ("NET/", "ibv_", "socket", "Socket", "onnect")),
)


def _warning(lines: Lines, i: int) -> NcclWarning | None:
    found = _WARN.search(text(lines, i))
    if found is None:
        return None
    words = found[1].strip()
    topic = next((topic for topic, marks in _TOPICS if any(mark in words for mark in marks)), "other")
    errno = _ERRNO.search(words) if topic != "cuda" else None
    size = _SHM_BYTES.search(words) if topic == "shared_memory" else None
    cuda = _CUDA.search(words)
    number = int(errno[1] or errno[2]) if errno else None
    if number is None and "No space left on device" in words:
        number = 28
    return NcclWarning(
        topic=topic,
        # The segment's name is random; without it the same statement is the same fact.
        text=_SHM_NAME.sub("/nccl-*", words),
        errno=number,
        shm_bytes=int(size[1] or size[2]) if size else None,
        cuda_code=int(cuda[1]) if cuda and cuda[1] else None,
        cuda_error=cuda[2] if cuda else None,
    )


def _mismatch(lines: Lines, i: int) -> NcclVersionMismatch | None:
    found = _MISMATCH.search(text(lines, i))
    if found is None:
        return None
    rank, version, other_rank, other_version = map(int, found.groups())
    return NcclVersionMismatch(rank=rank, version=version, other_rank=other_rank, other_version=other_version)


_ERROR = lazy(
    r"NCCL error(?: in: [^,]{1,300},|:) ?(?P<text>[^,(]{1,120}?)"
    r"(?: \(run with [^)]{1,80}\))?(?:, NCCL version (?P<version>[\d.]{1,16}))?\s{0,4}$"
)


def _error(lines: Lines, i: int) -> Found | None:
    found = _ERROR.search(text(lines, i))
    if found is None:
        return None
    reason, last = None, i
    for j in range(i + 1, min(i + 8, len(lines))):
        words = bare(text(lines, j)).text
        if words.startswith("Last error:"):
            inline = words.removeprefix("Last error:").strip()
            following = bare(text(lines, j + 1)).text.strip()
            reason, last = (inline, j) if inline else (following or None, j + 1)
            break
    fact = NcclError(
        text=found["text"].strip(), version=found["version"], last_error=reason[:300] if reason else None
    )
    return Found(fact, i, min(last, len(lines) - 1))


_TIMEOUT = lazy(
    r"caught collective operation timeout: WorkNCCL\((?P<work>[^()]{0,200}\(?[^()]{0,40}\)?[^()]{0,100})\) "
    r"ran for (?P<ran>\d{1,12}) milliseconds"
)
_RANK = lazy(r"\bRank (\d{1,7})\]")
_PROGRESS = lazy(
    r"(?:(?:at work|NCCL work): (?P<work>\d{1,15}), )?[Ll]ast enqueued NCCL work: (?P<enqueued>-?\d{1,15}), "
    r"last completed NCCL work: (?P<completed>-?\d{1,15})"
)


def _rank(line: str) -> int | None:
    found = _RANK.search(line)
    return int(found[1]) if found else None


def _watchdog(lines: Lines, i: int) -> NcclWatchdog | None:
    line = text(lines, i)
    found = _TIMEOUT.search(line)
    if found is None:
        return None
    work = dict(part.strip().split("=", 1) for part in found["work"].split(",") if "=" in part)
    seq, limit = work.get("SeqNum", ""), work.get("Timeout(ms)", "")
    return NcclWatchdog(
        op=work.get("OpType", "unknown"),
        seq=int(seq) if seq.isdecimal() else None,
        rank=_rank(line),
        timeout_ms=int(limit) if limit.isdecimal() else None,
        ran_ms=int(found["ran"]),
    )


def _progress(lines: Lines, i: int) -> NcclProgress | None:
    line = text(lines, i)
    found = _PROGRESS.search(line)
    if found is None:
        return None
    enqueued, completed = int(found["enqueued"]), int(found["completed"])
    return NcclProgress(
        rank=_rank(line),
        at_work=int(found["work"]) if found["work"] else None,
        last_enqueued=enqueued,
        last_completed=completed,
        idle=enqueued == completed,
    )


PARSERS = (
    Parser(name="nccl_transport", literals=("] via ", " via NET/", " via direct shared"), parse=_ways),
    by_literal(
        "nccl",
        (
            ("NCCL version ", _version),
            ("is using nccl==", _version),
            ("Using network ", _network),
            ("NET/IB : ", _ib),
            (" coll channels, ", _channels),
            (" nNodes ", _comm),
            ("isAllDirectP2p ", _check),
            ("Could not enable P2P between dev", _denied),
            ("GPU Direct RDMA ", _gdr),
            (" set by environment to ", _env),
            ("NCCL WARN ", _warning),
            ("Mismatched NCCL version detected", _mismatch),
            ("NCCL error in: ", _error),
            ("NCCL error: ", _error),
            ("caught collective operation timeout", _watchdog),
            ("last completed NCCL work: ", _progress),
        ),
    ),
)
