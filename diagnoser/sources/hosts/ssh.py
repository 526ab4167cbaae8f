"""A machine over SSH, as `ssh` itself would reach it: configuration, agent, keys, jump hosts, known hosts."""

import http.client
import re
import select
import shlex
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diagnoser.sources.hosts import host_keys
from diagnoser.sources.hosts.channel import MIB, Channel, ChannelError, Gathered, Output, Reply, now
from diagnoser.sources.hosts.target import MAX_JUMPS, Place, read_config, read_target
from diagnoser.sources.hosts.web import get

if TYPE_CHECKING:
    import paramiko

SESSIONS = 8
"""Commands at a time over one connection; sshd's MaxSessions is 10 by default."""

_MARK = re.compile(rb"\x1ediagnoser (\d+)\x1e")
"""What the shell prints before the command runs. Whatever stands before it was said by start-up files."""

MAX_NOISE = 1 << 16


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


def connect(target: str, options: ConnectOptions | None = None) -> Channel:
    """The machine that ``target`` names; "local" is this one. Raises `ChannelError`."""
    from diagnoser.sources.hosts.local import LocalChannel

    if target == "local":
        return LocalChannel()
    options = options or ConnectOptions()
    config = read_config(options.config)
    return SshChannel(target, _client(read_target(target, config), options, config, MAX_JUMPS))


class SshChannel:
    """One connection. A command that runs into a limit is ended on the machine too."""

    def __init__(self, name: str, clients: "list[paramiko.SSHClient]") -> None:
        self.name = name
        self._clients = clients
        self._sessions = threading.Semaphore(SESSIONS)
        transport = clients[-1].get_transport()
        assert transport is not None
        self._transport = transport

    def execute(
        self, line: str, *, timeout_s: float = 20.0, limit_bytes: int = 16 * MIB, stdin: bytes = b""
    ) -> Output:
        started, begin = now(), time.monotonic()
        deadline = begin + timeout_s
        gathered = Gathered(limit_bytes + MAX_NOISE)
        with self._sessions:
            session = self._session(timeout_s)
            try:
                session.exec_command(_wrapped(line, timeout_s))
                sender = threading.Thread(target=_send, args=(session, stdin), daemon=True)
                sender.start()
                timed_out = not _drain(session, gathered, deadline)
                ended = timed_out or gathered.truncated
                code = None if ended else _exit_code(session, deadline)
            except (OSError, EOFError, self._errors) as error:
                raise self._lost(error) from error
            finally:
                session.close()
        raw = gathered.of("out")
        mark = _MARK.search(raw)
        if ended and mark is not None:
            self._end(mark[1].decode())
        if code is None and not ended:
            raise self._lost(None)
        if mark is None and not ended:
            words = gathered.of("err")[:200].decode("utf-8", "replace").strip() or "it printed nothing"
            raise ChannelError(f"{self.name}: its login shell does not run commands: {words}")
        stdout = raw[mark.end() :] if mark else b""
        return Output(
            stdout[:limit_bytes],
            gathered.of("err"),
            code,
            time.monotonic() - begin,
            started,
            gathered.truncated or len(stdout) > limit_bytes,
            timed_out,
        )

    def fetch(self, port: int, path: str, *, timeout_s: float = 5.0, limit_bytes: int = 4 * MIB) -> Reply:
        try:
            channel = self._transport.open_channel(
                "direct-tcpip", ("127.0.0.1", port), ("127.0.0.1", 0), timeout=timeout_s
            )
        except (OSError, EOFError, self._errors) as error:
            if not self._transport.is_active():
                raise self._lost(error) from error
            words = str(error) or type(error).__name__
            raise ChannelError(
                f"{self.name}: port {port} cannot be reached through the connection: {words}"
            ) from error
        channel.settimeout(timeout_s)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
        tunnel: Any = _Tunnel(channel)
        connection.sock = tunnel
        return get(connection, channel.close, f"{self.name}: port {port}", path, timeout_s, limit_bytes)

    def close(self) -> None:
        for client in reversed(self._clients):
            client.close()

    @property
    def _errors(self) -> type[Exception]:
        import paramiko

        return paramiko.SSHException

    def _session(self, timeout_s: float) -> "paramiko.Channel":
        try:
            session = self._transport.open_session(timeout=min(timeout_s, 15.0))
        except (OSError, EOFError, self._errors) as error:
            if self._transport.is_active():
                raise ChannelError(f"{self.name}: it opens no further session: {error}") from error
            raise self._lost(error) from error
        session.settimeout(timeout_s)
        return session

    def _lost(self, error: BaseException | None) -> ChannelError:
        words = f": {error}" if error is not None and str(error) else ""
        return ChannelError(
            f"{self.name}: the connection was lost in the middle of a command{words}; try again"
        )

    def _end(self, leader: str) -> None:
        """Kill what a command started; sshd makes it the leader of a session and process group of its own."""
        try:
            with self._sessions:
                session = self._session(10.0)
                session.exec_command(f"kill -9 -- -{leader}")
                session.recv_exit_status()
                session.close()
        except (OSError, EOFError, ChannelError, self._errors):
            pass  # it goes with the connection, or at its own time limit


