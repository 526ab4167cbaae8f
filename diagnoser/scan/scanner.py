"""The one-pass literal scanner and its naive twin."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, Protocol, overload


class Hit(NamedTuple):
    """A literal's end: ``end`` is the byte offset just behind it, ``literal`` its number in the table."""

    end: int
    literal: int


_LITERAL_BITS = 20
_LITERAL_MASK = (1 << _LITERAL_BITS) - 1
_SORTED_AT_ONCE = 1 << 16


class Hits(Sequence[Hit]):
    """Hits in eight bytes each: a text of nothing but short literals has millions."""

    __slots__ = ("_packed",)

    def __init__(self, hits: Iterable[tuple[int, int]] = ()) -> None:
        self._packed = array("Q", (end << _LITERAL_BITS | literal for end, literal in hits))

    @classmethod
    def packed(cls, packed: "array[int]") -> "Hits":
        """Of hits that come in the order of their ends, each one number; sorts those of one end."""
        hits = cls()
        start = 0
        while start < len(packed):
            stop = min(start + _SORTED_AT_ONCE, len(packed))
            while stop < len(packed) and packed[stop] >> _LITERAL_BITS == packed[stop - 1] >> _LITERAL_BITS:
                stop += 1
            hits._packed.extend(sorted(packed[start:stop]))
            start = stop
        return hits

    def __len__(self) -> int:
        return len(self._packed)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> "list[Hit]": ...
    def __getitem__(self, index: int | slice) -> "Hit | list[Hit]":
        if isinstance(index, slice):
            return [_unpack(value) for value in self._packed[index]]
        return _unpack(self._packed[index])

    def __iter__(self) -> Iterator[Hit]:
        return map(_unpack, self._packed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


def _unpack(value: int) -> Hit:
    return Hit(value >> _LITERAL_BITS, value & _LITERAL_MASK)


Wanted = Mapping[int, Literal["once", "at start"]]
"""Which hits of a literal are wanted where it is not all of them, by its number."""

ONCE: Final = "once"
AT_START: Final = "at start"
_ALL: Wanted = MappingProxyType({})


class Scanner(Protocol):
    """Finds literals in bytes. ``scan`` gives hits sorted by end, then by literal.

    Of literals that are wanted ``ONCE`` only the first hit of a scan is given: some stand on every line of a log.
    Those wanted ``AT_START`` count only where a line begins with them.
    """

    def scan(self, data: bytes | bytearray | memoryview) -> Hits: ...


class NaiveScanner:
    """One `bytes.find` walk per literal: slow, obvious, and the measure of the fast one."""

    def __init__(self, literals: Sequence[bytes], wanted: Wanted = _ALL) -> None:
        self._literals = literals
        self._wanted = wanted

    def scan(self, data: bytes | bytearray | memoryview) -> Hits:
        text = bytes(data)
        hits: list[tuple[int, int]] = []
        for number, literal in enumerate(self._literals):
            wanted = self._wanted.get(number)
            start = text.find(literal)
            while start >= 0:
                if wanted != AT_START or text[start - 1 : start] in (b"", b"\n"):
                    hits.append((start + len(literal), number))
                if wanted == ONCE:
                    break
                start = text.find(literal, start + 1)
        hits.sort()
        return Hits(hits)


class HyperscanScanner:
    """All literals in one hyperscan block-mode database.

    ``serialized`` is what `serialize` gave earlier for the same literals on the same machine; hyperscan
    itself refuses a database of another version or platform.
    """

    def __init__(
        self, literals: Sequence[bytes], serialized: bytes | None = None, wanted: Wanted = _ALL
    ) -> None:
        import hyperscan

        self._lock = Lock()
        if serialized is not None:
            self._database: Any = hyperscan.loadb(serialized, hyperscan.HS_MODE_BLOCK)
            self._database.scratch = hyperscan.Scratch(self._database)
            return
        flags: dict[str | None, int] = {
            ONCE: hyperscan.HS_FLAG_SINGLEMATCH,
            AT_START: hyperscan.HS_FLAG_MULTILINE,
        }
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=[
                b"^" * (wanted.get(number) == AT_START) + _escape(literal)
                for number, literal in enumerate(literals)
            ],
            ids=list(range(len(literals))),
            elements=len(literals),
            flags=[flags.get(wanted.get(number), 0) for number in range(len(literals))],
        )

    def serialize(self) -> bytes:
        import hyperscan

        dump: bytes = hyperscan.dumpb(self._database)
        return dump

    def scan(self, data: bytes | bytearray | memoryview) -> Hits:
        packed = array("Q")
        append = packed.append

        def on_match(literal: int, _start: int, end: int, _flags: int, _context: object) -> None:
            append(end << _LITERAL_BITS | literal)

        # The database has one scratch space, which two threads may not share.
        with self._lock:
            self._database.scan(data, match_event_handler=on_match)
        return Hits.packed(packed)


def _escape(literal: bytes) -> bytes:
    """A hyperscan expression for exactly these bytes."""
    return b"".join(b"\\x%02x" % byte for byte in literal)


def fast_available() -> bool:
    """Whether this platform has hyperscan."""
    try:
        import hyperscan  # noqa: F401
    except ImportError:
        return False
    return True


def unique(literals: Iterable[bytes]) -> list[bytes]:
    """The table of literals: each once, in order of first use."""
    return list(dict.fromkeys(literals))
