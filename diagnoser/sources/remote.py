"""Files behind URLs (s3://, gs://, hdfs://, memory:// ...) through fsspec, and local ones, for scans of many."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from diagnoser.sources.archives import texts
from diagnoser.sources.base import Limits, SourceError, Stream, Unreadable
from diagnoser.sources.clean import label
from diagnoser.sources.opening import open_sources
from diagnoser.sources.paths import gather
from diagnoser.sources.source import Source
from diagnoser.sources.streams import Flow, Held, Raw, refuse

_VERSIONS = ("ETag", "etag", "checksum", "mtime", "LastModified", "last_modified", "updated", "created")
"""What file systems say that changes when a file does."""


class File(NamedTuple):
    """A file to read. size: in bytes, -1 where it is not told. version: changes when the file does."""

    name: str
    size: int
    version: str


def is_url(path: str) -> bool:
    """Whether a path names a file system of fsspec. "file://" does too."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.isascii() and scheme.replace("+", "").replace("-", "").isalnum()


def list_files(paths: Sequence[str], limits: Limits) -> list[File | Unreadable]:
    """Every file below these paths and URLs, sorted by name; folders and shell patterns are expanded.

    Raises SourceError where a file system cannot be used or asked.
    """
    found: dict[str, File | Unreadable] = {}
    for item in gather([path for path in paths if not is_url(path)], limits):
        if isinstance(item, Unreadable):
            found[item.name] = item
        else:
            found[item.name] = _local(item.name, item.path)
    for url in paths:
        if is_url(url):
            for one in _listed(url):
                found[one.name] = one
    return [found[name] for name in sorted(found)]


def _local(name: str, path: str) -> File | Unreadable:
    try:
        status = os.stat(path)
    except OSError as error:
        return Unreadable(name, refuse(error))
    return File(path, status.st_size, str(status.st_mtime_ns))


def _system(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise SourceError(f"{url}: URLs need fsspec; pip install 'diagnoser[cluster]'") from error
    try:
        system, path = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise SourceError(f"{url}: {error}") from error
    return system, path


def _listed(url: str) -> Iterator[File]:
    system, path = _system(url)
    try:
        if any(sign in path for sign in "*?["):
            entries = system.glob(path, detail=True)
        elif system.isfile(path):
            entries = {path: system.info(path)}
        else:
            entries = system.find(path, detail=True)
    except Exception as error:  # every file system has its own errors
        raise SourceError(
            f"{url}: it cannot be listed: {type(error).__name__}: {str(error)[:200]}"
        ) from error
    if not entries:
        raise SourceError(f"{url}: nothing is found there; check the address")
    for name, info in entries.items():
        if info.get("type") == "file":
            version = next((str(info[key]) for key in _VERSIONS if info.get(key)), "")
            size = info.get("size")
            yield File(system.unstrip_protocol(name), -1 if size is None else int(size), version)


def open_files(names: Sequence[str], limits: Limits) -> Iterator[Source | Unreadable]:
    """The texts in some files, as `open_sources` gives them. Raises nothing for what cannot be read."""
    yield from open_sources([name for name in names if not is_url(name)], limits=limits)
    for name in names:
        if is_url(name):
            yield from _opened(name, limits)


def _opened(url: str, limits: Limits) -> Iterator[Source | Unreadable]:
    try:
        system, path = _system(url)
        file = system.open(path, "rb")
    except SourceError as error:
        yield Unreadable(label(url), str(error))
        return
    except Exception as error:  # every file system has its own errors
        yield Unreadable(label(url), f"it cannot be opened: {type(error).__name__}: {str(error)[:200]}")
        return
    with file:
        flow = Flow(limits)
        for found in texts(label(url), _RemoteRaw(file, flow), flow):
            if isinstance(found, Unreadable):
                yield found
            else:
                yield Source(found.name, _once(found.stream), size=found.size, limits=limits)


def _once(stream: Stream) -> Callable[[], Stream]:
    streams = iter([stream])
    return lambda: next(streams, Held())


class _RemoteRaw(Raw):
    """A file of another system: what its driver raises ends the text with a note."""

    def read(self, n: int = -1, /) -> bytes:
        try:
            return super().read(n)
        except Exception as error:  # every file system has its own errors
            self.trouble = f"reading stopped: {type(error).__name__}: {str(error)[:200]}; try again"
            return b""
