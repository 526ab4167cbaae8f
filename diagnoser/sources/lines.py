"""Bytes become runs of whole lines, and runs become chunks. Flat in memory, whatever the lines are like."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from diagnoser.facts.arrays import count_lines
from diagnoser.sources.base import Chunk, Limits, Note, RecordStart
from diagnoser.sources.clean import LongLine

BLOCK = 1 << 20
_CANDIDATES = 2000  # lines looked at for a record start before a cut; a traceback is shorter
_LEVELS = (b"DEBUG", b"INFO", b"WARN", b"ERROR", b"CRITICAL", b"FATAL", b"TRACE")


class Run(NamedTuple):
    """Whole lines, the long ones already cut. width: how many bytes of the source they stand for.

    A long line is a run of its own, so that the width of a part of any other run can be told; length_bytes is
    what it had before it was cut, 0 where nothing was cut.
    """

    text: bytes
    width: int
    length_bytes: int = 0


def record_start(line: bytes) -> bool:
    """The default guess: a record begins with a bracket, a parenthesis, a digit or a level word.

    Covers SGLang ("[2026-02-27 15:17:28 TP0] "), vLLM ("INFO 02-27 ...", "(EngineCore pid=1) INFO ..."),
    ISO stamps and uvicorn; knowledge of other shapes comes in through the hook.
    """
    return line[:1] in (b"[", b"(") or line[:1].isdigit() or line.startswith(_LEVELS)


def runs(read: Callable[[], bytes], width: Callable[[bytes], int], limits: Limits) -> Iterator[Run]:
    """Cuts decoded blocks at line ends. `read` gives ``b""`` at the end; only the last run may be open."""
    limit = limits.line_bytes
    rest = b""
    while block := read():
        data = rest + block if rest else block
        rest = b""
        start = done = 0
        while start < len(data):
            # The last line end that a short line can have: everything up to it is short lines.
            if end := data.rfind(b"\n", start, start + limit + 1) + 1:
                start = end
                continue
            if len(data) - start <= limit:
                break
            if start > done:
                text = data[done:start]
                yield Run(text, width(text))
            long = LongLine(limit, limits.line_kept_bytes)
            size = 0
            while (end := data.find(b"\n", start)) < 0:
                long.feed(data[start:])
                size += width(data[start:])
                data, start = read(), 0
                if not data:
                    break
            if end >= 0:
                long.feed(data[start:end])
                size += width(data[start : end + 1])
            text, length = long.result()
            yield Run(text + b"\n" * (end >= 0), size, length)
            start = done = end + 1
        if start > done:
            text = data[done:start]
            yield Run(text, width(text))
        rest = data[start:]
    if rest:
        yield Run(rest, width(rest))


class Cut:
    """Looks for the place to cut a chunk, line by line, as its text comes in.

    The first record start from chunk_bytes on wins, then the first line that is not indented, then the last line
    start within reach. What it finds depends on the text alone, not on how the text arrived.
    """

    def __init__(self, limits: Limits, starts: RecordStart) -> None:
        self._low = limits.chunk_bytes
        # Less than a chunk is held, so that what is kept after a cut never holds the next cut's place.
        self._high = limits.chunk_bytes + min(limits.hold_bytes, limits.chunk_bytes - 1)
        self._starts = starts
        self.reset()

    def reset(self) -> None:
        self._at = 0  # the next line start to look at; 0 while none is known
        self._seen = 0
        self._last = 0
        self._plain = 0

    def find(self, text: bytes, base: int) -> int:
        """Where to cut; 0: not yet. `text` holds whole lines, `base` bytes of the chunk stand before it.

        Positions count from the start of the chunk. They may lie in an earlier text than this one.
        """
        if not self._at:
            if base + len(text) < self._low:
                return 0
            self._at = base + text.find(b"\n", max(0, self._low - 1 - base)) + 1
        while self._at < base + len(text):
            if self._at > self._high or self._seen >= _CANDIDATES:
                return self._plain or self._last or self._at
            start = self._at - base
            end = text.find(b"\n", start)
            end = end if end >= 0 else len(text)
            line = text[start:end]
            if self._starts(line):
                return self._at
            if not self._plain and line[:1].strip():
                self._plain = self._at
            self._last = self._at
            self._seen += 1
            self._at = base + end + 1
        return 0


class _Held:
    """The runs gathered for the next chunk."""

    def __init__(self, width: Callable[[bytes], int]) -> None:
        self._width = width
        self._runs: list[Run] = []
        self.size = 0

    def add(self, run: Run) -> None:
        self._runs.append(run)
        self.size += len(run.text)

    def count_lines(self) -> int:
        return sum(run.text.count(b"\n") for run in self._runs)

    def take(self, size: int) -> Run:
        """Removes the first `size` bytes, which end at a line's end."""
        taken: list[Run] = []
        left = size
        while self._runs and left >= len(self._runs[0].text):
            taken.append(self._runs.pop(0))
            left -= len(taken[-1].text)
        if left:
            whole = self._runs[0]
            part = whole.text[:left]
            taken.append(Run(part, self._width(part)))
            self._runs[0] = Run(whole.text[left:], whole.width - taken[-1].width)
        self.size -= size
        return Run(b"".join(run.text for run in taken), sum(run.width for run in taken))


def chunks(
    source: Iterator[Run],
    width: Callable[[bytes], int],
    limits: Limits,
    starts: RecordStart,
    finish: Callable[[bytes, int], bytes],
    note: Callable[[Note], None],
) -> Iterator[Chunk]:
    """Gathers runs into chunks. finish(lines, number of the first) makes the data that is handed out."""
    held = _Held(width)
    cut = Cut(limits, starts)
    line, offset = 1, 0
    for run in source:
        if run.length_bytes:
            number = line + held.count_lines()
            words = f"line {number} is {run.length_bytes} bytes long; its first {limits.line_kept_bytes} were read"
            note(Note(words, number, run.length_bytes))
        text, base = run.text, held.size
        held.add(run)
        del run
        while at := cut.find(text, base):
            piece = held.take(at)
            text, base = text[max(0, at - base) :], max(0, base - at)
            yield Chunk(finish(piece.text, line), line, offset, last=False)
            line += count_lines(piece.text)
            offset += piece.width
            del piece
            cut.reset()
    yield Chunk(finish(held.take(held.size).text, line), line, offset, last=True)
