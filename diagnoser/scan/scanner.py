"""The one-pass literal scanner and its naive twin."""

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Any, NamedTuple, Protocol


class Hit(NamedTuple):
    """A literal's end: ``end`` is the byte offset just behind it, ``literal`` its number in the table."""

    end: int
    literal: int


class Scanner(Protocol):
    """Finds literals in bytes. ``scan`` gives hits sorted by end, then by literal."""

    def scan(self, data: bytes | bytearray | memoryview) -> list[Hit]: ...


class NaiveScanner:
    """One `bytes.find` walk per literal: slow, obvious, and the measure of the fast one."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = literals

    def scan(self, data: bytes | bytearray | memoryview) -> list[Hit]:
        text = bytes(data)
        hits = []
        for number, literal in enumerate(self._literals):
            start = text.find(literal)
            while start >= 0:
                hits.append(Hit(start + len(literal), number))
                start = text.find(literal, start + 1)
        hits.sort()
        return hits


class HyperscanScanner:
    """All literals in one hyperscan block-mode database.

    ``serialized`` is what `serialize` gave earlier for the same literals on the same machine; hyperscan
    itself refuses a database of another version or platform.
    """

    def __init__(self, literals: Sequence[bytes], serialized: bytes | None = None) -> None:
        import hyperscan

        self._lock = Lock()
        if serialized is not None:
            self._database: Any = hyperscan.loadb(serialized, hyperscan.HS_MODE_BLOCK)
            self._database.scratch = hyperscan.Scratch(self._database)
            return
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=[_escape(literal) for literal in literals],
            ids=list(range(len(literals))),
            elements=len(literals),
            flags=[0] * len(literals),
        )

    def serialize(self) -> bytes:
        import hyperscan

        dump: bytes = hyperscan.dumpb(self._database)
        return dump

    def scan(self, data: bytes | bytearray | memoryview) -> list[Hit]:
        hits: list[tuple[int, int]] = []
        append = hits.append

        def on_match(literal: int, _start: int, end: int, _flags: int, _context: object) -> None:
            append((end, literal))

        # The database has one scratch space, which two threads may not share.
        with self._lock:
            self._database.scan(data, match_event_handler=on_match)
        hits.sort()
        return [Hit(*hit) for hit in hits]


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
