"""Looks at a machine: finds its servers, runs the probes, and gives what came back as documents."""

import posixpath
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from diagnoser.sources.base import Chunk, Note
from diagnoser.sources.clean import clean, label
from diagnoser.sources.hosts.channel import ChannelError, Output
from diagnoser.sources.hosts.readonly import COMMANDS, Parameters, ReadOnlyHost
from diagnoser.sources.hosts.remote_log import Part, read_log
from diagnoser.sources.hosts.servers import Server, read_servers
from diagnoser.sources.source import Source
from diagnoser.sources.streams import Held

AT_ONCE = 6
"""Commands at a time on one machine: below sshd's MaxSessions, and no load to speak of."""

LOG_LINES = 20_000
"""How many of the last lines of a container's or a unit's log are asked for."""


class Probe(NamedTuple):
    """One look at a machine.

    command: of `readonly.COMMANDS`, or the path of a question over HTTP. document: what its output is called. gives:
    kinds of facts that it shows. cost_s: what it takes on a busy machine. server: it is about one server's process.
    """

    id: str
    command: str
    document: str
    gives: tuple[str, ...]
    cost_s: float
    server: bool = False


_SERVER_FACTS = ("server_arg", "env", "engine")
PROBES: tuple[Probe, ...] = (
    Probe("gpu", "smi.table", "nvidia-smi", ("gpu", "gpu_set", "gpu_process", "gpu_process_list", "smi"), 1),
    Probe("gpu-full", "smi.q", "nvidia-smi -q", ("gpu", "gpu_set", "lost_gpu", "mig_instance"), 3),
    Probe("topology", "smi.topo", "nvidia-smi topo -m", ("topology", "topo_gpu", "topo_link"), 2),
    Probe("nvlink", "smi.nvlink", "nvidia-smi nvlink -s", ("nvlink", "nvlink_errors"), 1),
    Probe("gpu-samples", "smi.samples", "nvidia-smi --query-gpu", ("gpu_series", "gpu_sample", "gpu"), 5),
    Probe("kernel", "kernel", "kernel log", ("xid", "sxid", "oom_kill", "pcie_error", "kernel_module"), 1),
    Probe("host", "host", "host limits", ("host_state",), 1),
    Probe("limits", "server.limits", "server limits", ("host_state",), 0.5, server=True),
    Probe("packages", "server.packages", "pip freeze", ("package", "torch_build"), 1, server=True),
    Probe("model", "file", "config.json", ("model",), 0.5, server=True),
    Probe("server-info", "/get_server_info", "server info", _SERVER_FACTS, 1, server=True),
    Probe("metrics", "/metrics", "metrics", ("series", "capacity"), 1, server=True),
    Probe("log", "log", "log", ("message", "exception", "series", "server_arg"), 5, server=True),
)


class Question(NamedTuple):
    """A probe over HTTP: where to ask, what an answer begins with, and which engines know it."""

    paths: tuple[str, ...]
    begins: tuple[bytes, ...]
    engines: frozenset[str]


QUESTIONS = {
    "server-info": Question(("/server_info", "/get_server_info"), (b"{",), frozenset(["sglang"])),
    "metrics": Question(("/metrics",), (b"# HELP", b"# TYPE"), frozenset(["sglang", "vllm", "llama.cpp"])),
}

NEEDED = frozenset(["gpu", "log"])
"""What is always looked at; the rest can wait until a question asks for it."""


class Row(NamedTuple):
    """What became of one look, for the manifest. error: the sentence why it gave nothing."""

    probe: str
    document: str
    command: str
    exit_code: int | None
    size_bytes: int
    wall_s: float
    error: str | None = None


class Item(NamedTuple):
    """A document of a machine: numbered stretches of its lines, the whole of it as one stretch from line 1."""

    name: str
    host: str
    parts: tuple[Part, ...]
    note: str | None = None

    @property
    def size(self) -> int:
        return sum(len(part.text) for part in self.parts)


Job = Callable[[], list["Item"]]
Told = Callable[[str], None]
"""Hears what is being looked at."""


class Looked(Source):
    """A document of a machine as a source: its lines keep the numbers that they have there."""

    def __init__(self, item: Item) -> None:
        whole = b"".join(part.text for part in item.parts)
        super().__init__(label(item.name), lambda: Held(whole), host=item.host, size=len(whole))
        self._parts = item.parts or (Part(1, b""),)
        self._said = [Note(item.note)] if item.note else []

    def chunks(self, *_: object, **__: object) -> Iterator[Chunk]:
        self.notes = list(self._said)
        offset = 0
        for number, part in enumerate(self._parts, 1):
            yield Chunk(clean(part.text), part.first_line, offset, last=number == len(self._parts))
            offset += len(part.text)


