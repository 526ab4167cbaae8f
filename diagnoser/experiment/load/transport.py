"""HTTP connections that note when bytes arrived.

httpcore reads through anyio and hands over data when a coroutine is next run: with 64 streams whose tokens come at the
same moment the last is seen milliseconds late, and each chunk costs twice the processor time. This network backend
takes the time in the event loop's own callback. It speaks plain HTTP; for TLS httpcore's own backend is used, and the
time is taken when the data is handed over.
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpcore

CONNECT_S = 10.0
PAUSE_BYTES = 1 << 20
"""Unread bytes of one connection at which reading pauses: a server may send faster than we read."""


class TimedStream(httpcore.AsyncNetworkStream, asyncio.Protocol):
    """One connection. ``sent_s`` and ``arrived_s`` are `time.perf_counter` seconds of the request's first byte out and
    of the piece that was last read."""

    def __init__(self) -> None:
        self.sent_s = 0.0
        self.arrived_s = 0.0
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._unread = 0
        self._answered = True
        self._lost: Exception | None = None
        self._closed = False
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._room.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._answered = True
        self._pieces.append((time.perf_counter(), data))
        self._unread += len(data)
        if self._unread > PAUSE_BYTES:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self._closed = True
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = exc
        self._closed = True
        self._room.set()
        self._wake()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """The next piece, as it came; empty at the end. Raises `httpcore.ReadTimeout` and `httpcore.ReadError`."""
        if not self._pieces and not self._closed:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(timeout):
                    await self._waiter
            except TimeoutError as error:
                raise httpcore.ReadTimeout(f"nothing came for {timeout:g} s") from error
        if not self._pieces:
            if self._lost is not None:
                raise httpcore.ReadError(str(self._lost)) from self._lost
            return b""
        self.arrived_s, data = self._pieces.popleft()
        self._unread -= len(data)
        if self._paused and self._unread < PAUSE_BYTES:
            self._paused = False
            self._transport.resume_reading()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send. Raises `httpcore.WriteTimeout` and `httpcore.WriteError`."""
        if self._closed:
            raise httpcore.WriteError("the server closed the connection")
        if self._answered:
            self._answered = False
            self.sent_s = time.perf_counter()
        self._transport.write(buffer)
        try:
            async with asyncio.timeout(timeout):
                await self._room.wait()
        except TimeoutError as error:
            raise httpcore.WriteTimeout(f"the server took nothing for {timeout:g} s") from error

    async def aclose(self) -> None:
        self._transport.abort()

    def get_extra_info(self, info: str) -> Any:
        if info == "timed":
            return self
        if info == "is_readable":
            return self._closed or bool(self._pieces)
        return self._transport.get_extra_info(info)


class TimedBackend(httpcore.AsyncNetworkBackend):
    """Opens `TimedStream` connections."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> TimedStream:
        """Raises `httpcore.ConnectTimeout` and `httpcore.ConnectError`."""
        try:
            async with asyncio.timeout(timeout):
                _, stream = await asyncio.get_running_loop().create_connection(TimedStream, host, port)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"no connection within {timeout:g} s") from error
        except OSError as error:
            raise httpcore.ConnectError(error.strerror or str(error)) from error
        return stream


class Connections:
    """Connections to one server, kept between requests: no measured request after the warm-up pays for opening one.

    httpcore's own pool looks at all pairs of its connections whenever a request starts or ends, which with 64 streams
    delays the last by a second.
    """

    def __init__(self, url: str) -> None:
        parts = httpcore.URL(url)
        self._origin = parts.origin
        # The system's authorities, and those that SSL_CERT_FILE names.
        self._tls = ssl.create_default_context() if parts.scheme == b"https" else None
        self._idle: list[httpcore.AsyncHTTPConnection] = []

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None = None,
        read_s: float = CONNECT_S,
    ) -> AsyncIterator[httpcore.Response]:
        """One request, its answer open for reading. Raises httpcore's errors."""
        connection = self._take()
        waits = {"connect": CONNECT_S, "write": CONNECT_S, "read": read_s}
        try:
            async with connection.stream(
                method, url, headers=list(headers.items()), content=content, extensions={"timeout": waits}
            ) as response:
                yield response
        except BaseException:
            await connection.aclose()
            raise
        if connection.is_idle():
            self._idle.append(connection)
        else:
            await connection.aclose()

    def _take(self) -> httpcore.AsyncHTTPConnection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.has_expired():
                return connection
        return httpcore.AsyncHTTPConnection(
            self._origin,
            ssl_context=self._tls,
            network_backend=None if self._tls else TimedBackend(),
        )

    async def aclose(self) -> None:
        """Close what is idle."""
        while self._idle:
            await self._idle.pop().aclose()
