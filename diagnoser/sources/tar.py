"""Tar archives read in one pass, without the file system.

The standard library's reader holds a pax header of any size in memory and trusts sizes it has not checked;
a log reader needs names, sizes and bytes only, so it reads those.
"""

from collections.abc import Iterator
from typing import NamedTuple

from diagnoser.sources.base import Stream
from diagnoser.sources.encoding import is_tar_header
from diagnoser.sources.streams import ENDS_EARLY, LEFT, Part, fill

_BLOCK = 512
_MAX_NAME = 64 << 10  # of a long name or a pax header
_KINDS = {
    b"1": "link",
    b"2": "link",
    b"3": "device",
    b"4": "device",
    b"5": "folder",
    b"6": "pipe",
    b"S": "sparse file",
}


class Entry(NamedTuple):
    """A member. kind: file, link, device, folder, pipe or sparse file; target: of a link.

    data ends where the next entry begins; it is read before the next entry is asked for, or never.
    """

    name: str
    kind: str
    size: int
    target: str
    data: Part


class Tar:
    """The entries of a tar stream. trouble is set when they end before the archive does."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.trouble: str | None = None

    def __iter__(self) -> Iterator[Entry]:
        override: dict[str, str] = {}
        while header := self._header():
            kind = header[156:157]
            size = _size(header, override)
            if size < 0 or (kind in b"xgLK" and size > _MAX_NAME):
                self.trouble = "the archive is damaged (impossible size); copy it again"
                return
            part = Part(self._stream, size)
            if kind in (b"x", b"L", b"K"):
                override |= _extension(kind, fill(part, size))
            elif kind != b"g":
                if kind == b"S":
                    self._skip_sparse_map(header)
                elif kind in _KINDS:
                    part.left = size = 0  # the size of a link is its target's
                yield _entry(header, override, size, part)
                override = {}
            if not self._skip(part, -size % _BLOCK):
                return

    def _header(self) -> bytes:
        header = fill(self._stream, _BLOCK)
        if len(header) == _BLOCK and not any(header):
            return b""
        if not is_tar_header(header):
            broken = "the archive is damaged; copy it again"
            self.trouble = self._stream.trouble or (broken if len(header) == _BLOCK else ENDS_EARLY)
            return b""
        return header

    def _skip_sparse_map(self, header: bytes) -> None:
        """Old GNU format: blocks of the map follow while byte 482 (in the header) or 504 (after it) is set."""
        more = header[482:483]
        while more.strip(b"\0"):
            more = fill(self._stream, _BLOCK)[504:505]

    def _skip(self, part: Part, padding: int) -> bool:
        left = part.left
        while part.read(1 << 20):
            pass
        if part.trouble:
            self.trouble = part.trouble
            return False
        fill(self._stream, padding)
        if left:
            part.trouble = LEFT
        return True


def _size(header: bytes, override: dict[str, str]) -> int:
    digits = override.get("size", "")
    return (
        int(digits)
        if digits.isascii() and digits.isdigit() and len(digits) < 20
        else _number(header[124:136])
    )


def _entry(header: bytes, override: dict[str, str], size: int, part: Part) -> Entry:
    name = _text(header[:100])
    if header[257:263] == b"ustar\0" and (prefix := _text(header[345:500])):
        name = f"{prefix}/{name}"
    name = override.get("path") or name
    kind = _KINDS.get(header[156:157], "file")
    if kind == "file" and name.endswith("/"):
        kind = "folder"  # as old tars wrote it
    if any(key.startswith("GNU.sparse.") for key in override):
        kind = "sparse file"
        name = override.get("GNU.sparse.name") or name
    return Entry(name, kind, size, override.get("linkpath") or _text(header[157:257]), part)


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode(errors="replace")


def _number(field: bytes) -> int:
    """Octal digits, or base 256 when the first bit is set; -1 for neither and for negative numbers."""
    if field[0] & 0x80:
        return int.from_bytes(field[1:], "big") if field[0] == 0x80 else -1
    digits = field.split(b"\0", 1)[0].strip()
    if digits.translate(None, b"01234567"):
        return -1
    return int(digits or b"0", 8)


def _extension(kind: bytes, data: bytes) -> dict[str, str]:
    """A long name (GNU), a long link target (GNU), or the records of a pax header ("30 path=a/b\\n")."""
    if kind != b"x":
        return {"path" if kind == b"L" else "linkpath": _text(data)}
    found: dict[str, str] = {}
    at = 0
    while (space := data.find(b" ", at, at + 8)) >= 0:
        digits = data[at:space]
        length = int(digits) if digits.isdigit() else 0
        key, equals, value = data[space + 1 : at + length].partition(b"=")
        if not equals or not value.endswith(b"\n"):
            break
        found[key.decode(errors="replace")] = value[:-1].decode(errors="replace")
        at += length
    return found
