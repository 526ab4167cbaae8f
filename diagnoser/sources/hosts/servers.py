"""Which inference servers run on a machine: read from /proc, where their logs and ports are found too."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_ENGINES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "sglang",
        re.compile(r"sglang[./]launch_server|(?:^|[ /])sglang serve|^sglang::|sglang_router"),
    ),
    ("vllm", re.compile(r"(?:^|[ /])vllm serve|vllm[./]entrypoints|^VLLM::|(?:^|/)vllm ")),
    ("llama.cpp", re.compile(r"(?:^|/)llama-server(?: |$)")),
    ("tgi", re.compile(r"text-generation-(?:launcher|router|server)")),
    ("tensorrt-llm", re.compile(r"trtllm-serve|tensorrt_llm[./]")),
    ("ollama", re.compile(r"(?:^|/)ollama (?:serve|runner)")),
    ("triton", re.compile(r"(?:^|/)tritonserver(?: |$)")),
    ("dynamo", re.compile(r"-m dynamo[. ]|(?:^|/)dynamo (?:run|serve)")),
    ("lmdeploy", re.compile(r"lmdeploy serve")),
)
_NO_SERVER = re.compile(r"(?:.*/)?(?:(?:ba|da|z|k|c|fi)?sh|grep|tail|less|vim?|nano|ssh|sudo|timeout)")
_CONTAINER = re.compile(
    r"(?:docker[-/]|libpod-|cri-containerd-|crio-|/)([0-9a-f]{64})(?:\.scope)?(?:/|$)", re.M
)
_UNIT = re.compile(r"/system\.slice/(?:[^\n]*/)?([\w@.:\\-]+\.service)(?:/|$)", re.M)
_SOCKET = re.compile(r"socket:\[(\d+)\]")
_LOG_FILE = re.compile(r"(/.*?)(?: \(deleted\))?$")
MAX_SERVERS = 32


class Server(NamedTuple):
    """One running server: its first process and what belongs to it.

    command: its words. environment: variables that matter, as set. ports: where it listens. log: the file its output
    goes to; log_deleted: that file has no name any more. container, unit: where it runs, for logs that are no files.
    workers: further processes of the same server.
    """

    engine: str
    pid: int
    command: tuple[str, ...]
    cwd: str
    executable: str
    environment: tuple[str, ...]
    ports: tuple[int, ...]
    log: str | None
    log_deleted: bool
    container: str | None
    unit: str | None
    workers: int

    @property
    def model_path(self) -> str | None:
        """The model as it was named to the server."""
        words = self.command
        for at, word in enumerate(words):
            name, _, value = word.partition("=")
            if name in ("--model-path", "--model", "-m", "--model-id") and (value or at + 1 < len(words)):
                found = value or words[at + 1]
                if name != "-m" or self.engine == "llama.cpp":
                    return found
        if self.engine == "vllm" and "serve" in words:
            after = words[words.index("serve") + 1 :]
            return after[0] if after and not after[0].startswith("-") else None
        return None


class _Process(NamedTuple):
    pid: int
    words: tuple[str, ...]
    parent: int
    fields: list[str]


def read_servers(output: bytes) -> list[Server]:
    """The servers in the output of the command "servers", in the order of their process numbers."""
    processes = {process.pid: process for process in _processes(output.decode("utf-8", "replace"))}
    engines = {pid: engine for pid, process in processes.items() if (engine := _engine(process.words))}
    found = []
    for pid, engine in sorted(engines.items()):
        if _ancestor(pid, processes, engines) is not None:
            continue
        workers = sorted(other for other in engines if _ancestor(other, processes, engines) == pid)
        found.append(_server(engine, [processes[member] for member in (pid, *workers)]))
    return found[:MAX_SERVERS]


def _processes(text: str) -> Iterator[_Process]:
    for record in text.split("\x1e")[1:]:
        fields = record.split("\x1d")
        if len(fields) < 10 or not fields[0].strip().isdigit():
            continue
        words = tuple(word for word in fields[1].split("\x1f") if word.strip())
        parent = fields[2].strip()
        yield _Process(int(fields[0]), words, int(parent) if parent.isdigit() else 0, fields)


def _engine(words: tuple[str, ...]) -> str | None:
    """The engine of a command line; a shell or an editor that only names one is none."""
    if not words or _NO_SERVER.fullmatch(words[0]):
        return None
    line = " ".join(words)
    return next((name for name, pattern in _ENGINES if pattern.search(line)), None)


def _ancestor(pid: int, processes: dict[int, _Process], engines: dict[int, str]) -> int | None:
    """The topmost process of the same engine above this one; None for the topmost itself."""
    top, at, steps = None, processes[pid].parent, 0
    while at in processes and steps < 64:
        if engines.get(at) == engines[pid]:
            top = at
        at, steps = processes[at].parent, steps + 1
    return top


def _server(engine: str, family: list[_Process]) -> Server:
    first = family[0]
    cwd, executable, cgroup, outputs = first.fields[3:7]
    log, deleted = _log(outputs)
    container = _CONTAINER.search(cgroup)
    unit = _UNIT.search(cgroup)
    return Server(
        engine,
        first.pid,
        first.words,
        cwd.strip(),
        executable.strip(),
        tuple(line for line in first.fields[9].splitlines() if "=" in line),
        tuple(sorted({port for one in family for port in _ports(one.fields[7], one.fields[8])})),
        log,
        deleted,
        container[1] if container else None,
        unit[1] if unit else None,
        len(family) - 1,
    )


def _log(outputs: str) -> tuple[str | None, bool]:
    """The file that standard output or standard error goes to."""
    for line in outputs.splitlines():
        if line.startswith("/") and not line.startswith("/dev/") and (found := _LOG_FILE.match(line)):
            return found[1], line.endswith(" (deleted)")
    return None, False


def _ports(listening: str, sockets: str) -> Iterator[int]:
    own = set(_SOCKET.findall(sockets))
    for line in listening.splitlines():
        address, _, inode = line.partition(" ")
        port = address.rpartition(":")[2]
        if inode.strip() in own and re.fullmatch(r"[0-9A-Fa-f]{4}", port):
            yield int(port, 16)
