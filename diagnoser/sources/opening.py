"""Opens what the user named and gives every text in it as a source."""

import io
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO

from diagnoser.sources.archives import Found, texts
from diagnoser.sources.base import Limits, Stream, Unreadable
from diagnoser.sources.paths import STDIN, Candidate, gather
from diagnoser.sources.source import Source
from diagnoser.sources.streams import Flow, Held, Raw, refuse

_NO_FILES: tuple[tuple[Callable[[int], bool], str], ...] = (
    (
        stat.S_ISFIFO,
        "it is a pipe and may never end; send its text through standard input: cat PIPE | diagnose -",
    ),
    (stat.S_ISSOCK, "it is a socket; save its text to a file and give that"),
    (stat.S_ISCHR, "it is a device and may never end; save its text to a file and give that"),
    (stat.S_ISBLK, "it is a disk, not a file; give a file on it"),
)
_INHERITED = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")  # where a shell puts <(command)
_FLAGS = os.O_RDONLY | sum(
    getattr(os, flag, 0) for flag in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY")
)


def open_sources(
    paths: Sequence[str | Path], *, limits: Limits | None = None
) -> Iterator[Source | Unreadable]:
    """Every text that `paths` name: files, folders (recursively), shell patterns, ``-`` for standard input.

    gzip, bzip2, xz, zstd, tar and zip are recognised by their bytes and read without touching the disk; their
    members are sources of their own ("bundle.tar.gz:logs/server.log"). Files come sorted by name whatever the
    order of `paths`, each once; the members of a tar in the archive's order, those of a zip by name.

    Read each source before the next is asked for: a later (or second) reading of a tar's member unpacks the
    archive again from its start, and of standard input there is no second reading.
    Nothing is raised for what cannot be read: it comes as `Unreadable`, or as a note of its source.
    """
    limits = limits or Limits()
    for item in gather(paths, limits):
        if isinstance(item, Unreadable):
            yield item
        else:
            yield from _sources(item, limits)


def _sources(item: Candidate, limits: Limits) -> Iterator[Source | Unreadable]:
    once = _once(item)
    number = 0
    for found in _open(item, limits):
        if isinstance(found, Unreadable):
            yield found
            continue
        lease = _Lease(found.stream, _no_second_time if once else _again(item, limits, number))
        number += 1
        plain = not once and found.name == item.name and found.plain
        path = item.path if plain else None
        yield Source(found.name, lease.take, size=found.size, limits=limits, path=path)
        if not once or found.name != item.name:
            lease.end()


class _Lease:
    """The stream of the pass that is under way, as long as it is; after that, a new pass."""

    def __init__(self, stream: Stream, again: Callable[[], Stream]) -> None:
        self._stream: Stream | None = stream
        self._again = again

    def take(self) -> Stream:
        stream, self._stream = self._stream, None
        return stream or self._again()

    def end(self) -> None:
        self._stream = None


def _again(item: Candidate, limits: Limits, number: int) -> Callable[[], Stream]:
    """Opens the file anew and goes to its text of that number."""

    def reopen() -> Stream:
        found = (found for found in _open(item, limits) if isinstance(found, Found))
        for text in islice(found, number, None):
            return _Kept(text.stream, found)
        return _gone("it changed or vanished since it was first opened; run again")

    return reopen


class _Kept:
    """A stream together with what keeps its file open."""

    def __init__(self, stream: Stream, owner: object) -> None:
        self._stream = stream
        self._owner = owner

    @property
    def trouble(self) -> str | None:
        return self._stream.trouble

    def read(self, n: int, /) -> bytes:
        return self._stream.read(n)


def _gone(reason: str) -> Stream:
    held = Held()
    held.trouble = reason
    return held


def _no_second_time() -> Stream:
    return _gone("a stream can be read only once and in order; save it to a file and give that")


def _once(item: Candidate) -> bool:
    return item.path == STDIN or item.path.startswith(_INHERITED)


def _open(item: Candidate, limits: Limits) -> Iterator[Found | Unreadable]:
    if _once(item):
        flow = Flow(limits)
        yield from texts(item.name, Raw(_inherited(item.path), flow), flow)
        return
    try:
        status = os.stat(item.path)
        if reason := _no_file(status):
            yield Unreadable(item.name, reason)
            return
        file = io.FileIO(os.open(item.path, _FLAGS))
    except OSError as error:
        yield Unreadable(item.name, refuse(error))
        return
    with file:
        status = os.fstat(file.fileno())  # it may have been replaced in between
        if reason := _no_file(status):
            yield Unreadable(item.name, reason)
            return
        # Files of /proc have no size and are read to their end.
        flow = Flow(limits, status.st_size or None)
        yield from texts(item.name, Raw(file, flow), flow)


def _no_file(status: os.stat_result) -> str | None:
    return next((reason for is_kind, reason in _NO_FILES if is_kind(status.st_mode)), None)


def _inherited(path: str) -> IO[bytes]:
    return sys.stdin.buffer if path == STDIN else open(path, "rb")
