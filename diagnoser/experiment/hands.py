"""A machine that an experiment may change: its scripts, each written to the audit log before its answer is used.

Looking at a machine goes through the list of `diagnoser.sources.hosts.readonly` and changes nothing; this is the other
way, and nothing but `diagnoser.experiment` goes it.
"""

import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from diagnoser.sources.hosts.audit import audit_file
from diagnoser.sources.hosts.channel import MIB, Channel, ChannelError, Output, now
from diagnoser.sources.redaction import redact

RECONNECT_S = 60.0
"""How long a lost machine is tried again."""


class HandsError(RuntimeError):
    """A step that a machine refused; the message is one sentence."""


class Hands:
    """One machine. dial: how it is reached; it may be dialled again after a loss. local: it is this one."""

    def __init__(self, dial: Callable[[], Channel], name: str, *, local: bool) -> None:
        self.name = name
        self.local = local
        self._dial = dial
        self._channel: Channel | None = None
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def run(
        self,
        script: str,
        why: str,
        *,
        timeout_s: float = 30.0,
        limit_bytes: int = 16 * MIB,
        often: bool = False,
    ) -> Output:
        """Run a POSIX shell script. why: in words, for the audit log. often: a look that is repeated, and logged once.

        The script goes in by standard input, so that no list of processes shows what it holds. Raises `ChannelError`
        when the machine cannot be reached.
        """
        if not often or why not in self._told:
            self._told.add(why)
            self._write(
                {"at": now().isoformat(), "host": self.name, "experiment": why, "script": _masked(script)}
            )
        return self.channel.execute(
            'eval "$(cat)"',
            timeout_s=timeout_s,
            limit_bytes=limit_bytes,
            stdin=script.encode("utf-8", "surrogateescape"),
        )

    def do(self, script: str, why: str, *, timeout_s: float = 30.0, often: bool = False) -> str:
        """Run a script that must succeed; what it printed. Raises `HandsError`, `ChannelError`."""
        output = self.run(script, why, timeout_s=timeout_s, often=often)
        if not output.ok:
            said = output.stderr.decode("utf-8", "replace").strip().splitlines()
            words = said[-1][:300] if said else f"exit code {output.exit_code}"
            words = f"it took longer than {timeout_s:.0f} s" if output.timed_out else words
            raise HandsError(f"{self.name}: {why} failed: {words}")
        return output.stdout.decode("utf-8", "replace")

    @property
    def channel(self) -> Channel:
        with self._lock:  # signs of life come from another thread
            if self._channel is None:
                self._channel = self._dial()
            return self._channel

    def again(self, within_s: float = RECONNECT_S) -> None:
        """Reach the machine again after a loss. Raises `ChannelError` when that fails for so long."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                self.run("true", "see whether the machine is there", timeout_s=10, often=True)
                return
            except ChannelError:
                self.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)

    def dial_port(self, port: int) -> Any:
        """A stream to a port of another machine's loopback. Raises `ChannelError`."""
        from diagnoser.sources.hosts.ssh import SshChannel

        channel = self.channel
        assert isinstance(channel, SshChannel)
        return channel.dial(port)

    def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _write(self, row: dict[str, Any]) -> None:
        file = audit_file()
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, (json.dumps(row) + "\n").encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            words = (
                f"the audit log {file} cannot be written: {error.strerror}; name another with DIAGNOSER_AUDIT"
            )
            raise ChannelError(words) from error


def _masked(script: str) -> str:
    hidden = bytearray(script.encode("utf-8", "replace"))
    redact(hidden)
    return hidden.decode("utf-8", "replace")


def this_machine() -> Hands:
    """Hands on this machine."""
    import socket

    from diagnoser.sources.hosts.local import LocalChannel

    return Hands(LocalChannel, socket.gethostname(), local=True)


def over_ssh(
    target: str, *, accept_new_host_key: bool = False, ask: Callable[[str], str] | None = None
) -> Hands:
    """Hands on the machine that ``ssh target`` would reach."""
    from diagnoser.sources.hosts.ssh import ConnectOptions, connect

    options = ConnectOptions(accept_new_host_key=accept_new_host_key, ask=ask)
    return Hands(lambda: connect(target, options), target, local=False)
