"""What stands in front of a log line's text: time, level, process, place in the source.

    [2026-02-27 15:17:28 TP0] Load weight begin. avail mem=94.97 GB          SGLang
    (Worker_TP1 pid=201) INFO 06-04 15:17:48 [pynccl.py:113] vLLM is ...     vLLM
    0.00.065.564 I srv  llama_server: model loaded                           llama.cpp

Container wrappers are another matter: see `parsers.wrapper`.
"""

from collections.abc import Callable
from typing import NamedTuple

from diagnoser.facts.lazy import lazy
from diagnoser.parsers.stamp import MONTHS, UNKNOWN_YEAR, epoch, read_iso
from diagnoser.parsers.wrapper import is_partial, read_json, unwrap, unwrap_kind

__all__ = ["Prefix", "is_partial", "read_prefix", "unwrap", "unwrap_kind"]

MAX_PREFIX = 400
"""Characters of a line in which its prefix must end."""


class Prefix(NamedTuple):
    """A line taken apart.

    engine: the program, when the shape betrays it ("sglang", "nccl", "kernel", "torch").
    at: seconds since the epoch. Stamps without a zone are UTC, without a year take the caller's. Stamps that
    count from a start (llama.cpp, the kernel's uptime) are given as they are, so only differences mean
    something. rank: the process ("TP0", "DP1 TP4", "Worker_TP1", "rank0"). level: as printed, upper case.
    """

    engine: str | None
    at: float | None
    rank: str | None
    level: str | None
    file: str | None
    lineno: int | None
    message: str


_LEVELS = r"TRACE|DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL"

_SGLANG = lazy(
    r"\[(\d{4})-(\d\d)-(\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{3}))?"
    r"((?: (?:DP|PP|ATTN_CP|MOE_DP|TP|EP)\d{1,4}){0,6})\] ?"
    r"(?:(DEBUG|INFO|WARNING|ERROR|CRITICAL)(?::\s{1,9}| ([\w.]{1,80}\.py):(\d{1,6}): ))?"
)
_TRTLLM = lazy(
    r"\[(\d\d)/(\d\d)/(\d{4})-(\d\d:\d\d:\d\d)\] \[(?:TRT-LLM|TensorRT-LLM|TRT)\] ?"
    r"((?:\[[^\[\]]{1,40}\] ?){0,4})"
)
_TRTLLM_CPP = lazy(r"\[TensorRT-LLM\] ?(?:\[([A-Z]{3,8})\] ?)?")
_TRTLLM_TAG = lazy(r"\[(?:([FEWIVD])|((?:MPI_)?R(?:ank|ANK)[_ ]?\d{1,5})|[^\[\]]{1,40})\]")
_KERNEL = lazy(r"\[ {0,8}(\d{1,9}\.\d{3,6})\] ?")
_KERNEL_T = lazy(r"\[[A-Z][a-z]{2} ([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d:\d\d:\d\d) (\d{4})\] ?")
_KERNEL_X = lazy(r"[a-z]{3,8} {0,3}:[a-z]{3,7} {0,3}: ")
_TORCH = lazy(
    r"(?:\[(rank\d{1,5})\]:? ?)?"
    r"(?:\[?([IWEF])(\d\d)(\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,9}))? (?:\d{1,9} )?"
    r"([^\s:\]]{1,200}):(\d{1,6})\] ?"
    r"(?:\"(?=.{0,4000}\"$))?)?"
)
_VLLM = lazy(
    r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d)-(\d\d) (\d\d:\d\d:\d\d) \[?([\w./-]{1,200}):(\d{1,6})\] ?"
)
_UVICORN = lazy(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL):\s{1,9}(?=\S)")
_RAY_SERVE = lazy(r"([A-Z]{4,8}) (?=\d{4}-\d\d-\d\d )")
_PROCESS = lazy(
    r"\(([A-Za-z][\w:.\-]{0,80})(?: rank=(\d{1,5}))? pid=\d{1,9}(, ip=[\w.:\-]{1,64})?(?:, [^()]{0,120})?\) ?"
)
_LLAMACPP = lazy(r"(\d{1,6})\.(\d\d)\.(\d{3})\.(\d{3}) (?:([IWED]) )?")
_TRACING = lazy(rf" {{1,3}}({_LEVELS}) {{1,3}}(?:([\w:]{{1,120}}): )?")
_PYTHON = lazy(rf" - (?:([\w.\-]{{1,60}}) - )?({_LEVELS})(?: - (?:([\w./]{{1,120}}):(\d{{1,6}}) - )?|:? )")
_SYSLOG = lazy(
    r"([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d:\d\d:\d\d) ([\w.\-]{1,64}) ([^\s:\[]{1,64})(?:\[\d{1,9}\])?: ?"
)
_HOST_UNIT = lazy(r" ([\w.\-]{1,64}) ([^\s:\[]{1,64})(?:\[\d{1,9}\])?: ?")
_LOGFMT_LEVEL = lazy(r" level=([A-Za-z]{2,9})")
_LOGFMT_SOURCE = lazy(r" source=([\w./\-]{1,120}):(\d{1,6})")
_LOGFMT_MSG = lazy(r' msg=("(?:[^"\\]|\\.)*"?|\S{1,400})')
_NCCL = lazy(
    r"([\w.\-]{1,64}):\d{1,9}:\d{1,9} \[(\d{1,4})\] "
    r"(?:([^\s:]{1,120}):(\d{1,6}) )?NCCL (INFO|WARN|VERSION|TRACE|CALL|ABORT|ERROR) ?"
)
_MPIRUN = lazy(r"\d{1,4}: (?=\S)")

