"""A source: a named text that is streamed in chunks, as often as it is asked for."""

from collections.abc import Callable, Iterator
from functools import partial

from diagnoser.sources.base import Chunk, Limits, Note, RecordStart, Stream, Transform
from diagnoser.sources.clean import clean, has_lost_colours, label, strip_lost_colours
from diagnoser.sources.encoding import HEAD, Text, decoder, recognise
from diagnoser.sources.lines import BLOCK, chunks, record_start, runs
from diagnoser.sources.streams import Held, Peekable, fill

_MAX_NOTES = 1000
LOOK = 64 << 10
"""Bytes of a beginning in which colour codes that lost their ESC byte show, or not at all."""


class Source:
    """A text with a name, for instance "server.log" or "bundle.tar.gz:logs/server.log".

    name: one printable line, unique among the sources of one call. host: where it was read, None: here.
    size: bytes of the unpacked text, None when only reading tells.
    notes: what the last run of `chunks` found worth saying; complete when the last chunk is out.
    open: gives the text's bytes from the start, each time it is called.
    path: the file that holds this text and nothing else, just as it is; None where there is no such file.
    lost_colours: for a text that is a stretch of a longer one in UTF-8: whether colour codes without their ESC byte
        are taken off; None: this is a whole text, and its beginning decides.
    """

    def __init__(
        self,
        name: str,
        open: Callable[[], Stream],
        *,
        size: int | None = None,
        host: str | None = None,
        limits: Limits | None = None,
        path: str | None = None,
        lost_colours: bool | None = None,
    ) -> None:
        self.path = path
        self._lost_colours = lost_colours
        self.name = name
        self.host = host
        self.size = size
        self.notes: list[Note] = []
        self._open = open
        self._limits = limits or Limits()

    @classmethod
    def from_bytes(
        cls, name: str, data: bytes, *, host: str | None = None, limits: Limits | None = None
    ) -> "Source":
        """A text that is in memory already: a paste, the output of a command."""
        return cls(label(name), lambda: Held(data), size=len(data), host=host, limits=limits)

    def __repr__(self) -> str:
        return f"Source({self.name!r})"

    def chunks(
        self, transform: Transform | None = None, *, is_record_start: RecordStart = record_start
    ) -> Iterator[Chunk]:
        """Streams the cleaned text. Whatever goes wrong ends it early with a note, never with an error.

        transform unwraps complete lines; what it gives is cleaned again, and where it changes the number of
        lines its result is dropped with a note. is_record_start decides where chunks are cut.
        """
        self.notes = []
        stream = Peekable(self._open())
        head = stream.peek(LOOK)
        encoding, skip = "utf-8", 0
        if self._lost_colours is None:
            kind = recognise(head[:HEAD])
            encoding, skip = kind if isinstance(kind, Text) else (encoding, skip)
        decode, width = decoder(encoding)
        fill(stream, skip)
        ended = False

        def read() -> bytes:
            nonlocal ended
            while not ended:
                block = fill(stream, BLOCK)
                ended = not block
                if text := decode(block, ended):
                    return text
            return b""

        lost = has_lost_colours(clean(head)) if self._lost_colours is None else self._lost_colours
        polish = (lambda data: strip_lost_colours(clean(data))) if lost else clean
        finish = partial(self._finish, polish, transform)
        for chunk in chunks(
            runs(read, width, self._limits),
            width,
            self._limits,
            lambda line: is_record_start(finish(line + b"\n", 0)[:-1]),
            finish,
            self._note,
        ):
            empty = not chunk.data and not chunk.offset
            if chunk.last and (stream.trouble or empty):
                self._note(Note(stream.trouble or "it is empty"))
            yield chunk._replace(offset=chunk.offset + skip if chunk.offset else 0)

    def _finish(self, polish: Transform, transform: Transform | None, data: bytes, line: int) -> bytes:
        text = polish(data)
        if transform is None:
            return text
        unwrapped = polish(transform(text))
        if unwrapped.count(b"\n") == text.count(b"\n"):
            return unwrapped
        if line:
            self._note(
                Note("its records could not be unwrapped without losing count of lines; read as it is", line)
            )
        return text

    def _note(self, note: Note) -> None:
        if len(self.notes) < _MAX_NOTES:
            self.notes.append(note)
