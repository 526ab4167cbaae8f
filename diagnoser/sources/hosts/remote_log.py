"""A log on a machine, not copied whole: its beginning, its end, and the lines that messages hit."""

import gzip
import re
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from diagnoser.sources.hosts.channel import ChannelError
from diagnoser.sources.hosts.readonly import ReadOnlyHost

HEAD_BYTES = 512 << 10
TAIL_BYTES = 2 << 20
MOST_HITS = 4000
"""How many lines that messages hit are fetched, each with what stands around it; the end of the log comes anyway."""

_HIT = re.compile(rb"(\d{1,12})([:-])")


class Part(NamedTuple):
    """Consecutive lines. first_line: the number of the first in the file, from 1."""

    first_line: int
    text: bytes


class RemoteLog(NamedTuple):
    """What was read of a log. size_bytes and lines are those of the whole file."""

    path: str
    size_bytes: int
    lines: int
    parts: tuple[Part, ...]

    @property
    def note(self) -> str | None:
        """What was read, where that is not everything."""
        read = sum(len(part.text) for part in self.parts)
        if read >= self.size_bytes:
            return None
        return (
            f"read {read} of {self.size_bytes} bytes: the beginning, the end, and the lines that messages hit "
            f"({len(self.parts)} stretches of {self.lines} lines)"
        )


def read_log(host: ReadOnlyHost, path: str, literals: bytes) -> RemoteLog:
    """Fetch a log in one command. literals: what messages are found by, one a line. Raises `ChannelError`."""
    sizes = {"head": HEAD_BYTES, "tail": TAIL_BYTES, "most": MOST_HITS}
    output = host.run("log", {"path": path, **sizes}, literals)
    if output.exit_code == 3:
        raise ChannelError(f"{host.name}: {path}: it cannot be read by this user; --sudo may help")
    if output.timed_out or not output.stdout:
        words = output.stderr.decode("utf-8", "replace").strip()[:200] or "nothing came back in time"
        raise ChannelError(f"{host.name}: {path}: {words}")
    return parse(path, _unpacked(output.stdout))


def _unpacked(data: bytes) -> bytes:
    """The text; of a stream that was cut, what there is."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error):
        unpacker = zlib.decompressobj(31)
        try:
            return unpacker.decompress(data)
        except zlib.error:
            return b""


def parse(path: str, data: bytes) -> RemoteLog:
    """The log out of what the command "log" printed."""
    sizes, _, rest = data.partition(b"\x1e")
    words = sizes.split()
    if len(words) != 2 or not (words[0].isdigit() and words[1].isdigit()):
        raise ChannelError(f"{path}: its size cannot be told")
    size, lines = int(words[0]), int(words[1])
    head, rest = rest[: min(size, HEAD_BYTES)], rest[min(size, HEAD_BYTES) + 1 :]
    tail, hits = rest[: min(size, TAIL_BYTES)], rest[min(size, TAIL_BYTES) + 1 :]
    numbered: dict[int, bytes] = {}
    if size <= HEAD_BYTES:
        return RemoteLog(path, size, lines, (Part(1, head),))
    if size <= TAIL_BYTES:
        return RemoteLog(path, size, lines, (Part(1, tail),))
    numbered.update(_hits(hits))
    whole_head = head.split(b"\n")[:-1]
    numbered.update(enumerate(whole_head, 1))
    # The first line of the end is cut; a last line without its end is counted by no wc.
    end = tail.split(b"\n")[1:]
    if end and not end[-1]:
        end.pop()
        last = lines
    else:
        last = lines + 1
    numbered.update(enumerate(end, last - len(end) + 1))
    return RemoteLog(path, size, lines, tuple(_runs(numbered)))


def _hits(text: bytes) -> Iterator[tuple[int, bytes]]:
    for line in text.split(b"\n"):
        if found := _HIT.match(line):
            yield int(found[1]), line[found.end() :]


def _runs(numbered: dict[int, bytes]) -> Iterator[Part]:
    first, before, run = 0, 0, list[bytes]()
    for number in sorted(numbered):
        if number != before + 1 and run:
            yield Part(first, b"\n".join(run) + b"\n")
            run = []
        if not run:
            first = number
        run.append(numbered[number])
        before = number
    if run:
        yield Part(first, b"\n".join(run) + b"\n")