_FULL_LEVEL = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "FATAL", "D": "DEBUG", "V": "DEBUG"}
_VLLM_PROCESSES = (
    "APIServer",
    "ApiServer",
    "EngineCore",
    "Worker",
    "VllmWorker",
    "DPSupervisor",
    "MainProcess",
)
_LLAMACPP_STARTS = ("srv ", "slot ", "llama_", "ggml_", "load_tensors:", "llm_load_", "print_info:", "main: ")


def read_prefix(line: str, year: int | None = None) -> Prefix:
    """Take a line's prefix off. A line without a known prefix is all message; nothing is ever raised.

    ``year`` serves stamps that have none (vLLM, syslog, glog); without it they count from 1970.

    >>> read_prefix("[2026-02-27 15:17:28 TP0] Load weight begin.")[:4]
    ('sglang', 1772205448.0, 'TP0', None)
    >>> read_prefix("ERROR 02-27 15:17:28 [core.py:77] boom").message
    'boom'
    """
    reader = _READERS.get(line[:1])
    found = reader(line, UNKNOWN_YEAR if year is None else year) if reader else None
    if found is None:
        found = _read_nccl(line, 0)
    return found if found is not None else Prefix(None, None, None, None, None, None, line)


def _bracket(line: str, year: int) -> Prefix | None:
    """Prefixes that open with a square bracket."""
    match = _SGLANG.match(line)
    if match is not None:
        y, month, day, clock, fraction, tags, level, file, lineno = match.groups()
        at = epoch(int(y), int(month), int(day), clock, fraction)
        nccl = _read_nccl(line, match.end())
        if nccl is not None:
            return nccl._replace(at=at)
        rank = tags[1:] or None
        return Prefix("sglang", at, rank, level, file, _int(lineno), line[match.end() :])
    for reader in (_trtllm, _kernel, _torch):
        found = reader(line, year)
        if found is not None:
            return found
    return None


def _trtllm(line: str, _year: int) -> Prefix | None:
    match = _TRTLLM.match(line)
    if match is None:
        match = _TRTLLM_CPP.match(line)
        return match and Prefix("tensorrt-llm", None, None, match[1], None, None, line[match.end() :])
    month, day, y, clock, tags = match.groups()
    level = rank = None
    for letter, rank_tag in _TRTLLM_TAG.findall(tags):
        level = _FULL_LEVEL.get(letter, level)
        rank = rank_tag or rank
    at = epoch(int(y), int(month), int(day), clock)
    return Prefix("tensorrt-llm", at, rank, level, None, None, line[match.end() :])


def _kernel(line: str, _year: int) -> Prefix | None:
    match = _KERNEL.match(line)
    if match is not None:
        return Prefix("kernel", float(match[1]), None, None, None, None, line[match.end() :])
    match = _KERNEL_T.match(line)
    if match is None or match[1] not in MONTHS:
        return None
    at = epoch(int(match[4]), MONTHS[match[1]], int(match[2]), match[3])
    return Prefix("kernel", at, None, None, None, None, line[match.end() :])


