"""Unpacks in a thread while what was unpacked before is read: the libraries of packing leave the interpreter free."""

import weakref
from queue import Full, Queue
from threading import Event, Thread

from diagnoser.sources.base import Stream

AFTER_BYTES = 4 << 20
"""A shorter stream is over before a thread would pay."""

_BLOCK = 1 << 20
_BLOCKS = 4
_PATIENCE_S = 0.2

_End = str | None


class Ahead:
    """Another stream, read ahead by a few MiB once it turns out long. Gives the same bytes and the same trouble."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._count = 0
        self._blocks: Queue[bytes | tuple[_End]] | None = None
        self._rest = memoryview(b"")
        self._trouble: str | None = None
        self._ended = False

    @property
    def trouble(self) -> str | None:
        return self._stream.trouble if self._blocks is None else self._trouble

    def read(self, n: int, /) -> bytes:
        if self._blocks is None and self._count < AFTER_BYTES:
            data = self._stream.read(n)
            self._count += len(data)
            return data
        if self._blocks is None:
            self._blocks = Queue(_BLOCKS)
            stop = Event()
            weakref.finalize(self, stop.set)
            Thread(target=_fill, args=(self._stream, self._blocks, stop), daemon=True).start()
        if not self._rest and not self._ended:
            block = self._blocks.get()
            if isinstance(block, tuple):
                self._ended = True
                (self._trouble,) = block
            else:
                self._rest = memoryview(block)
        out = bytes(self._rest[:n])
        self._rest = self._rest[n:]
        return out


def _fill(stream: Stream, blocks: "Queue[bytes | tuple[_End]]", stop: Event) -> None:
    """Runs in the thread, and knows nothing of the reader, so that one that was left can be collected."""
    item: bytes | tuple[_End] = b""
    while not isinstance(item, tuple):
        parts: list[bytes] = []
        left = _BLOCK
        while left > 0 and (data := stream.read(left)):
            parts.append(data)
            left -= len(data)
        item = b"".join(parts) or (stream.trouble,)
        while not stop.is_set():
            try:
                blocks.put(item, timeout=_PATIENCE_S)
                break
            except Full:
                continue
        if stop.is_set():
            return