def _wrapped(line: str, timeout_s: float) -> str:
    """For any login shell: run by /bin/sh, with the mark before it, and ended by the machine itself if we are gone."""
    script = (
        "printf '\\036diagnoser %s\\036' $$; "
        f"c={shlex.quote(line)}; "
        "if timeout 1 true 2>/dev/null; "
        f'then exec timeout -s KILL {timeout_s + 5:.0f} /bin/sh -c "$c"; fi; exec /bin/sh -c "$c"'
    )
    return f"exec /bin/sh -c {shlex.quote(script)}"


def _send(session: "paramiko.Channel", data: bytes) -> None:
    try:
        if data:
            session.sendall(data)
        session.shutdown_write()
    except OSError:
        pass  # the command does not read its input


def _drain(session: "paramiko.Channel", gathered: Gathered, deadline: float) -> bool:
    """Read both streams to their end; False at the deadline. A full limit ends it early."""
    while True:
        idle = True
        while session.recv_ready():
            idle = False
            if not gathered.add("out", session.recv(1 << 16)):
                return True
        while session.recv_stderr_ready():
            idle = False
            if not gathered.add("err", session.recv_stderr(1 << 16)):
                return True
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        if idle:
            if session.closed or session.eof_received:
                return True
            select.select([session], [], [], left)


def _exit_code(session: "paramiko.Channel", deadline: float) -> int | None:
    """None where the machine never told it."""
    if not session.status_event.wait(max(0.1, deadline - time.monotonic())):
        return None
    code = session.recv_exit_status()
    return None if code < 0 else code


def _client(
    place: Place, options: ConnectOptions, config: Any, jumps_left: int
) -> "list[paramiko.SSHClient]":
    """The connections to a place, those to its jump hosts first."""
    if jumps_left < len(place.jumps):
        raise ChannelError(
            f"{place.name}: more than {MAX_JUMPS} jump hosts; check ProxyJump in {options.config}"
        )
    through: list[paramiko.SSHClient] = []
    for hop in place.jumps:
        through += _through(through, read_target(hop, config), options, config, jumps_left - len(place.jumps))
    return _through(through, place._replace(jumps=()), options, config, jumps_left)


def _through(
    before: "list[paramiko.SSHClient]", place: Place, options: ConnectOptions, config: Any, jumps_left: int
) -> "list[paramiko.SSHClient]":
    import paramiko

    if place.jumps and not before:
        return _client(place, options, config, jumps_left)
    sock: Any = None
    if before:
        transport = before[-1].get_transport()
        assert transport is not None
        try:
            sock = transport.open_channel(
                "direct-tcpip", (place.host, place.port), ("127.0.0.1", 0), timeout=options.connect_s
            )
        except (OSError, EOFError, paramiko.SSHException) as error:
            where = f"{place.host}:{place.port}"
            raise ChannelError(f"{place.name}: the jump host cannot reach {where}: {error}") from error
    elif place.proxy_command:
        sock = paramiko.ProxyCommand(place.proxy_command)
    return [*before, _connected(place, options, sock)]


