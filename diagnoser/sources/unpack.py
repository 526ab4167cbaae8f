"""gzip, bzip2, xz and zstd as streams: bounded memory, several members in a row, cut files to their last byte."""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

from diagnoser.sources.base import Stream
from diagnoser.sources.streams import ENDS_EARLY, Flow

_IN = 32 << 10
_OUT = 1 << 20
_XZ_MEMORY = 160 << 20  # `xz -9` needs 65 MiB
_ZSTD_WINDOW = 128 << 20  # what `zstd -d` itself allows without being asked
_ZSTD_MAGICS = (b"\x28\xb5\x2f\xfd", *(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60)))
_ZSTD_IN = 512  # a block of 4 bytes unpacks to 128 KiB at most: 16 MiB a step


class _Cut(Exception):  # noqa: N818 - no error of the caller's
    """The packed bytes ended before the stream did."""


class _Decoder(Protocol):
    """As bz2 and lzma have it."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def needs_input(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def _more(read: Callable[[int], bytes]) -> bytes:
    if data := read(_IN):
        return data
    raise _Cut


def _gz(read: Callable[[int], bytes]) -> Iterator[bytes]:
    data = _more(read)
    while data:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            data = data or read(_IN)
            if not data:
                yield member.flush()
                raise _Cut
            yield member.decompress(data, _OUT)
            data = member.unconsumed_tail
        data = _next(member.unused_data, read, b"\x1f\x8b")


def _next(data: bytes, read: Callable[[int], bytes], *magics: bytes) -> bytes:
    """What follows a member: another one, or zeros that fill a tape's block, or bytes that are not ours."""
    data = data.lstrip(b"\0")
    while len(data) < 4 and (more := read(_IN)):
        data = (data + more).lstrip(b"\0")
    return data if data.startswith(magics) else b""


def _stdlib(
    make: Callable[[], _Decoder], magic: bytes
) -> Callable[[Callable[[int], bytes]], Iterator[bytes]]:
    def unpack(read: Callable[[int], bytes]) -> Iterator[bytes]:
        data = _more(read)
        while data:
            member = make()
            while not member.eof:
                if member.needs_input:
                    data = data or _more(read)
                yield member.decompress(data, _OUT)
                data = b""
            data = _next(member.unused_data, read, magic)

    return unpack


def _zst(read: Callable[[int], bytes]) -> Iterator[bytes]:
    import zstandard

    data = _more(read)
    while data:
        frame = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
        while not frame.eof:
            view = memoryview(data or _more(read))
            data = b""
            for at in range(0, len(view), _ZSTD_IN):
                yield frame.decompress(view[at : at + _ZSTD_IN])
                if frame.eof:
                    data = frame.unused_data + view[at + _ZSTD_IN :]
                    break
        data = _next(data, read, *_ZSTD_MAGICS)


CODECS: dict[str, Callable[[Callable[[int], bytes]], Iterator[bytes]]] = {
    "gz": _gz,
    "bz2": _stdlib(bz2.BZ2Decompressor, b"BZh"),
    "xz": _stdlib(lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY), b"\xfd7zXZ"),
    "zst": _zst,
}


class Unpacked:
    """The text of a compressed stream. layer: how many layers of packing lie around it, itself included."""

    def __init__(self, stream: Stream, form: str, flow: Flow, layer: int) -> None:
        self._stream = stream
        self._flow = flow
        self._layer = layer
        self._pieces = CODECS[form](stream.read)
        self._rest = memoryview(b"")
        self._trouble: str | None = None

    @property
    def trouble(self) -> str | None:
        return self._trouble or self._flow.stopped

    def read(self, n: int, /) -> bytes:
        while not self._rest and not self.trouble:
            piece = self._step()
            if piece is None:
                break
            self._flow.unpacked(self._layer, len(piece))
            self._rest = memoryview(piece)
        out = bytes(self._rest[:n])
        self._rest = self._rest[n:]
        return out

    def _step(self) -> bytes | None:
        try:
            return next(self._pieces, None)
        except _Cut:
            self._trouble = self._stream.trouble or ENDS_EARLY
        except Exception as error:  # zstandard's own error has no base of ours; damaged input is no bug
            self._trouble = f"the archive is damaged ({error}); what could be read was read, copy it again"
        return None
