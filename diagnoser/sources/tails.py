"""The end of a file that is being written: what is new since the last look, through rotation and truncation."""

import os
from pathlib import Path
from typing import NamedTuple, Protocol

from diagnoser.sources.base import SourceError
from diagnoser.sources.hosts.readonly import ReadOnlyHost
from diagnoser.sources.streams import refuse

MOST_BYTES = 4 << 20
"""So much is given at a time."""

ROTATED = "the file was replaced by a new one"
TRUNCATED = "the file was cut and begins anew"


class Fresh(NamedTuple):
    """What was written. event: what happened to the file before it was, `ROTATED` or `TRUNCATED`."""

    data: bytes
    event: str | None = None


class Tail(Protocol):
    """A file that is looked at again and again. The first look begins at its beginning. Raises SourceError."""

    name: str

    def read(self) -> Fresh: ...

    def close(self) -> None: ...


class FileTail:
    """A file of this machine. A file that is gone is waited for."""

    def __init__(self, path: str | Path) -> None:
        self.name = os.fspath(path)
        try:
            self._file: int | None = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise SourceError(f"{path}: {refuse(error)}") from error
        self._at = 0

    def read(self) -> Fresh:
        event = None
        if self._file is not None and os.fstat(self._file).st_size < self._at:
            os.lseek(self._file, 0, os.SEEK_SET)
            self._at, event = 0, TRUNCATED
        data = self._next()
        if not data and event is None and self._replaced():
            # What was written into the old file until now was read before.
            self.close()
            try:
                self._file, self._at = os.open(self.name, os.O_RDONLY | getattr(os, "O_BINARY", 0)), 0
            except OSError:
                return Fresh(b"")
            return Fresh(self._next(), ROTATED)
        return Fresh(data, event)

    def _next(self) -> bytes:
        try:
            data = b"" if self._file is None else os.read(self._file, MOST_BYTES)
        except OSError as error:
            raise SourceError(f"{self.name}: {refuse(error)}") from error
        self._at += len(data)
        return data

    def _replaced(self) -> bool:
        try:
            there = os.stat(self.name)
        except OSError:
            return False
        if self._file is None:
            return True
        mine = os.fstat(self._file)
        return (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class HostTail:
    """A file of another machine, asked for what is new. The last lines before a rotation may be missed."""

    def __init__(self, host: ReadOnlyHost, path: str) -> None:
        self.name = path
        self._host = host
        self._at = 0
        self._number: bytes | None = None

    def read(self) -> Fresh:
        number, size, data = self._look()
        event = None
        if self._number is not None and (number != self._number or size < self._at):
            event = ROTATED if number != self._number else TRUNCATED
            self._at = 0
            number, size, data = self._look()
        self._number = number
        self._at += len(data)
        return Fresh(data, event)

    def _look(self) -> tuple[bytes, int, bytes]:
        """The file's number, its size, and what stands behind the place that was read to."""
        output = self._host.run("log.new", {"path": self.name, "offset": self._at + 1})
        told, _, data = output.stdout.partition(b"\x1e")
        words = told.split()
        if output.exit_code == 3 or len(words) != 2 or not words[1].isdigit():
            said = output.stderr.decode("utf-8", "replace").strip()[:200] or "nothing came back in time"
            raise SourceError(f"{self._host.name}: {self.name}: {said}")
        return words[0], int(words[1]), data

    def close(self) -> None:
        self._host.close()