def sources(items: Sequence[Item]) -> list[Source]:
    """The documents as sources for a diagnosis."""
    return [Looked(item) for item in items]


def probes_for(kinds: Collection[str]) -> list[str]:
    """The ids of the probes that show facts of these kinds, the cheapest first."""
    wanted = [probe for probe in PROBES if set(probe.gives) & set(kinds)]
    return [probe.id for probe in sorted(wanted, key=lambda probe: (probe.cost_s, probe.id))]


def _do(job: Job) -> list[Item]:
    return job()


def _complaint(stderr: bytes) -> str:
    """The first line of what a command complained about, without the shell's own name."""
    first = stderr.decode("utf-8", "replace").strip().partition("\n")[0][:200]
    return first.removeprefix("/bin/sh: 1: ").removeprefix("sh: ")


class Collector:
    """Looks at one machine, a few probes at a time; what was seen once is not looked at again.

    literals: what the lines of a log that matter are found by, one a line. logs: paths of logs to read besides.
    thrifty: what needs no parameters is asked in one session, which is slower for one machine and cheaper for many.
    Raises `ChannelError` from `look` only when the machine cannot be asked at all.
    """

    def __init__(
        self,
        host: ReadOnlyHost,
        literals: bytes,
        logs: Sequence[str] = (),
        told: Told | None = None,
        *,
        thrifty: bool = False,
    ) -> None:
        self._thrifty = thrifty
        self._host = host
        self._literals = literals
        self._logs = list(logs)
        self._told = told or (lambda _: None)
        self.seen: set[str] = set()
        self._servers: list[Server] | None = None
        self.rows: list[Row] = []

    @property
    def host(self) -> str:
        return self._host.name

    @property
    def servers(self) -> list[Server]:
        return self._servers or []

    def look(self, probes: Collection[str] | None = None) -> list[Item]:
        """The new documents of these probes (None: of all)."""
        chosen = [
            probe for probe in PROBES if probe.id not in self.seen and (probes is None or probe.id in probes)
        ]
        self.seen |= {probe.id for probe in chosen}
        items: list[Item] = []
        if self._thrifty and self._servers is None:
            items += self._at_once([probe for probe in chosen if not probe.server])
            chosen = [probe for probe in chosen if probe.server]
        elif self._servers is None:
            items += self._find_servers(self._host.run("servers"))
        jobs = [job for probe in chosen for job in self._jobs(probe)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for found in pool.map(_do, jobs):
                items += found
        return items

    def skip(self, probes: Collection[str]) -> None:
        """Do not look there, now or later."""
        self.seen |= set(probes)

    def _at_once(self, probes: Sequence[Probe]) -> list[Item]:
        self._told("everything")
        outputs = self._host.run_all(["servers", *(probe.command for probe in probes)])
        items = self._find_servers(outputs["servers"])
        for probe in probes:
            items += self._read(probe, probe.document, outputs[probe.command])
        return items

    def _find_servers(self, output: Output) -> list[Item]:
        self._servers = read_servers(output.stdout)
        self.rows.append(
            Row("servers", "processes", "servers", output.exit_code, len(output.stdout), output.wall_s)
        )
        return [self._command_line(server) for server in self._servers]

    def _command_line(self, server: Server) -> Item:
        """What the server was started with, as a shell would be told."""
        lines = [*server.environment, shlex.join(server.command)]
        return self._item(f"/proc/{server.pid}/cmdline", "\n".join(lines).encode() + b"\n")

    def _jobs(self, probe: Probe) -> Iterator[Job]:
        if not probe.server:
            yield partial(self._plain, probe, probe.document)
        for server in self.servers if probe.server else ():
            if probe.id == "log":
                yield partial(self._log, probe, server)
            elif probe.id == "model":
                yield partial(self._model, probe, server)
            elif probe.id not in QUESTIONS:
                yield partial(
                    self._plain, probe, f"{probe.document} of process {server.pid}", {"pid": server.pid}
                )
            elif server.engine in QUESTIONS[probe.id].engines:
                yield partial(self._asked, probe, server)
        for path in self._logs if probe.id == "log" else ():
            yield partial(self._file, probe, path)

    def _plain(self, probe: Probe, name: str, parameters: Parameters = MappingProxyType({})) -> list[Item]:
        self._told(probe.document)
        try:
            output = self._host.run(probe.command, parameters)
        except ChannelError as refused:
            return self._failed(probe, name, str(refused))
        return self._read(probe, name, output)

    def _read(self, probe: Probe, name: str, output: Output) -> list[Item]:
        words = _complaint(output.stderr)
        error = None
        if not output.stdout.strip():
            error = words or ("it did not answer in time" if output.timed_out else "it printed nothing")
        elif output.timed_out:
            error = "it did not end in time; what it printed was read"
        elif output.truncated:
            error = "only its beginning was read"
        self._row(probe, name, output.exit_code, len(output.stdout), output.wall_s, error)
        text = output.stdout
        if not text.strip() and output.exit_code not in (126, 127) and probe.command.startswith("smi."):
            text = output.stderr  # what nvidia-smi says instead of a table is evidence too
        return [self._item(name, text, error if output.stdout.strip() else None)] if text.strip() else []

    def _log(self, probe: Probe, server: Server) -> list[Item]:
        if server.log is not None:
            path = f"/proc/{server.pid}/fd/1" if server.log_deleted else server.log
            return self._file(probe, path, server.log)
        if server.container is not None:
            for command in ("log.docker", "log.podman"):
                name = f"log of container {server.container[:12]}"
                if found := self._tail(probe, command, name, {"container": server.container}):
                    return found
        if server.unit is not None:
            return self._tail(probe, "log.journal", f"journal of {server.unit}", {"unit": server.unit})
        if self._logs:
            return []
        reason = "its output goes to no file, container or unit that is known; name its log with --log"
        return self._failed(probe, f"log of process {server.pid}", reason)

    def _file(self, probe: Probe, path: str, name: str | None = None) -> list[Item]:
        name = name or path
        self._told(name)
        try:
            log = read_log(self._host, path, self._literals)
        except ChannelError as error:
            return self._failed(probe, name, str(error).removeprefix(f"{self._host.name}: "))
        self._row(probe, name, 0, sum(len(part.text) for part in log.parts), 0.0, log.note)
        return [Item(name, self._host.name, log.parts, log.note)]

    def _tail(self, probe: Probe, command: str, name: str, parameters: dict[str, str]) -> list[Item]:
        self._told(name)
        try:
            output = self._host.run(command, {"count": LOG_LINES, **parameters})
        except ChannelError as error:
            return self._failed(probe, name, str(error))
        found = output.exit_code == 0 and bool(output.stdout.strip())
        words = _complaint(output.stderr) or "it printed nothing"
        note = (
            f"its last {LOG_LINES} lines were asked for" if output.stdout.count(b"\n") >= LOG_LINES else None
        )
        self._row(probe, name, output.exit_code, len(output.stdout), output.wall_s, None if found else words)
        return [self._item(name, output.stdout, note)] if found else []

    def _model(self, probe: Probe, server: Server) -> list[Item]:
        path = server.model_path
        if path is None:
            return []
        if not path.startswith("/"):
            path = posixpath.join(server.cwd, path)
        file = posixpath.normpath(path) + "/config.json"
        if server.container is not None:
            file = f"/proc/{server.pid}/root{file}"
        return self._plain(probe, file, {"path": file})

    def _asked(self, probe: Probe, server: Server) -> list[Item]:
        """What the server answers over HTTP, on the first of its ports that does."""
        question = QUESTIONS[probe.id]
        for port in server.ports[:4]:
            for path in question.paths:
                try:
                    reply = self._host.get(port, path)
                except ChannelError:
                    break
                if reply.status == 200 and reply.body.startswith(question.begins):
                    name = f"GET 127.0.0.1:{port}{path}"
                    self._row(probe, name, 0, len(reply.body), 0.0, None)
                    return [self._item(name, reply.body.rstrip(b"\n") + b"\n")]
        if not server.ports:
            return []
        return self._failed(
            probe, f"{probe.document} of process {server.pid}", "no port of it answers with it"
        )

    def _item(self, name: str, text: bytes, note: str | None = None) -> Item:
        return Item(name, self._host.name, (Part(1, text),), note)

    def _failed(self, probe: Probe, name: str, error: str) -> list[Item]:
        self._row(probe, name, None, 0, 0.0, error)
        return []

    def _row(
        self, probe: Probe, name: str, code: int | None, size: int, wall_s: float, error: str | None
    ) -> None:
        command = COMMANDS[probe.command].id if probe.command in COMMANDS else probe.command
        self.rows.append(Row(probe.id, name, command, code, size, round(wall_s, 3), error))
