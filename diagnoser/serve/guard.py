"""The door in front of the application: names, token, size and patience, before a byte of a body is believed."""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.exceptions import HTTPException

from diagnoser.serve.limits import Door, Limits

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = frozenset(["/", "/health", "/static/app.js", "/static/style.css"])
"""What needs no token: the page itself, which then asks for it."""

HEADERS = (
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
     b"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)  # fmt: skip


class RefusedError(HTTPException):
    """A request that is broken off while it is read; the framework makes the answer of it."""


class Guard:
    """ASGI middleware; see the module."""

    def __init__(self, app: App, door: Door, limits: Limits) -> None:
        self._app = app
        self._door = door
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        refusal = self._refused(scope["path"], headers)
        if refusal is not None:
            await _answer(send, *refusal)
            return
        complete = False
        read = 0

        async def measured() -> Message:
            nonlocal read, complete
            if complete:
                return await receive()  # the end of the connection, for which nobody is hurried
            try:
                message = await asyncio.wait_for(receive(), self._limits.silence)
            except TimeoutError:
                raise RefusedError(408, "the request stopped coming") from None
            if message["type"] == "http.request":
                read += len(message.get("body", b""))
                if read > self._limits.bytes:
                    raise RefusedError(413, f"at most {self._limits.bytes} bytes a request")
                complete = not message.get("more_body")
            return message

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        await self._app(scope, measured, dressed)

    def _refused(self, path: str, headers: dict[str, str]) -> tuple[int, str] | None:
        if not self._door.known(headers.get("host", "")):
            return 421, "this server does not answer under that name"
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != headers.get("host"):
            return 403, "requests from other sites are not answered"
        if path not in OPEN and not self._door.opens(headers.get("authorization", "")):
            return 401, "a token is needed: Authorization: Bearer TOKEN"
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > self._limits.bytes:
            return 413, f"at most {self._limits.bytes} bytes a request"
        return None


async def _answer(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"error": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
