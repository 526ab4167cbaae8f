"""A server in a container of docker or podman.

The container itself is only stopped and started. With a change another one, NAME-diagnoser, is made beside it from what
``inspect`` tells of the first, and removed afterwards; so there is nothing that could not be brought back. A setting
that cannot be carried over is refused by name.
"""

import json
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from diagnoser.experiment.change import Changes, Config, applied, told
from diagnoser.experiment.launchers.base import GRACE_S, LauncherError, quote


class ContainerLauncher(NamedTuple):
    """A container. tool: "docker" or "podman". options: those of ``run`` that make the same container. entrypoint: its
    first words, command: the rest; together they are the server's command line."""

    tool: str
    name: str
    image: str
    options: tuple[str, ...]
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    environment: tuple[tuple[str, str | None], ...]
    sudo: bool = False
    kind: str = "container"

    @property
    def original(self) -> str:
        return f"{self._tool} start {self.name}"

    @property
    def _tool(self) -> str:
        return f"sudo -n {self.tool}" if self.sudo else self.tool

    @property
    def _other(self) -> str:
        return f"{self.name}-diagnoser"

    @property
    def _config(self) -> Config:
        return Config(self.command, "/", self.environment, whole=True)

    def lacks(self, changes: Changes) -> str | None:
        if applied(self._config, changes) == self._config:
            return f"the server has the change already: {told(changes)}"
        return None

    def start(self, changes: Changes, folder: str, log: str) -> str:
        since = f"date +%s > {quote(folder)}/since\n"
        fresh = f"{self._tool} rm -f {quote(self._other)} >/dev/null 2>&1\n{since}"
        if not changes:
            return f"{fresh}{self._tool} start {quote(self.name)}\n"
        config = applied(self._config, changes)
        # By file, so that no list of processes shows it.
        variables = "".join(f"{name}={value}\n" for name, value in config.environment)
        entry = ["--entrypoint", self.entrypoint[0]] if self.entrypoint else []
        words = [
            "run", "-d", "--name", self._other, *self.options, *entry, self.image, *self.entrypoint[1:],
            *config.command,
        ]  # fmt: skip
        run = shlex.join(words).replace("run -d", f"run -d --env-file {quote(folder)}/variables", 1)
        return (
            f"umask 077; printf %s {quote(variables)} > {quote(folder)}/variables || exit 3\n"
            f"{fresh}{self._tool} {run}\n"
        )

    def stop(self, folder: str) -> str:
        return f"""for c in {quote(self._other)} {quote(self.name)}; do
  [ "$({self._tool} inspect -f '{{{{.State.Running}}}}' "$c" 2>/dev/null)" = true ] || continue
  {self._tool} stop -t {GRACE_S:.0f} "$c" >/dev/null || exit 4
done
{self._tool} rm -f {quote(self._other)} >/dev/null 2>&1
exit 0
"""

    def alive(self, folder: str) -> str:
        return f"""for c in {quote(self._other)} {quote(self.name)}; do
  [ "$({self._tool} inspect -f '{{{{.State.Running}}}}' "$c" 2>/dev/null)" = true ] && exit 0
done
exit 1
"""

    def log(self, folder: str, log: str) -> str:
        since = f'--since "$(cat {quote(folder)}/since 2>/dev/null || echo 0)"'
        return (
            f'c={quote(self._other)}; {self._tool} inspect "$c" >/dev/null 2>&1 || c={quote(self.name)}\n'
            f'{self._tool} logs {since} "$c" 2>&1'
        )

    def plain(self) -> dict[str, Any]:
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in self._asdict().items()
        }

    @staticmethod
    def from_plain(kept: dict[str, Any]) -> "ContainerLauncher":
        made: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in kept.items()
        }
        made["environment"] = tuple((name, value) for name, value in kept["environment"])
        return ContainerLauncher(**made)


def look(name: str, *, sudo: bool) -> str:
    """The script that reads how a container was made, with the tool that knows it."""
    root = "sudo -n " if sudo else ""
    return f"""for t in docker podman; do
  command -v $t >/dev/null 2>&1 || continue
  echo $t; {root}$t inspect --type container {quote(name)} && exit 0
done
exit 1
"""


_PLAIN: dict[str, str] = {
    "NetworkMode": "--network", "IpcMode": "--ipc", "PidMode": "--pid", "UTSMode": "--uts", "UsernsMode": "--userns",
    "ShmSize": "--shm-size", "Memory": "--memory", "MemorySwap": "--memory-swap", "CpuShares": "--cpu-shares",
    "CpusetCpus": "--cpuset-cpus", "CpusetMems": "--cpuset-mems", "Runtime": "--runtime", "PidsLimit": "--pids-limit",
    "CgroupParent": "--cgroup-parent", "OomScoreAdj": "--oom-score-adj",
}  # fmt: skip
"""Settings of the host's side and the option of ``run`` that sets each."""

_LISTS: dict[str, str] = {
    "Binds": "--volume", "CapAdd": "--cap-add", "CapDrop": "--cap-drop", "SecurityOpt": "--security-opt",
    "ExtraHosts": "--add-host", "Dns": "--dns", "GroupAdd": "--group-add", "VolumesFrom": "--volumes-from",
}  # fmt: skip

