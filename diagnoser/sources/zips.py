"""Zip archives: members by name, each a bounded stream."""

import lzma
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple, cast

from diagnoser.sources.streams import Flow, Held, Raw, too_many

_DAMAGE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    OSError,
    EOFError,
    ValueError,
    IndexError,
    OverflowError,
    RuntimeError,  # NotImplementedError, too
)
_TAIL = 22 + 65535  # the longest end record with its comment
_DIRECTORY_PER_MEMBER = 512  # bytes; most names are far shorter


class Member(NamedTuple):
    """A file in a zip; `refusal` says why it cannot be read."""

    name: str
    size: int
    refusal: str | None
    info: zipfile.ZipInfo


def oversized(file: IO[bytes], limit: int) -> bool:
    """Whether the directory names more than `limit` members, told before it is loaded into memory.

    Reads the end of central directory record (APPNOTE 4.3.16, and 4.3.14 for zip64).
    """
    end = file.seek(0, 2)
    file.seek(max(0, end - _TAIL))
    tail = file.read(_TAIL)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) < at + 22:
        return False
    count, size = struct.unpack_from("<HI", tail, at + 10)
    wide = tail.rfind(b"PK\6\6", 0, at)
    if wide >= 0 and len(tail) >= wide + 48:
        count, size = map(max, (count, size), struct.unpack_from("<QQ", tail, wide + 32))
    return bool(count > limit or size > max(limit * _DIRECTORY_PER_MEMBER, _TAIL))


class Zip:
    """The members of a zip, sorted by name. trouble: why there are none, or fewer than there should be."""

    def __init__(self, file: Raw | Held, flow: Flow) -> None:
        self._file = file
        self._flow = flow
        self.trouble: str | None = None
        self._zip: zipfile.ZipFile | None = None
        try:
            if not oversized(cast("IO[bytes]", file), flow.limits.members):
                self._zip = zipfile.ZipFile(cast("IO[bytes]", file))
            if not self._zip or len(self._zip.filelist) > flow.limits.members:
                self._zip, self.trouble = None, too_many(flow.limits)
        except _DAMAGE as error:
            self.trouble = f"the archive is damaged or cut ({error}); copy it again"

    def __iter__(self) -> Iterator[Member]:
        infos = self._zip.infolist() if self._zip else []
        for info in sorted(infos, key=lambda info: (info.filename, info.header_offset)):
            if not info.is_dir():
                yield Member(info.filename, info.file_size, _refusal(info), info)

    def open(self, member: Member, layer: int) -> "Unzipped":
        assert self._zip is not None
        return Unzipped(self._zip, member.info, self._file, self._flow, layer)


def _refusal(info: zipfile.ZipInfo) -> str | None:
    if info.flag_bits & 1:
        return "it is encrypted; unpack it with its password and give the files"
    mode = info.external_attr >> 16
    if stat.S_ISLNK(mode):
        return "it is a link; its target is read under its own name"
    if mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return "it is a device or a pipe; nothing can be read from it"
    if info.compress_type not in (0, 8, 12, 14):
        return f"it is packed by a method that is not known here ({info.compress_type}); unpack it and give the files"
    return None


class Unzipped:
    """The text of a zip member."""

    def __init__(
        self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, below: Raw | Held, flow: Flow, layer: int
    ) -> None:
        self._archive = archive
        self._info = info
        self._below = below
        self._flow = flow
        self._layer = layer
        self._file: IO[bytes] | None = None
        self._trouble: str | None = None

    @property
    def trouble(self) -> str | None:
        return self._trouble or self._flow.stopped

    def read(self, n: int, /) -> bytes:
        if self.trouble:
            return b""
        try:
            if self._file is None:
                self._file = self._archive.open(self._info)
            data = self._file.read(min(n, 1 << 20))
        except _DAMAGE as error:
            damage = f"the archive is damaged ({error}); what could be read was read, copy it again"
            self._trouble = self._below.trouble or damage
            return b""
        self._flow.unpacked(self._layer, len(data))
        return data