def _torch(line: str, year: int) -> Prefix | None:
    """torch's C++ and Python logging, glog and Triton: a level letter, month, day and a microsecond clock."""
    match = _TORCH.match(line)
    if match is None or match.end() == 0:
        return None
    rank, letter, month, day, clock, fraction, file, lineno = match.groups()
    if letter is None:
        return Prefix("torch", None, rank, None, None, None, line[match.end() :])
    at = epoch(year, int(month), int(day), clock, fraction)
    quoted = line[match.end() - 1] == '"'
    engine = "triton" if file.endswith((".cc", ".h")) and not rank and line[0] != "[" else "torch"
    message = line[match.end() : -1] if quoted else line[match.end() :]
    return Prefix(engine, at, rank, _FULL_LEVEL[letter], file, _int(lineno), message)


def _glog(line: str, year: int) -> Prefix | None:
    if line[1:5].isdigit():
        return _torch(line, year)
    return _letter(line, year)


def _letter(line: str, year: int) -> Prefix | None:
    """Prefixes that open with a level's name or a month's."""
    match = _VLLM.match(line)
    if match is not None:
        level, month, day, clock, file, lineno = match.groups()
        at = epoch(year, int(month), int(day), clock)
        return Prefix("vllm", at, None, level, file, int(lineno), line[match.end() :])
    match = _UVICORN.match(line)
    if match is not None:
        return Prefix(None, None, None, match[1], None, None, line[match.end() :])
    match = _RAY_SERVE.match(line)
    if match is not None:
        at, end = read_iso(line, match.end()) or (None, match.end())
        place = line.find(" -- ", end, MAX_PREFIX)
        return Prefix(None, at, None, match[1], None, None, line[end + 1 if place < 0 else place + 4 :])
    match = _SYSLOG.match(line)
    if match is not None and match[1] in MONTHS:
        at = epoch(year, MONTHS[match[1]], int(match[2]), match[3])
        return _unit(line, match.end(), at, match[5])
    return None


def _unit(line: str, end: int, at: float | None, unit: str) -> Prefix:
    """A syslog line behind its ``host unit[pid]:``; the kernel's own uptime stamp goes too."""
    if unit != "kernel":
        return Prefix(None, at, None, None, None, None, line[end:])
    uptime = _KERNEL.match(line, end)
    return Prefix("kernel", at, None, None, None, None, line[uptime.end() if uptime else end :])


def _paren(line: str, year: int) -> Prefix | None:
    """``(Name pid=N) ``: vLLM's processes, and Ray's actors in front of anything."""
    match = _PROCESS.match(line)
    if match is None:
        return None
    name, number, ip = match.groups()
    rest = line[match.end() :]
    inner = read_prefix(rest, year) if not rest.startswith("(") else _paren(rest, year)
    if inner is None:
        inner = Prefix(None, None, None, None, None, None, rest)
    ours = ip is None and name.startswith(_VLLM_PROCESSES)
    rank = name if number is None else f"{name} rank={number}"
    return inner._replace(
        engine=inner.engine or ("vllm" if ours else None),
        rank=inner.rank or (rank if ours or inner.engine == "vllm" else None),
    )


def _digit(line: str, year: int) -> Prefix | None:
    """llama.cpp's running clock, ISO stamps of tracing, logging and syslog, mpirun's rank."""
    match = _LLAMACPP.match(line)
    if match is not None:
        minutes, seconds, milli, micro, letter = match.groups()
        at = int(minutes) * 60 + int(seconds) + int(milli + micro) / 1e6
        level = _FULL_LEVEL[letter] if letter else None
        return Prefix("llama.cpp", at, None, level, None, None, line[match.end() :])
    stamp = read_iso(line)
    if stamp is not None:
        return _after_iso(line, *stamp)
    match = _MPIRUN.match(line)
    if match is not None and line[match.end()] in "[0123456789":
        inner = read_prefix(line[match.end() :], year)
        return inner._replace(rank=inner.rank or f"rank{match[0][:-2]}") if inner.engine else None
    return None


