"""Streams of bytes that end quietly: what went wrong is said in `trouble` and never raised."""

import io
import os
from typing import IO

from diagnoser.sources.base import Limits, Stream

ENDS_EARLY = "the archive ends early; what could be read was read, copy it again for the rest"

LEFT = "the next source was asked for before this one was read; read it again"


class Flow:
    """What one opened file or stream has cost so far. Shared by all streams that are read out of it.

    consumed: bytes read of it; size: how many there are, if known; members: archive entries seen.
    stopped: why nothing more is read of it.
    """

    def __init__(self, limits: Limits, size: int | None = None) -> None:
        self.limits = limits
        self.size = size
        self.consumed = 0
        self.members = 0
        self.stopped: str | None = None
        self._produced: dict[int, int] = {}

    def unpacked(self, layer: int, count: int) -> None:
        """Accounts for `count` bytes that came out of a layer of packing, counted from the outside."""
        self._produced[layer] = self._produced.get(layer, 0) + count
        most = max(self._produced.values())
        if most > self.limits.bomb_bytes and self.ratio > self.limits.bomb_ratio and not self.stopped:
            self.stopped = (
                f"it unpacks to more than {self.limits.bomb_ratio:g} times its size and was given up after "
                f"{most} bytes; unpack it and give the files if it is meant to be so large"
            )

    @property
    def ratio(self) -> float:
        """Bytes that came out per byte that was read, over all members; 1 without packing."""
        read = self.consumed if self.size is None else min(self.consumed, self.size)
        return max(self._produced.values()) / max(read, 1) if self._produced else 1.0


class Raw(io.RawIOBase):
    """An opened file as a stream, read up to the size it had when it was opened. Counts, and may be sought."""

    def __init__(self, file: IO[bytes], flow: Flow) -> None:
        self._file = file
        self._flow = flow
        self._position = 0
        self._ended = False
        self.trouble: str | None = None

    def read(self, n: int = -1, /) -> bytes:
        """Up to `n` bytes, as many as there are: short only at the end."""
        size = self._flow.size
        left = n
        if size is not None:
            rest = max(0, size - self._position)
            left = min(n, rest) if n >= 0 else rest
            if rest < n and not self._file.closed and os.fstat(self._file.fileno()).st_size > size:
                self.trouble = f"it grew while it was read; its first {size} bytes were read"
        parts: list[bytes] = []
        while left > 0 and not self._ended:
            try:
                part = self._file.read(left)
            except ValueError:  # the file was closed
                self.trouble = LEFT
                break
            except OSError as error:
                self.trouble = f"reading stopped: {_words(error)}; copy it to another disk and try again"
                break
            # A short read of a buffered file is its end. Asked again after a person's Ctrl-D, a terminal
            # would wait for more.
            self._ended = size is None and len(part) < left
            if not part:
                break
            parts.append(part)
            left -= len(part)
            self._position += len(part)
            self._flow.consumed += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        if self._file.closed:
            self.trouble = LEFT
            return self._position
        base = (0, self._position, self._flow.size or 0)[whence]
        self._position = self._file.seek(base + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._flow.size is not None


class Held(io.BytesIO):
    """Bytes in memory as a stream."""

    trouble: str | None = None


class Peekable:
    """A stream whose beginning can be looked at before it is read."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._head = b""

    @property
    def trouble(self) -> str | None:
        return self._stream.trouble

    def peek(self, n: int) -> bytes:
        """The next `n` bytes, fewer only at the end."""
        while len(self._head) < n and (more := self._stream.read(n - len(self._head))):
            self._head += more
        return self._head[:n]

    def read(self, n: int, /) -> bytes:
        if self._head:
            out, self._head = self._head[:n], self._head[n:]
            return out
        return self._stream.read(n)


class Part:
    """The next `size` bytes of another stream, for instance a member of a tar."""

    def __init__(self, stream: Stream, size: int) -> None:
        self._stream = stream
        self.left = size
        self.trouble: str | None = None

    def read(self, n: int, /) -> bytes:
        data = self._stream.read(min(n, self.left)) if self.left > 0 else b""
        if not data and self.left > 0 and n > 0:
            self.trouble = self._stream.trouble or ENDS_EARLY
            self.left = 0
        self.left -= len(data)
        return data


class Capped:
    """A stream that ends at the limit for one source. packed: its bytes were compressed or in an archive."""

    def __init__(self, stream: Stream, flow: Flow, packed: bool) -> None:
        self._stream = stream
        self._flow = flow
        self._packed = packed
        self._count = 0
        self._trouble: str | None = None

    @property
    def trouble(self) -> str | None:
        return self._trouble or self._stream.trouble

    def read(self, n: int, /) -> bytes:
        limits = self._flow.limits
        small = self._packed and self._flow.ratio > limits.sane_ratio
        limit = min(limits.source_bytes, limits.member_bytes) if small else limits.source_bytes
        data = b"" if self._trouble else self._stream.read(max(0, min(n, limit - self._count)))
        self._count += len(data)
        if not data and n > 0 and self._count >= limit and self._stream.read(1):
            self._trouble = (
                f"only its first {self._count} bytes were read (the limit); split it and give the parts"
            )
        return data


def fill(stream: Stream, n: int) -> bytes:
    """`n` bytes, fewer only at the end."""
    data = stream.read(n)
    if len(data) == n or not data:
        return data
    parts = [data]
    left = n - len(data)
    while left and (data := stream.read(left)):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)


def too_many(limits: Limits) -> str:
    """Why an archive of too many members is given up."""
    return f"it holds more than {limits.members} files; unpack it and give the ones to read"


def _words(error: Exception) -> str:
    """What the system said, without the file's name and the number."""
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()


def refuse(error: OSError) -> str:
    """Why a file or folder could not be opened, with what to do."""
    cures: tuple[tuple[type[OSError], str], ...] = (
        (FileNotFoundError, "there is no such file; check the path"),
        (PermissionError, "this user may not read it; run as its owner or give a copy"),
        (NotADirectoryError, "there is no such file; check the path"),
    )
    for kind, sentence in cures:
        if isinstance(error, kind):
            return sentence
    return f"it cannot be opened: {_words(error)}; check the path"
