"""Server-sent events out of bytes, cut anywhere."""

MAX_EVENT_BYTES = 4 << 20
"""SGLang's native stream repeats the whole answer in every event: 4 MiB is an answer of about a million tokens."""


class EventTooLongError(ValueError):
    """One event is longer than `MAX_EVENT_BYTES`."""


class Events:
    """Collects bytes and gives the data of each complete event."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The events that ``data`` completes, ``data:`` and comments taken off. Raises `EventTooLongError`.

        An event ends at its line's end: no server that is measured here spreads one over several ``data:`` lines,
        and some leave out the empty line between two.
        """
        text = self._rest + data
        end = text.rfind(b"\n") + 1
        self._rest = text[end:]
        if len(self._rest) > MAX_EVENT_BYTES:
            raise EventTooLongError(f"one event of the stream is longer than {MAX_EVENT_BYTES >> 20} MiB")
        return [line[5:].strip() for line in text[:end].split(b"\n") if line.startswith(b"data:")]

    def rest(self) -> list[bytes]:
        """What stands after the last line's end when the stream is over."""
        return self.feed(b"\n")
