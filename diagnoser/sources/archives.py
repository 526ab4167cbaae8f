"""Looks into a stream: a text is found, a compressed one is unpacked, an archive is gone through."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from diagnoser.sources.base import Stream, Unreadable
from diagnoser.sources.clean import label
from diagnoser.sources.encoding import HEAD, Binary, Packed, recognise
from diagnoser.sources.streams import Capped, Flow, Held, Peekable, Raw, fill, too_many
from diagnoser.sources.tar import Entry, Tar

_REFUSALS = {
    "link": "it is a link to {0.target!r}; the target is read under its own name if the archive has it",
    "device": "it is a device; nothing can be read from it",
    "pipe": "it is a pipe; nothing can be read from it",
    "sparse file": "it is stored as a sparse file; unpack it and give the file",
}


class Found(NamedTuple):
    """A text. Its stream is good until the next one is asked for. size: in bytes, None if not known.

    plain: nothing is packed around it.
    """

    name: str
    stream: Stream
    size: int | None
    plain: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the packing we are. layers: of compression around; depth: archives entered; packed: whether
    anything lies around; compressed: the nearest layer around is compression, not an archive."""

    layers: int = 0
    depth: int = 0
    packed: bool = False
    compressed: bool = False


def texts(name: str, raw: Raw, flow: Flow) -> Iterator[Found | Unreadable]:
    """Every text in an opened file, with what in it cannot be read. Raises nothing."""
    yield from _Walk(raw, flow).look(name, raw, flow.size, _Place())


class _Walk:
    def __init__(self, raw: Raw, flow: Flow) -> None:
        self._raw = raw
        self._flow = flow
        self._limits = flow.limits

    def look(
        self, name: str, stream: Stream, size: int | None, place: _Place
    ) -> Iterator[Found | Unreadable]:
        peekable = Peekable(stream)
        head = peekable.peek(HEAD)
        if not head and peekable.trouble:
            yield Unreadable(name, peekable.trouble)
            return
        kind = recognise(head)
        if isinstance(kind, Binary):
            yield Unreadable(name, f"it is not text but {kind.what}; {kind.cure}")
        elif not isinstance(kind, Packed):
            stream = Capped(peekable, self._flow, place.packed)
            yield Found(name, stream, size if head else 0, not place.packed)
        elif place.depth + place.compressed >= self._limits.depth + (kind.form not in ("tar", "zip")):
            yield Unreadable(
                name, f"archives lie in it more than {self._limits.depth} deep; unpack it and give the files"
            )
        elif kind.form == "tar":
            yield from self._tar(name, peekable, _inside(place))
        elif kind.form == "zip":
            yield from self._zip(name, stream, peekable, _inside(place))
        else:
            from diagnoser.sources.ahead import Ahead
            from diagnoser.sources.unpack import Unpacked

            inner = Ahead(Unpacked(peekable, kind.form, self._flow, place.layers + 1))
            depth = place.depth + place.compressed
            yield from self.look(
                name, inner, None, _Place(place.layers + 1, depth, packed=True, compressed=True)
            )

    def _tar(self, name: str, stream: Stream, place: _Place) -> Iterator[Found | Unreadable]:
        tar = Tar(stream)
        names = _Names(name)
        for entry in tar:
            self._flow.members += 1
            if self._flow.members > self._limits.members:
                yield Unreadable(name, too_many(self._limits))
                return
            if entry.kind == "file":
                yield from self.look(names.next(entry.name), entry.data, entry.size, place)
            elif entry.kind != "folder":
                yield Unreadable(names.next(entry.name), _refusal(entry))
        yield from _ending(name, tar.trouble, names)

    def _zip(
        self, name: str, stream: Stream, peekable: Peekable, place: _Place
    ) -> Iterator[Found | Unreadable]:
        file: Raw | Held
        if stream is self._raw and self._raw.seekable():
            self._raw.seek(0)
            file = self._raw
        else:
            data = fill(peekable, self._limits.held_bytes + 1)
            if len(data) > self._limits.held_bytes:
                words = f"it is a zip of more than {self._limits.held_bytes} bytes in a stream"
                yield Unreadable(name, f"{words}; unpack it and give the files")
                return
            file = Held(data)
        from diagnoser.sources.zips import Zip

        archive = Zip(file, self._flow)
        names = _Names(name)
        for member in archive:
            self._flow.members += 1
            if self._flow.members > self._limits.members:
                yield Unreadable(name, too_many(self._limits))
                return
            full = names.next(member.name)
            if member.refusal:
                yield Unreadable(full, member.refusal)
            else:
                layers = place.layers + 1
                inner = archive.open(member, layers)
                yield from self.look(full, inner, member.size, replace(place, layers=layers))
        yield from _ending(name, archive.trouble, names)


class _Names:
    """Names of members, told apart when an archive holds the same name twice."""

    def __init__(self, archive: str) -> None:
        self._archive = archive
        self._counts: dict[str, int] = {}

    def next(self, member: str) -> str:
        name = f"{self._archive}:{label(member)}"
        count = self._counts[name] = self._counts.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    def __bool__(self) -> bool:
        return bool(self._counts)


def _inside(place: _Place) -> _Place:
    return _Place(place.layers, place.depth + 1, packed=True)


def _ending(name: str, trouble: str | None, names: _Names) -> Iterator[Unreadable]:
    if trouble or not names:
        yield Unreadable(name, trouble or "it holds no files; check that it is the right archive")


def _refusal(entry: Entry) -> str:
    target = label(entry.target)
    return _REFUSALS[entry.kind].format(entry._replace(target=target))
