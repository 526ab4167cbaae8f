"""Who is meant: ``gpu-07``, ``user@host:port`` or an alias, with what the user's SSH configuration says of it."""

import getpass
import glob
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from diagnoser.sources.hosts.channel import ChannelError

_TARGET = re.compile(
    r"(?:(?P<user>[^@\s]+)@)?(?:\[(?P<six>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^@:\s\[\]]+))(?::(?P<port>\d{1,5}))?"
)
_SIX = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<six>[0-9A-Fa-f]*:[0-9A-Fa-f:.]+(?:%\w+)?)")
MAX_JUMPS = 8
MAX_INCLUDES = 16
"""As in ssh (readconf.c, READCONF_MAX_DEPTH)."""

_BLOCK = re.compile(r"\s*(?:host|match)[\s=]", re.I)
_INCLUDE = re.compile(r"\s*include(?:\s*=\s*|\s+)(.+)", re.I)
_UNKNOWN_MATCH = re.compile(r"^\s*match\b.*[\s!](localnetwork|tagged|sessiontype|version|command)\b", re.I)


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
    written = target.removeprefix("ssh://")
    found = _SIX.fullmatch(written) or _TARGET.fullmatch(written)
    if found is None or target.startswith("-"):
        raise ChannelError(f"{target!r} is no host; write host, user@host or user@host:port")
    parts = found.groupdict()
    name = str(parts["six"] or parts["host"])
    said = _said(name, config) if config is not None else {}
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


def _said(name: str, config: Any) -> dict[str, Any]:
    try:
        return dict(config.lookup(name))
    except Exception as error:  # also what the runner of Match exec raises, which is of many kinds
        words = " ".join([type(error).__name__, *str(error).split()])[:200]
        raise ChannelError(f"{name}: the SSH configuration cannot be applied to it: {words}") from error


def read_config(path: Path) -> Any:
    """The SSH configuration as paramiko reads it; empty where there is none. Raises `ChannelError`."""
    import paramiko

    config = paramiko.SSHConfig()
    try:
        if path.exists():
            config.parse(io.StringIO("\n".join(_lines(path, path.parent, MAX_INCLUDES))))
    except OSError as error:
        raise ChannelError(f"{error.filename or path} cannot be read: {error.strerror}") from error
    except (paramiko.ConfigParseError, ValueError) as error:
        raise ChannelError(f"{path} is no SSH configuration: {error}") from error
    return config


def _lines(path: Path, folder: Path, depth: int) -> Iterator[str]:
    """The lines of a configuration with those of its Include files in their place, which paramiko leaves out."""
    if depth < 0:
        raise ChannelError(f"{path}: Include files include each other more than {MAX_INCLUDES} deep")
    top = block = "Host *"
    for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
        include = _INCLUDE.fullmatch(line)
        if include is None:
            if _BLOCK.match(line):
                block = line
                _refuse_unknown(line, f"{path}:{number}")
            yield line
            continue
        for pattern in shlex.split(include[1], comments=True):
            for file in sorted(glob.glob(str(folder / Path(pattern).expanduser()))):
                included = list(_lines(Path(file), folder, depth - 1))
                if block != top and any(map(_BLOCK.match, included)):
                    raise ChannelError(
                        f"{path}:{number}: {file} has Host or Match lines and is included within {block.strip()!r}; "
                        "move the Include to the top"
                    )
                yield from included
        yield block  # whose settings go on


def _refuse_unknown(line: str, where: str) -> None:
    """What paramiko does not know it takes for true."""
    word = _UNKNOWN_MATCH.search(re.sub(r'"[^"]*"', "", line))
    if word is not None:
        raise ChannelError(f"{where}: Match {word[1]} is not understood here; write a Host line instead")