def _after_iso(line: str, at: float | None, end: int) -> Prefix | None:
    match = _TRACING.match(line, end)
    if match is not None:
        target = match[2] or ""
        engine = "tgi" if target.startswith("text_generation") else None
        engine = "dynamo" if target.startswith(("dynamo", "dynamo_")) else engine
        return Prefix(engine, at, None, match[1], target or None, None, line[match.end() :])
    match = _PYTHON.match(line, end)
    if match is not None:
        name, level, file, lineno = match.groups()
        engine = "lmdeploy" if name == "lmdeploy" else None
        return Prefix(engine, at, None, level, file, _int(lineno), line[match.end() :])
    match = _HOST_UNIT.match(line, end)
    if match is not None:
        return _unit(line, match.end(), at, match[2])
    nccl = _read_nccl(line, end + 1)
    return nccl._replace(at=at) if nccl else Prefix(None, at, None, None, None, None, line[end:].lstrip())


def _logfmt(line: str, _year: int) -> Prefix | None:
    """Ollama: ``time=... level=INFO source=routes.go:1357 msg="..." key=value``; the keys stay in the message."""
    if not line.startswith("time="):
        return None
    stamp = read_iso(line, 6 if line[5:6] == '"' else 5)
    level = _LOGFMT_LEVEL.search(line, 0, MAX_PREFIX)
    if stamp is None or level is None:
        return None
    source = _LOGFMT_SOURCE.search(line, 0, MAX_PREFIX)
    text = _LOGFMT_MSG.search(line, 0, MAX_PREFIX)
    message = ""
    if text is not None:
        message = line[text.start(1) :]
        if message[:1] == '"':
            message = message[1:].replace('"', "", 1)
    return Prefix(
        "ollama",
        stamp[0],
        None,
        level[1].upper(),
        source[1] if source else None,
        _int(source[2]) if source else None,
        message,
    )


def _plain(line: str, _year: int) -> Prefix | None:
    """Lines of llama.cpp without clock, and dmesg's ``kern  :err   : ``."""
    match = _KERNEL_X.match(line)
    if match is not None:
        inner = _kernel(line[match.end() :], 0)
        if inner is not None:
            return inner._replace(level=match[0].split(":")[1].strip().upper())
    if line.startswith(_LLAMACPP_STARTS):
        return Prefix("llama.cpp", None, None, None, None, None, line)
    return None


def _json(line: str, year: int) -> Prefix | None:
    """One JSON object a line: TGI, Dynamo, vLLM's and llama.cpp's JSON modes."""
    record = read_json(line)
    if record is None:
        return None
    fields = record.get("fields")
    text = record.get("message") or record.get("msg")
    if text is None and isinstance(fields, dict):
        text = fields.get("message")
    level = record.get("level") or record.get("levelname")
    if not isinstance(text, str) or not isinstance(level, str):
        return None
    stamp = next((record[key] for key in ("timestamp", "asctime", "time", "ts") if key in record), None)
    at = (read_iso(stamp) or (None, 0))[0] if isinstance(stamp, str) else None
    target = str(record.get("target", ""))
    engine = "tgi" if target.startswith("text_generation") else None
    engine = "dynamo" if target.startswith("dynamo") else engine
    process = record.get("processName")
    rank = process if isinstance(process, str) else None
    return Prefix(engine or ("vllm" if rank else None), at, rank, level.upper(), target or None, None, text)


def _read_nccl(line: str, start: int) -> Prefix | None:
    if line.find("NCCL ", start, MAX_PREFIX) < 0:
        return None
    match = _NCCL.match(line, start)
    if match is None:
        return None
    _host, device, file, lineno, level = match.groups()
    return Prefix("nccl", None, f"rank{device}", level, file, _int(lineno), line[match.end() :])


def _int(digits: str | None) -> int | None:
    return int(digits) if digits else None


_READERS: dict[str, Callable[[str, int], Prefix | None]] = {
    **dict.fromkeys("0123456789", _digit),
    **dict.fromkeys("IWEF", _glog),
    **dict.fromkeys("ACDJMNOST", _letter),
    **dict.fromkeys("abcdefghijklmnopqrsuvwxyz", _plain),
    "[": _bracket,
    "(": _paren,
    "t": _logfmt,
    "{": _json,
}
