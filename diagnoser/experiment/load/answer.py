"""What one request brought, read from the stream as it comes."""

import hashlib
import json
import time
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httpcore

from diagnoser.experiment.load.apis import Api, CountedBy, Said, said
from diagnoser.experiment.load.sse import Events
from diagnoser.experiment.load.transport import TimedStream

MAX_BODY_BYTES = 1 << 20


@dataclass(slots=True)
class Answer:
    """What one request brought. Times are `time.perf_counter` seconds, None where the event did not happen."""

    sent_s: float | None = None
    scheduled_s: float | None = None  # open loop only: when it should have been sent
    first_s: float | None = None  # first chunk with text
    last_s: float | None = None  # last chunk with text, or the one that says why the answer ended
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    first_tokens: int | None = None  # in the first chunk, where the server says so
    counted_by: CountedBy | None = None  # None: the server gives no counts
    accept_len: float | None = None  # tokens per verification step
    arrivals_s: list[float] = field(default_factory=list)  # of every chunk with text
    text_sha256: str = ""
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether the answer is complete and holds text."""
        return not self.error


class Reader:
    """Fills an `Answer` from a stream; ``clock`` is the connection that stamps arrivals, None behind TLS."""

    def __init__(self, api: Api, tokens: int, answer: Answer, clock: TimedStream | None) -> None:
        self._api = api
        self._answer = answer
        self._clock = clock
        self._digest = hashlib.sha256()
        self._whole = ""
        self._ended = False
        # Twice the answer in every event, as the native API repeats it, is far more than any server sends.
        self._limit_bytes = tokens * (4096 + 32 * tokens) + MAX_BODY_BYTES

    async def read(self, response: httpcore.Response) -> None:
        """Read to the end. Raises `ValueError` for what is no stream of the API, `zlib.error`, httpcore's errors."""
        events = Events()
        size = 0
        async for data in plain(response):
            now_s = self._clock.arrived_s if self._clock is not None else time.perf_counter()
            size += len(data)
            if size > self._limit_bytes:
                raise ValueError(f"the server did not stop after {size >> 20} MiB")
            for event in events.feed(data):
                self._event(event, now_s)
        for event in events.rest():
            self._event(event, time.perf_counter())
        self._answer.text_sha256 = (
            hashlib.sha256(self._whole.encode()) if self._whole else self._digest
        ).hexdigest()
        if not self._answer.error:
            self._answer.error = self._lack()

    def _lack(self) -> str:
        if not self._ended:
            return "the answer ended without [DONE], a finish reason or a usage"
        return "" if self._answer.first_s is not None else "the answer holds no text"

    def _event(self, event: bytes, now_s: float) -> None:
        if event == b"[DONE]":
            self._ended = True
            return
        try:
            what = said(self._api, json.loads(event))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"an event of the stream is not JSON of the API: {event[:60]!r}") from error
        if what.error:
            self._answer.error = self._answer.error or f"the server said: {what.error}"
        if what.progress:
            self._progress(what, now_s)
        self._ended |= what.finished or (bool(what.counted_by) and not what.progress)
        self._counts(what)

    def _progress(self, what: Said, now_s: float) -> None:
        answer = self._answer
        answer.last_s = now_s
        if not self._new(what):
            return
        if answer.first_s is None:
            answer.first_s = now_s
            answer.first_tokens = what.output_tokens
        answer.arrivals_s.append(now_s)
        if what.cumulative:
            self._whole = what.text
        else:
            self._digest.update(what.text.encode("utf-8", "surrogatepass"))

    def _new(self, what: Said) -> bool:
        if what.cumulative and what.output_tokens is not None:
            return what.output_tokens > (self._answer.output_tokens or 0)
        return what.text not in ("", self._whole)

    def _counts(self, what: Said) -> None:
        answer = self._answer
        answer.counted_by = what.counted_by or answer.counted_by
        for name in ("prompt_tokens", "output_tokens", "cached_tokens", "accept_len"):
            value = getattr(what, name)
            if value is not None:
                setattr(answer, name, value)


async def short_body(response: httpcore.Response) -> bytes:
    """The first MiB of a body. Raises `ValueError`, `zlib.error`, httpcore's errors."""
    out = b""
    async for data in plain(response):
        out += data
        if len(out) > MAX_BODY_BYTES:
            break
    return out[:MAX_BODY_BYTES]


async def plain(response: httpcore.Response) -> AsyncIterator[bytes]:
    """A body unpacked: some proxies pack without being asked. Raises `ValueError`, `zlib.error`, httpcore's errors."""
    encoding = b"identity"
    for name, value in response.headers:
        if name.lower() == b"content-encoding":
            encoding = value.lower().strip()
    if encoding == b"identity":
        async for data in response.aiter_stream():
            yield data
        return
    if encoding not in (b"gzip", b"deflate"):
        raise ValueError(f"the server packs its answer as {encoding[:20].decode('ascii', 'replace')}")
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)
    async for data in response.aiter_stream():
        yield unpack.decompress(data, MAX_BODY_BYTES)
        # A bomb comes out in pieces; who reads them stops at a limit.
        while unpack.unconsumed_tail:
            yield unpack.decompress(unpack.unconsumed_tail, MAX_BODY_BYTES)
