"""Who is meant: ``gpu-07``, ``user@host:port`` or an alias, with what the user's SSH configuration says of it."""

import getpass
import re
from pathlib import Path
from typing import Any, NamedTuple

from diagnoser.sources.hosts.channel import ChannelError

_TARGET = re.compile(
    r"(?:(?P<user>[^@\s]+)@)?(?:\[(?P<six>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^@:\s\[\]]+))(?::(?P<port>\d{1,5}))?"
)
_SIX = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<six>[0-9A-Fa-f]*:[0-9A-Fa-f:.]+(?:%\w+)?)")
MAX_JUMPS = 8


class Place(NamedTuple):
    """Where to connect and as whom.

    name: as the user wrote it. alias: what its host key is kept under, where the configuration says so. identities:
    private key files to try; only: no others than these. jumps: the targets to go through, in order.
    """

    name: str
    host: str
    port: int
    user: str
    identities: tuple[str, ...] = ()
    only: bool = False
    jumps: tuple[str, ...] = ()
    proxy_command: str | None = None
    known_hosts: tuple[str, ...] = ()
    alias: str | None = None
    connect_timeout_s: float | None = None
    keep_alive_s: int = 0
    agent: bool = True


def read_target(target: str, config: Any = None) -> Place:
    """The place that a target means. config: a `paramiko.SSHConfig`. Raises `ChannelError` for no target."""
    found = _SIX.fullmatch(target) or _TARGET.fullmatch(target)
    if found is None or target.startswith("-"):
        raise ChannelError(f"{target!r} is no host; write host, user@host or user@host:port")
    parts = found.groupdict()
    name = str(parts["six"] or parts["host"])
    said = dict(config.lookup(name)) if config is not None else {}
    port = parts.get("port") or str(said.get("port", "22"))
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise ChannelError(f"{target}: {port} is no port; it must be 1 to 65535")
    jump = str(said.get("proxyjump", "none"))
    command = str(said.get("proxycommand", "none"))
    known = str(said.get("userknownhostsfile", "")).split()
    agent = str(said.get("identityagent", "")).lower() != "none"
    return Place(
        name=target,
        host=str(said.get("hostname", name)),
        port=int(port),
        user=str(parts.get("user") or said.get("user") or getpass.getuser()),
        identities=tuple(str(Path(file).expanduser()) for file in said.get("identityfile", ())),
        only=str(said.get("identitiesonly", "no")).lower() == "yes",
        jumps=() if jump.lower() == "none" else tuple(hop.strip() for hop in jump.split(",")),
        proxy_command=None if command.lower() == "none" else command,
        known_hosts=tuple(str(Path(file).expanduser()) for file in known),
        alias=str(said["hostkeyalias"]) if "hostkeyalias" in said else None,
        connect_timeout_s=_seconds(said.get("connecttimeout")),
        keep_alive_s=int(_seconds(said.get("serveraliveinterval")) or 0),
        agent=agent,
    )


def _seconds(text: Any) -> float | None:
    return float(text) if text is not None and str(text).isdigit() else None


def read_config(path: Path) -> Any:
    """The SSH configuration as paramiko reads it; empty where there is none. Raises `ChannelError`."""
    import paramiko

    config = paramiko.SSHConfig()
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            config.parse(file)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ChannelError(f"{path} cannot be read: {error.strerror}") from error
    except paramiko.ConfigParseError as error:
        raise ChannelError(f"{path} is no SSH configuration: {error}") from error
    return config
