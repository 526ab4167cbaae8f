r"""Text as it was meant: without NULs, terminal escapes and overwritten progress bars. Line by line.

Everything here works within lines, so that ``clean(a + b) == clean(a) + clean(b)`` wherever a line ends:
chunks may be cut anywhere and processed by anyone.
"""

import codecs

from diagnoser.facts.lazy import lazy

ESC_SEQUENCE = lazy(
    rb"\x1b(?:"
    rb"\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor
    rb"|[\]PX^_][^\x07\x1b\r\n]{0,4096}(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC: titles, hyperlinks
    rb"|[ -/]{0,4}[0-~]"
    rb")?"
)

# Taken for colour codes only in lines that hold a reset, and never where a unit follows ("[10ms]", "[5m]").
_LOST_RESET = lazy(rb"\[0(?:;0)?m(?!s\b|in|\])")
_LOST_SEQUENCE = lazy(
    rb"(?:\^\[|\\(?:x1b|033|e|u001b))\[[\d;]{0,16}m|\[\d{1,3}(?:;\d{1,3}){0,4}m(?!s\b|in|\])"
)

_UNSAFE = lazy(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


def clean(data: bytes) -> bytes:
    r"""Complete lines without NULs, escape sequences, ``\r`` and what a ``\r`` overwrote. Line ends stay."""
    if b"\0" in data:
        data = data.translate(None, b"\0")
    if b"\x1b" in data:
        data = ESC_SEQUENCE.sub(b"", data)
    if b"\r" in data:
        data = _overwrite(data.replace(b"\r\n", b"\n"))
    return data


def _overwrite(data: bytes) -> bytes:
    parts: list[bytes] = []
    done = 0
    while (cr := data.find(b"\r", done)) >= 0:
        start = max(data.rfind(b"\n", done, cr) + 1, done)
        end = data.find(b"\n", cr)
        end = len(data) if end < 0 else end
        parts += (data[done:start], last_written(data[start:end]))
        done = end
    parts.append(data[done:])
    return b"".join(parts)


def last_written(line: bytes) -> bytes:
    r"""What a terminal ends up with, roughly: the last text between ``\r`` that is not empty."""
    line = line.rstrip(b"\r")
    return line[line.rfind(b"\r") + 1 :]


def has_lost_colours(data: bytes) -> bool:
    """Whether colour codes stand here without their ESC byte, as an issue tracker leaves them."""
    return _LOST_RESET.search(data) is not None


def strip_lost_colours(data: bytes) -> bytes:
    """Removes colour codes that lost their ESC byte, or have it spelled out, as `cat -v` and JSON do."""
    parts: list[bytes] = []
    done = 0
    for hit in _LOST_RESET.finditer(data):
        if hit.start() < done:
            continue
        start = max(data.rfind(b"\n", done, hit.start()) + 1, done)
        end = data.find(b"\n", hit.end())
        end = len(data) if end < 0 else end
        parts += (data[done:start], _LOST_SEQUENCE.sub(b"", data[start:end]))
        done = end
    parts.append(data[done:])
    return b"".join(parts)


class LongLine:
    r"""A line too long to hold, fed in pieces. Knows the text after its last ``\r``, up to `limit` bytes.

    A log that was cut while open begins with a hole of NULs, and hours of progress bar stand in one line:
    both are long, yet their text is short and is kept whole.
    """

    def __init__(self, limit: int, kept: int) -> None:
        self._limit = limit
        self._kept = kept
        self._text = bytearray()
        self._size = 0
        self._before: tuple[bytes, int] = (b"", 0)

    def feed(self, piece: bytes) -> None:
        closed, cr, open_ = piece.translate(None, b"\0").rpartition(b"\r")
        if cr:
            closed = closed.rstrip(b"\r")
            at = closed.rfind(b"\r")
            if at >= 0:
                self._begin()
            self._add(closed[at + 1 :])
            self._close()
        self._add(open_)

    def _begin(self) -> None:
        self._text.clear()
        self._size = 0

    def _add(self, text: bytes) -> None:
        self._text += text[: max(0, self._limit - len(self._text))]
        self._size += len(text)

    def _close(self) -> None:
        if self._size:
            self._before = (bytes(self._text), self._size)
        self._begin()

    def result(self) -> tuple[bytes, int]:
        """The line's text, marked where it was cut, and its length in bytes, 0 when nothing was cut."""
        self._close()
        text, size = self._before
        if size <= self._limit:
            return text, 0
        text = _whole_characters(text[: self._kept])
        return text + b" ...[%d bytes of this line not read]" % (size - len(text)), size


def _whole_characters(data: bytes) -> bytes:
    """Drops a UTF-8 character that was cut at the end."""
    tail = data[-4:]
    _, whole = codecs.utf_8_decode(tail, "replace", False)
    return data[: len(data) - len(tail) + whole]


def printable(text: str) -> str:
    r"""`text` that no terminal obeys: controls (C0 but tab and line feed, C1), bidirectional overrides,
    invisible marks and lone surrogates are spelled out (``\x1b``, ``\u202e``)."""
    return _UNSAFE.sub(lambda found: found.group().encode("unicode_escape").decode("ascii"), text)


def escaped(json: str) -> str:
    r"""A JSON text with the characters that `printable` spells out as JSON escapes (``\u202e``)."""
    return _UNSAFE.sub(lambda found: "".join(map(_json_escape, found.group())), json)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def label(name: str) -> str:
    """A name for one line of output: `printable`, without line ends and tabs."""
    return printable(name).replace("\n", r"\n").replace("\t", r"\t")