_FLAGS: dict[str, str] = {"Privileged": "--privileged", "ReadonlyRootfs": "--read-only", "Init": "--init"}

_DEFAULT: dict[str, tuple[Any, ...]] = {
    "NetworkMode": ("default", "bridge"), "IpcMode": ("private", ""), "Runtime": ("runc", "oci", "crun"),
    "CgroupnsMode": ("private", "host"), "ShmSize": (67108864,), "MemorySwap": (0, -1), "MemorySwappiness": (-1,),
    "ConsoleSize": ([0, 0],), "LogConfig": (), "RestartPolicy": (), "MaskedPaths": (), "ReadonlyPaths": (),
    "PidsLimit": (2048, -1), "OomScoreAdj": (0,), "Isolation": ("default",), "AutoRemove": (),
    "IOMaximumBandwidth": (0,),
    "PortBindings": (), "Devices": (), "DeviceRequests": (), "Ulimits": (), "Mounts": (), "Tmpfs": (), "NanoCpus": (),
    "ContainerIDFile": (), "CapDrop": ([],), "Annotations": (), "CreateCommand": (), "Cgroups": ("default",),
    "PublishAllPorts": (False,),
}  # fmt: skip
"""Values that need no option, and settings that are looked at elsewhere or make no difference to the server (())."""

_ELSEWHERE = frozenset(key for key, values in _DEFAULT.items() if values == ())


def read(name: str, output: bytes, *, sudo: bool) -> tuple[ContainerLauncher, bool]:
    """The launcher of a container from what `look` printed, and whether it runs. Raises `LauncherError`."""
    tool, _, text = output.decode("utf-8", "replace").partition("\n")
    try:
        made = json.loads(text)[0]
        config, host, state = made["Config"], made["HostConfig"], made["State"]
    except (ValueError, LookupError, TypeError) as error:
        raise LauncherError(
            f"--container {name}: neither docker nor podman knows it on this machine"
        ) from error
    if host.get("AutoRemove"):
        raise LauncherError(
            f"--container {name}: it is removed when it stops (--rm), so it could not be brought back"
        )
    options = tuple(_options(name, config, host))
    entry = config.get("Entrypoint") or ()
    entry = (entry,) if isinstance(entry, str) else tuple(entry)
    pairs = (pair.partition("=") for pair in config.get("Env") or ())
    environment = tuple((key, value) for key, _, value in pairs)
    if any("\n" in value for _, value in environment):
        raise LauncherError(
            f"--container {name}: a variable of several lines cannot be carried over; give a --launcher"
        )
    return ContainerLauncher(
        tool, made.get("Name", name).lstrip("/"), config["Image"], options, entry, tuple(config.get("Cmd") or ()),
        environment, sudo,
    ), bool(state.get("Running"))  # fmt: skip


def _options(name: str, config: dict[str, Any], host: dict[str, Any]) -> Iterator[str]:
    """The options of ``run`` that make the same container. Raises `LauncherError` for what has none."""
    for key, value in host.items():
        if not value or key in _ELSEWHERE or value in _DEFAULT.get(key, ()):
            continue
        if key in _FLAGS:
            yield _FLAGS[key]
        elif key in _PLAIN:
            yield from (_PLAIN[key], str(value))
        elif key in _LISTS:
            for one in value:
                yield from (_LISTS[key], str(one))
        else:
            raise LauncherError(
                f"--container {name}: its setting {key}={value!r} cannot be carried over; give a --launcher"
            )
    yield from _ports(host)
    yield from _devices(host)
    for one in host.get("Ulimits") or ():
        yield from ("--ulimit", f"{one['Name'].removeprefix('RLIMIT_').lower()}={one['Soft']}:{one['Hard']}")
    for one in host.get("Mounts") or ():
        extra = ",readonly" if one.get("ReadOnly") else ""
        yield from (
            "--mount",
            f"type={one['Type']},source={one.get('Source', '')},target={one['Target']}{extra}",
        )
    for path, how in (host.get("Tmpfs") or {}).items():
        yield from ("--tmpfs", f"{path}:{how}" if how else path)
    if host.get("NanoCpus"):
        yield from ("--cpus", f"{host['NanoCpus'] / 1e9:g}")
    if config.get("User"):
        yield from ("--user", config["User"])
    if config.get("WorkingDir"):
        yield from ("--workdir", config["WorkingDir"])
    if config.get("Tty"):
        yield "--tty"


def _ports(host: dict[str, Any]) -> Iterator[str]:
    for inside, outside in (host.get("PortBindings") or {}).items():
        for one in outside or ():
            place = f"{one['HostIp']}:" if one.get("HostIp") else ""
            yield from ("--publish", f"{place}{one.get('HostPort', '')}:{inside}")


def _devices(host: dict[str, Any]) -> Iterator[str]:
    for one in host.get("Devices") or ():
        yield from (
            "--device",
            f"{one['PathOnHost']}:{one['PathInContainer']}:{one.get('CgroupPermissions') or 'rwm'}",
        )
    for one in host.get("DeviceRequests") or ():
        if one.get("DeviceIDs"):
            yield from ("--gpus", f'"device={",".join(one["DeviceIDs"])}"')
        else:
            yield from ("--gpus", "all" if one.get("Count") == -1 else str(one.get("Count")))
