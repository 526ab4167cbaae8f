"""One request to an inference server, streamed and timed."""

import json
import time
import zlib
from urllib.parse import urlsplit

import httpcore

from diagnoser.experiment.load.answer import Answer, Reader, short_body
from diagnoser.experiment.load.apis import OPTIONAL, PATHS, Api, payload
from diagnoser.experiment.load.transport import Connections

STALL_S = 120.0
"""Longest silence inside an answer: a 100,000-token prompt is read in less on every card in the rules."""


_UNANSWERED = "without sending a response"
"""httpcore's words for a connection that was closed before any byte of an answer."""


class UnusableError(Exception):
    """The server cannot be measured; the message is one sentence: what, where, what to do."""


class RefusedError(Exception):
    """The server answered with an HTTP status other than 200."""

    def __init__(self, status: int, path: str, body: str) -> None:
        self.status, self.path, self.body = status, path, " ".join(body.split())[:300]
        super().__init__(f"HTTP {status} from {path}: {self.body or 'no text'}")


def _plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


class Client:
    """Speaks to the server at ``url``; use as an async context manager. Raises `UnusableError` for what is no URL."""

    def __init__(self, url: str, *, key: str | None = None, stall_s: float = STALL_S) -> None:
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise UnusableError(f"{url}: not a URL ({error}); give http://HOST:PORT") from error
        if "@" in parts.netloc:
            # Not repeated: it may hold a password.
            raise UnusableError(
                "the address holds a user name; give http://HOST:PORT, a key goes into DIAGNOSER_API_KEY"
            )
        if parts.scheme not in ("http", "https") or not host or parts.query:
            raise UnusableError(f"{url}: not the address of a server; give http://HOST:PORT")
        # Both http://host:port and http://host:port/v1 are in use.
        path = parts.path.rstrip("/").removesuffix("/v1")
        self.url = f"{parts.scheme}://{parts.netloc}{path}"
        if not _plain(self.url):
            raise UnusableError(f"{url}: an address has no such characters (a name in ASCII is wanted)")
        if key is not None and not _plain(key):
            raise UnusableError("DIAGNOSER_API_KEY holds characters that no HTTP header may have")
        self._connections = Connections(self.url)
        self.model: str | None = None
        self.api: Api = "completions"
        self.refused: frozenset[str] = frozenset()
        self._stall_s = stall_s
        self._headers = {"User-Agent": "diagnoser", "Accept-Encoding": "identity"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connections.aclose()

    async def get(self, path: str) -> tuple[int, str]:
        """Status and text of a GET, at most 1 MiB of it. Raises httpcore's errors."""
        async with self._connections.stream("GET", self.url + path, self._headers) as response:
            body = await short_body(response)
            return response.status, body.decode("utf-8", "replace")

    async def ask(self, prompt: str, tokens: int) -> Answer:
        """An answer of ``tokens`` tokens; whatever goes wrong on the way stands in its ``error``.

        Raises `RefusedError` when the status is not 200.
        """
        answer = Answer()
        try:
            try:
                await self._ask(prompt, tokens, answer)
            except httpcore.RemoteProtocolError as error:
                if _UNANSWERED not in str(error):
                    raise
                # The server closed a connection that it had kept, at the moment when it was used again.
                await self._ask(prompt, tokens, answer)
        except httpcore.ConnectError as error:
            answer.error = f"no connection: {error}"
        except httpcore.TimeoutException as error:
            answer.error = f"timed out: {error}"
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            answer.error = f"connection lost: {error or 'it was closed'}"
        except (ValueError, zlib.error) as error:
            answer.error = f"cannot be read: {error}"
        return answer

    async def ask_leniently(self, prompt: str, tokens: int) -> Answer:
        """`ask`, leaving out the options that the server refuses, now and from now on. Raises `RefusedError`."""
        while True:
            try:
                return await self.ask(prompt, tokens)
            except RefusedError as error:
                if error.status not in (400, 422):
                    raise
                sent = payload(self.api, self.model, prompt, tokens, self.refused)
                sent |= sent.get("sampling_params", {})
                named = {name for name in OPTIONAL if name in sent and name in error.body}
                if not named:
                    raise
                self.refused |= named

    async def _ask(self, prompt: str, tokens: int, answer: Answer) -> None:
        path = PATHS[self.api]
        body = json.dumps(payload(self.api, self.model, prompt, tokens, self.refused)).encode()
        headers = {**self._headers, "Content-Type": "application/json"}
        answer.sent_s = time.perf_counter()
        async with self._connections.stream(
            "POST", self.url + path, headers, body, self._stall_s
        ) as response:
            clock = response.extensions["network_stream"].get_extra_info("timed")
            if clock is not None:
                answer.sent_s = clock.sent_s
            if response.status != 200:
                raise RefusedError(
                    response.status, path, (await short_body(response)).decode("utf-8", "replace")
                )
            await Reader(self.api, tokens, answer, clock).read(response)
