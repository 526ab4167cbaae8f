"""Every command that was given to a machine, written down where the user can read it."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from diagnoser.sources.hosts.channel import MIB, Channel, ChannelError, Output, Reply, now


def audit_file() -> Path:
    """``audit.jsonl`` in the user's state folder (``$DIAGNOSER_AUDIT`` names another file)."""
    named = os.environ.get("DIAGNOSER_AUDIT")
    if named:
        return Path(named)
    from platformdirs import user_state_path

    return user_state_path("diagnoser", appauthor=False) / "audit.jsonl"


class Audited:
    """A channel whose commands are appended to the audit log, one JSON object a line.

    Keys: at (UTC), host, command or get, exit_code, stdout_bytes, stderr_bytes, wall_s, and error where there was
    one. A log that cannot be written stops the command: what is not written down is not done.
    """

    def __init__(self, channel: Channel, file: Path | None = None) -> None:
        self.name = channel.name
        self._channel = channel
        self._file = file or audit_file()

    def execute(
        self, line: str, *, timeout_s: float = 20.0, limit_bytes: int = 16 * MIB, stdin: bytes = b""
    ) -> Output:
        row: dict[str, object] = {"at": now().isoformat(), "host": self.name, "command": line}
        self._writable()
        try:
            output = self._channel.execute(line, timeout_s=timeout_s, limit_bytes=limit_bytes, stdin=stdin)
        except ChannelError as error:
            self._write({**row, "error": str(error)})
            raise
        sizes = {"stdout_bytes": len(output.stdout), "stderr_bytes": len(output.stderr)}
        self._write({**row, "exit_code": output.exit_code, **sizes, "wall_s": round(output.wall_s, 3)})
        return output

    def fetch(self, port: int, path: str, *, timeout_s: float = 5.0, limit_bytes: int = 4 * MIB) -> Reply:
        row: dict[str, object] = {
            "at": now().isoformat(),
            "host": self.name,
            "get": f"127.0.0.1:{port}{path}",
        }
        self._writable()
        try:
            reply = self._channel.fetch(port, path, timeout_s=timeout_s, limit_bytes=limit_bytes)
        except ChannelError as error:
            self._write({**row, "error": str(error)})
            raise
        self._write({**row, "status": reply.status, "stdout_bytes": len(reply.body)})
        return reply

    def close(self) -> None:
        self._channel.close()

    def _writable(self) -> None:
        with self._told():
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(self._open())

    def _write(self, row: dict[str, object]) -> None:
        # One write of one line to a file opened for appending: processes at the same time do not mix.
        with self._told():
            descriptor = self._open()
            try:
                os.write(descriptor, (json.dumps(row) + "\n").encode())
            finally:
                os.close(descriptor)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            words = f"the audit log {self._file} cannot be written: {error.strerror}; name another with DIAGNOSER_AUDIT"
            raise ChannelError(words) from error

    def _open(self) -> int:
        return os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
