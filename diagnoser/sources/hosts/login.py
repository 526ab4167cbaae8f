"""Getting in: jump hosts, proxy commands, host keys, keys, the agent and secrets, in ssh's order."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diagnoser.sources.hosts import host_keys
from diagnoser.sources.hosts.channel import ChannelError
from diagnoser.sources.hosts.proxy import ProxyCommand
from diagnoser.sources.hosts.target import MAX_JUMPS, Place, read_target

if TYPE_CHECKING:
    import paramiko


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """How to connect.

    connect_s: for each of name look-up and connection, the server's greeting, and authentication. keep_alive_s: how
    often a silent connection is tried. ask: asks the user for a secret, None where nobody can be asked. config,
    known_hosts: files instead of the user's own.
    """

    connect_s: float = 10.0
    keep_alive_s: int = 15
    accept_new_host_key: bool = False
    ask: Callable[[str], str] | None = None
    config: Path = field(default_factory=lambda: Path("~/.ssh/config").expanduser())
    known_hosts: Path = field(default_factory=lambda: Path("~/.ssh/known_hosts").expanduser())


def log_in(
    place: Place, options: ConnectOptions, config: Any, jumps_left: int = MAX_JUMPS
) -> "list[paramiko.SSHClient]":
    """The connections to a place, those to its jump hosts first. Raises `ChannelError`, and then leaves none open."""
    if jumps_left < len(place.jumps):
        raise ChannelError(
            f"{place.name}: more than {MAX_JUMPS} jump hosts; check ProxyJump in {options.config}"
        )
    way: list[paramiko.SSHClient] = []
    try:
        for hop in place.jumps:
            jump = read_target(hop, config)
            try:
                if way:
                    way.append(_connected(jump, options, way[-1]))
                else:
                    way += log_in(jump, options, config, jumps_left - len(place.jumps))
            except ChannelError as error:
                raise ChannelError(f"{place.name}: on the way there: {error}") from error
        way.append(_connected(place, options, way[-1] if way else None))
    except BaseException:
        for client in reversed(way):
            client.close()
        raise
    return way


def _connected(
    place: Place, options: ConnectOptions, jump: "paramiko.SSHClient | None"
) -> "paramiko.SSHClient":
    """One connection; a secret that turns out to be needed is asked for and makes it a new attempt."""
    import logging

    import paramiko

    # What paramiko would log as errors is told as one sentence.
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    files = [Path(file) for file in place.known_hosts] or [options.known_hosts]
    name = place.alias or (place.host if place.port == 22 else f"[{place.host}]:{place.port}")
    kinds = host_keys.kinds(name, files)
    secrets = _Secrets(place, options)
    key_files: Any = secrets.files
    seconds = place.connect_timeout_s or options.connect_s

    def transport(sock: Any, **given: Any) -> paramiko.Transport:
        made = paramiko.Transport(sock, **given)
        security = made.get_security_options()
        # A server has keys of several kinds; asked for one that is known, it is recognised.
        security.key_types = sorted(security.key_types, key=lambda kind: _kind_of_key(kind) not in kinds)
        return made

    while True:
        client = paramiko.SSHClient()
        policy: Any = _Checked(name, files, options.accept_new_host_key)
        client.set_missing_host_key_policy(policy)
        sock = _way(place, jump, seconds)
        try:
            client.connect(
                place.host,
                place.port,
                place.user,
                password=secrets.password,
                passphrase=secrets.passphrase,
                pkey=_key_of_agent(place),
                key_filename=key_files,
                look_for_keys=not place.only,
                allow_agent=place.agent and not place.only,
                timeout=seconds,
                banner_timeout=seconds,
                auth_timeout=seconds,
                channel_timeout=seconds,
                sock=sock,
                transport_factory=transport,
            )
        except BaseException as error:
            client.close()
            if sock is not None:
                sock.close()
            if isinstance(error, paramiko.PasswordRequiredException):
                secrets.need_passphrase()
            elif isinstance(error, paramiko.AuthenticationException):
                secrets.need_password(error)
            elif isinstance(error, paramiko.SSHException) and secrets.may_be_wrong(error):
                secrets.need_passphrase()
            elif isinstance(error, paramiko.SSHException) and "authentication methods" in str(error):
                secrets.need_password(error)
            elif isinstance(error, OSError | EOFError | paramiko.SSHException | ValueError):
                words = _why(error, place, seconds)
                if isinstance(sock, ProxyCommand) and sock.words():
                    words += f"; its ProxyCommand says: {sock.words()}"
                raise ChannelError(f"{place.name}: {words}") from error
            else:
                raise
        else:
            made = client.get_transport()
            assert made is not None
            made.set_keepalive(place.keep_alive_s or options.keep_alive_s)
            return client


def _kind_of_key(algorithm: str) -> str:
    """RFC 8332: an RSA key signs with algorithms of other names."""
    return "ssh-rsa" if algorithm.startswith("rsa-sha2-") else algorithm


def _way(place: Place, jump: "paramiko.SSHClient | None", seconds: float) -> Any:
    """What leads to a place; None where it is reached directly."""
    import paramiko

    if jump is None:
        return ProxyCommand(place.name, place.proxy_command) if place.proxy_command else None
    transport = jump.get_transport()
    assert transport is not None
    try:
        return transport.open_channel(
            "direct-tcpip", (place.host, place.port), ("127.0.0.1", 0), timeout=seconds
        )
    except (OSError, EOFError, paramiko.SSHException) as error:
        where = f"{place.host}:{place.port}"
        raise ChannelError(f"{place.name}: the jump host cannot reach {where}: {error}") from error


def _key_of_agent(place: Place) -> Any:
    """The agent's key for one of the identities, known by its public half: IdentitiesOnly allows it."""
    import paramiko

    if not (place.only and place.agent):
        return None
    public = set()
    for file in place.identities:
        for half in (Path(file), Path(f"{file}.pub")):
            try:
                public.update(half.read_text("ascii", "replace").split()[1:2])
            except OSError:
                continue  # what is wrong with it is said where nothing else helps
    try:
        keys = paramiko.Agent().get_keys()
    except (OSError, paramiko.SSHException):
        return None
    return next((key for key in keys if key.get_base64() in public), None)


