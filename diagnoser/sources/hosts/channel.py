"""The way to one machine: commands go in, their output comes back, bounded in size and time."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from diagnoser.sources.base import SourceError

MIB = 1 << 20


class ChannelError(SourceError):
    """A machine that cannot be reached or asked; the message is one sentence that says what, where and what to do."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a command gave.

    exit_code: None where it is not known, because the connection was lost or the command was ended by a limit.
    truncated: there was more than the limit; timed_out: it ran into its deadline. started: UTC.
    """

    stdout: bytes
    stderr: bytes
    exit_code: int | None
    wall_s: float
    started: datetime
    truncated: bool = False
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.truncated


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of an HTTP server on the machine."""

    status: int
    body: bytes
    truncated: bool = False


class Channel(Protocol):
    """A machine. Commands may be given from several threads at once.

    name: as it is printed ("gpu-07", "local").
    """

    name: str

    def execute(
        self, line: str, *, timeout_s: float = 20.0, limit_bytes: int = 16 * MIB, stdin: bytes = b""
    ) -> Output:
        """Run one line of POSIX shell. It and what it started are ended at the deadline or the limit.

        Raises `ChannelError` when the machine cannot be asked at all.
        """
        ...

    def fetch(self, port: int, path: str, *, timeout_s: float = 5.0, limit_bytes: int = 4 * MIB) -> Reply:
        """HTTP GET from 127.0.0.1:port of the machine, through the connection; no port is opened anywhere.

        Raises `ChannelError` when nothing answers.
        """
        ...

    def close(self) -> None: ...


Dial = Callable[[], "Channel"]


def now() -> datetime:
    return datetime.now(UTC)


class Gathered:
    """Output as it comes in, up to a limit."""

    def __init__(self, limit_bytes: int) -> None:
        self._left = limit_bytes
        self._parts: dict[str, list[bytes]] = {"out": [], "err": []}
        self.truncated = False

    def add(self, stream: str, data: bytes) -> bool:
        """False when the limit is reached and the command should be ended."""
        self._parts[stream].append(data[: max(0, self._left)])
        self.truncated = self.truncated or len(data) > self._left
        self._left -= len(data)
        return not self.truncated

    def of(self, stream: str) -> bytes:
        return b"".join(self._parts[stream])