def _connected(place: Place, options: ConnectOptions, sock: Any) -> "paramiko.SSHClient":
    import logging

    import paramiko

    # What paramiko would log as errors is told as one sentence.
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    files = [Path(file) for file in place.known_hosts] or [options.known_hosts]
    name = place.alias or (place.host if place.port == 22 else f"[{place.host}]:{place.port}")
    secrets = _Secrets(place, options)
    where = f"{place.host}:{place.port}"
    seconds = place.connect_timeout_s or options.connect_s
    while True:
        client = paramiko.SSHClient()
        policy: Any = _Checked(name, files, options.accept_new_host_key)
        client.set_missing_host_key_policy(policy)
        host_keys.expect(client, place.host, place.port, name, files)
        keys: Any = [file for file in place.identities if Path(file).is_file()] or None
        try:
            client.connect(
                place.host,
                place.port,
                place.user,
                password=secrets.password,
                passphrase=secrets.passphrase,
                key_filename=keys,
                look_for_keys=not place.only,
                allow_agent=place.agent and not place.only,
                timeout=seconds,
                banner_timeout=seconds,
                auth_timeout=seconds,
                channel_timeout=seconds,
                sock=sock,
            )
        except paramiko.PasswordRequiredException:
            client.close()
            secrets.need_passphrase()
        except paramiko.BadHostKeyException as error:
            client.close()
            host_keys.check(name, error.key, files, accept_new=False)
            raise ChannelError(f"{place.name}: its key is not the known one") from error
        except paramiko.AuthenticationException as error:
            client.close()
            secrets.need_password(error)
        except ChannelError:
            client.close()
            raise
        except (OSError, EOFError, paramiko.SSHException, ValueError) as error:
            client.close()
            if secrets.passphrase is not None and "key" in str(error).lower():
                secrets.need_passphrase()
            raise ChannelError(f"{place.name}: {_why(error, where, seconds)}") from error
        else:
            transport = client.get_transport()
            assert transport is not None
            transport.set_keepalive(place.keep_alive_s or options.keep_alive_s)
            return client
        if sock is not None:
            raise ChannelError(
                f"{place.name}: a secret is needed behind a jump host; load the key into the agent"
            )


class _Secrets:
    """A passphrase or a password, asked for once each and only where somebody can answer."""

    def __init__(self, place: Place, options: ConnectOptions) -> None:
        self._place = place
        self._ask = options.ask
        self.passphrase: str | None = None
        self.password: str | None = None

    def need_passphrase(self) -> None:
        if self.passphrase is not None or self._ask is None:
            raise ChannelError(
                f"{self._place.name}: a private key needs a passphrase; load the key into the agent with ssh-add"
            )
        self.passphrase = self._ask(f"passphrase of the key for {self._place.user}@{self._place.host}: ")

    def need_password(self, error: Exception) -> None:
        if self.password is not None or self._ask is None:
            tried = ", ".join([*self._place.identities, *(["the agent's keys"] if self._place.agent else [])])
            raise ChannelError(
                f"{self._place.name}: {self._place.user} is not let in (tried {tried or 'the usual keys'}); "
                f"check user and key: {error}"
            )
        self.password = self._ask(f"password of {self._place.user}@{self._place.host}: ")


def _why(error: BaseException, where: str, seconds: float) -> str:
    if isinstance(error, socket.gaierror):
        return f"{where.rpartition(':')[0]} is no known host name; check the name or ~/.ssh/config"
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


class _Tunnel:
    """A channel as http.client wants its socket: closing it leaves what was sent readable."""

    def __init__(self, channel: "paramiko.Channel") -> None:
        self.sendall = channel.sendall
        self.makefile = channel.makefile

    def close(self) -> None:
        """The channel is closed when the answer is read."""


class _Checked:
    """Asked by paramiko about every key that it does not know; here that is every key."""

    def __init__(self, name: str, files: list[Path], accept_new: bool) -> None:
        self._name = name
        self._files = files
        self._accept_new = accept_new

    def missing_host_key(self, _client: object, _hostname: str, key: Any) -> None:
        host_keys.check(self._name, key, self._files, self._accept_new)
