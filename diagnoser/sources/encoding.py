"""What kind of bytes these are, told from their beginning: text and how it is encoded, packed, or no text."""

import codecs
from collections.abc import Callable
from typing import NamedTuple

HEAD = 8192
"""Bytes of a beginning that are looked at."""


class Text(NamedTuple):
    """Text. encoding as Python names it; skip: length of the byte order mark."""

    encoding: str
    skip: int = 0


class Packed(NamedTuple):
    """A compressed stream or an archive. form: gz, bz2, xz, zst, tar, zip."""

    form: str


class Binary(NamedTuple):
    """No text. what: what it looks like, with its article; cure: what to do instead."""

    what: str
    cure: str = "leave it out"


_PACKED = (
    (b"\x1f\x8b", "gz"),
    (b"BZh", "bz2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zst"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
)

_UNPACK = "unpack it and give the folder"
_BINARY = (
    (b"LPKSHHRH", Binary("a systemd journal", "write it out with journalctl --file NAME > journal.txt")),
    (b"7z\xbc\xaf\x27\x1c", Binary("a 7-Zip archive", _UNPACK)),
    (b"Rar!\x1a\x07", Binary("a RAR archive", _UNPACK)),
    (b"\x04\x22\x4d\x18", Binary("an lz4 file", "unpack it with lz4 -d")),
    (b"\x1f\x9d", Binary("a compress (.Z) file", "unpack it with uncompress")),
    (b"\x89LZO", Binary("an lzop file", "unpack it with lzop -d")),
    (b"\x7fELF", Binary("a program or core dump")),
    (b"\x89PNG", Binary("a PNG image", "copy the text instead of the picture")),
    (b"\xff\xd8\xff", Binary("a JPEG image", "copy the text instead of the picture")),
    (b"GIF8", Binary("a GIF image")),
    (b"%PDF-", Binary("a PDF", "save its text")),
    (b"SQLite format 3\x00", Binary("an SQLite database")),
    (b"GGUF", Binary("model weights (GGUF)")),
    (b"PAR1", Binary("a Parquet file")),
    (b"\x89HDF", Binary("an HDF5 file")),
    (b"\x93NUMPY", Binary("a NumPy array")),
)

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# Tab, line feed, form feed, carriage return, backspace, bell and escape do occur in logs.
_CONTROLS = bytes(set(range(1, 32)) - {7, 8, 9, 10, 12, 13, 27}) + b"\x7f"


def recognise(head: bytes) -> Text | Packed | Binary:
    """The kind of a stream, from its first `HEAD` bytes (fewer only if there are no more)."""
    for magic, form in _PACKED:
        if head.startswith(magic) and (form != "bz2" or head[3:4].isdigit()):
            return Packed(form)
    if head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F:
        return Packed("zst")  # a skippable frame stands first
    if is_tar_header(head[:512]):
        return Packed("tar")
    return _text(head)


def _text(head: bytes) -> Text | Binary:
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return Text(encoding, len(mark))
    for magic, binary in _BINARY:
        if head.startswith(magic):
            return binary
    if head[8:10] == b'{"' and head[4:8] == bytes(4):
        return Binary("model weights (safetensors)")
    if wide := _wide(head):
        return Text(wide)
    body = head.lstrip(b"\0")  # a log that was cut while open begins with a hole
    nuls = body.count(0)
    controls = len(body) - len(body.translate(None, _CONTROLS))
    if nuls * 10 > len(body) or controls * 20 > len(body):
        return Binary("binary data")
    return Text("utf-8")


def _wide(head: bytes) -> str | None:
    """UTF-16 without a mark: (nearly) every second byte is NUL."""
    pairs = len(head) // 2
    if pairs < 4:
        return None
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if odd * 10 >= pairs * 8 and even * 10 <= pairs:
        return "utf-16-le" if odd else None
    if even * 10 >= pairs * 8 and odd * 10 <= pairs:
        return "utf-16-be"
    return None


def is_tar_header(block: bytes) -> bool:
    """Whether these 512 bytes are a tar header: its checksum (POSIX ustar, offset 148) holds."""
    if len(block) < 512 or not block[0]:
        return False
    field = block[148:156].strip(b" \0")
    if not field or field.translate(None, b"01234567"):
        return False
    rest = block[:148] + b" " * 8 + block[156:512]
    signed = sum(rest) - 256 * sum(byte > 127 for byte in rest)
    return int(field, 8) in (sum(rest), signed)


class Decoder(NamedTuple):
    """feed: bytes as they come, and whether they are the last, become UTF-8. width: length in the source of
    a piece of that UTF-8, in bytes."""

    feed: Callable[[bytes, bool], bytes]
    width: Callable[[bytes], int]


def decoder(encoding: str) -> Decoder:
    """UTF-8 passes as it is, wrong bytes included: replacing them is the reader's business."""
    if encoding == "utf-8":
        return Decoder(lambda data, _: data, len)
    wide = codecs.getincrementaldecoder(encoding)(errors="replace")
    return Decoder(
        lambda data, final: wide.decode(data, final).encode(),
        lambda text: len(text.decode(errors="replace").encode(encoding)),
    )
