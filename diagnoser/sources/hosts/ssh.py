"""A machine over SSH, as `ssh` itself would reach it: configuration, agent, keys, jump hosts, known hosts."""

import http.client
import re
import selectors
import shlex
import threading
import time
from typing import TYPE_CHECKING, Any

from diagnoser.sources.hosts.channel import MIB, Channel, ChannelError, Gathered, Output, Reply, now
from diagnoser.sources.hosts.login import ConnectOptions, log_in
from diagnoser.sources.hosts.target import read_config, read_target
from diagnoser.sources.hosts.web import get

__all__ = ["ConnectOptions", "SshChannel", "connect"]

if TYPE_CHECKING:
    import paramiko

SESSIONS = 8
"""Commands at a time over one connection; sshd's MaxSessions is 10 by default."""

_MARK = re.compile(rb"\x1ediagnoser (\d+)\x1e")
"""What the shell prints before the command runs. Whatever stands before it was said by start-up files."""

MAX_NOISE = 1 << 16

_RUN = '/bin/sh -c "$0"; exit $?'
"""A shell that stays: it tells a command's death by a signal as 128 + signal, which SSH would tell by no exit code."""


def connect(target: str, options: ConnectOptions | None = None) -> Channel:
    """The machine that ``target`` names; "local" is this one. Raises `ChannelError`."""
    from diagnoser.sources.hosts.local import LocalChannel

    if target == "local":
        return LocalChannel()
    options = options or ConnectOptions()
    config = read_config(options.config)
    return SshChannel(target, log_in(read_target(target, config), options, config))


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
                if not ended:
                    # A command may close its output and go on.
                    timed_out = ended = not session.status_event.wait(max(0.1, deadline - time.monotonic()))
                code = None if ended else session.recv_exit_status()
            except (OSError, EOFError, self._errors) as error:
                raise self._lost(error) from error
            finally:
                session.close()
        raw, errors = gathered.of("out"), gathered.of("err")
        mark, mark_of_errors = _MARK.search(raw), _MARK.search(errors)
        if ended and mark is not None:
            self._end(mark[1].decode())
        if code is not None and code < 0:
            raise self._lost(None)
        if mark is None and not ended:
            words = (errors or raw)[:200].decode("utf-8", "replace").strip() or "it printed nothing"
            raise ChannelError(f"{self.name}: its login shell does not run commands: {words}")
        stdout = raw[mark.end() :] if mark else b""
        return Output(
            stdout[:limit_bytes],
            errors[mark_of_errors.end() :] if mark_of_errors else errors,
            code,
            time.monotonic() - begin,
            started,
            gathered.truncated or len(stdout) > limit_bytes,
            timed_out,
        )

    def fetch(self, port: int, path: str, *, timeout_s: float = 5.0, limit_bytes: int = 4 * MIB) -> Reply:
        channel = self.dial(port, timeout_s)
        channel.settimeout(timeout_s)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
        tunnel: Any = _Tunnel(channel)
        connection.sock = tunnel
        return get(connection, channel.close, f"{self.name}: port {port}", path, timeout_s, limit_bytes)

    def dial(self, port: int, timeout_s: float = 15.0) -> "paramiko.Channel":
        """A stream to 127.0.0.1:port of the machine, through the connection. Raises `ChannelError`."""
        try:
            return self._transport.open_channel(
                "direct-tcpip", ("127.0.0.1", port), ("127.0.0.1", 0), timeout=timeout_s
            )
        except (OSError, EOFError, self._errors) as error:
            if not self._transport.is_active():
                raise self._lost(error) from error
            words = str(error) or type(error).__name__
            raise ChannelError(
                f"{self.name}: port {port} cannot be reached through the connection: {words}"
            ) from error

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
    run = f'/bin/sh -c {shlex.quote(_RUN)} "$c"'
    script = (
        "for n in 1 2; do printf '\\036diagnoser %s\\036' $$ >&$n; done; "
        f"c={shlex.quote(line)}; "
        f"if timeout 1 true 2>/dev/null; then exec timeout -s KILL {timeout_s + 5:.0f} {run}; fi; exec {run}"
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
    with selectors.DefaultSelector() as ready:
        ready.register(session, selectors.EVENT_READ)
        while True:
            # Looked at before reading: what came before the end is then all read.
            over = session.closed or session.eof_received
            while session.recv_ready():
                if not gathered.add("out", session.recv(1 << 16)):
                    return True
            while session.recv_stderr_ready():
                if not gathered.add("err", session.recv_stderr(1 << 16)):
                    return True
            if over:
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            ready.select(left)


class _Tunnel:
    """A channel as http.client wants its socket: closing it leaves what was sent readable."""

    def __init__(self, channel: "paramiko.Channel") -> None:
        self.sendall = channel.sendall
        self.makefile = channel.makefile

    def close(self) -> None:
        """The channel is closed when the answer is read."""
