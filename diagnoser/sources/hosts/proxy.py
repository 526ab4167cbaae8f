"""The way to a machine through a command of the user's (ProxyCommand)."""

import contextlib
import socket
import subprocess
import tempfile
import threading

from diagnoser.sources.hosts.channel import ChannelError


class ProxyCommand(socket.socket):
    """A command as a socket. As ssh does, a shell runs it; what it says of itself is kept for the error.

    paramiko's own class knows no shell and spins when the command ends.
    """

    def __init__(self, name: str, command: str) -> None:
        ours, theirs = socket.socketpair()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        with theirs:
            try:
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", f"exec {command}"],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=self._said,
                )
            except (OSError, ValueError) as error:
                ours.close()
                self._said.close()
                raise ChannelError(f"{name}: its ProxyCommand cannot be started: {error}") from error
        super().__init__(ours.family, ours.type, ours.proto, ours.detach())
        self._closing = threading.Lock()  # paramiko's thread closes it too
        self._words = ""

    def words(self) -> str:
        """Its last words, where it has ended or was closed."""
        return self._words

    def close(self) -> None:
        super().close()
        with self._closing:
            if not self._said.closed:
                self._end()

    def _end(self) -> None:
        # It ends by itself when its input does; one that does not is ended.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
        self._said.seek(0)
        lines = self._said.read(1 << 16).decode("utf-8", "replace").split("\n")
        self._words = next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")
        self._said.close()