class _Secrets:
    """Key files, and a passphrase or a password, asked for once each and only where somebody can answer."""

    def __init__(self, place: Place, options: ConnectOptions) -> None:
        self._place = place
        self._ask = options.ask
        self._tried: list[str] = []
        self.files: list[str] = []
        self.passphrase: str | None = None
        self.password: str | None = None
        for file in place.identities:
            wrong = _wrong_with(Path(file))
            self._tried.append(f"{file}, which {wrong}" if wrong else file)
            if not wrong:
                self.files.append(file)
        if place.agent and os.environ.get("SSH_AUTH_SOCK"):
            self._tried.append("the agent's keys")
        if not place.only:
            self._tried.append("the usual keys in ~/.ssh")

    def may_be_wrong(self, error: Exception) -> bool:
        return self.passphrase is not None and "key" in str(error).lower()

    def need_passphrase(self) -> None:
        if self.passphrase is not None:
            raise ChannelError(
                f"{self._place.name}: that passphrase opens none of the keys; try again, or load the key with ssh-add"
            )
        if self._ask is None:
            raise ChannelError(
                f"{self._place.name}: a private key needs a passphrase; load the key into the agent with ssh-add"
            )
        self.passphrase = self._ask(f"passphrase of the key for {self._place.user}@{self._place.host}: ")

    def need_password(self, error: Exception) -> None:
        if self.password is not None or self._ask is None:
            tried = "; ".join(self._tried) or "no key"
            raise ChannelError(
                f"{self._place.name}: {self._place.user} is not let in (tried {tried}); check user and key: {error}"
            )
        self.password = self._ask(f"password of {self._place.user}@{self._place.host}: ")


def _wrong_with(file: Path) -> str:
    """Why a file cannot be used as a private key, as ``does not exist``; empty where it can be tried."""
    try:
        with file.open("rb") as key:
            start = key.read(1 << 10)
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if start.startswith((b"ssh-", b"ecdsa-", b"sk-")):
        return "is a public key and not in the agent"
    return "" if b"PRIVATE KEY-----" in start else "is no private key"


def _why(error: BaseException, place: Place, seconds: float) -> str:
    where = f"{place.host}:{place.port}"
    if isinstance(error, socket.gaierror):
        return f"{place.host} is no known host name; check the name or ~/.ssh/config"
    if isinstance(error, TimeoutError):
        return f"{where} does not answer within {seconds:g} s; is the host up, and is the port right?"
    if isinstance(error, OSError) and type(error).__name__ == "NoValidConnectionsError":
        return f"{where} refuses the connection; does sshd run there, and is the port right?"
    if isinstance(error, ConnectionRefusedError):
        return f"{where} refuses the connection; does sshd run there, and is the port right?"
    words = str(error) or type(error).__name__
    if "banner" in words.lower() or words == "No existing session":
        return f"{where} is connected and does not greet as an SSH server within {seconds:g} s"
    return f"the connection to {where} failed: {words}"


class _Checked:
    """Asked by paramiko about every key that it does not know; here that is every key."""

    def __init__(self, name: str, files: list[Path], accept_new: bool) -> None:
        self._name = name
        self._files = files
        self._accept_new = accept_new

    def missing_host_key(self, _client: object, _hostname: str, key: Any) -> None:
        host_keys.check(self._name, key, self._files, self._accept_new)
