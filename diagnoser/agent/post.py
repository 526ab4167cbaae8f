"""Sends an answer to a URL: signed, with a time limit, again where the other side asks for patience.

The signature is that of Standard Webhooks (https://www.standardwebhooks.com): HMAC-SHA256 over "id.time.body".
"""

import base64
import binascii
import hashlib
import hmac
import time
import uuid
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx

from diagnoser.version import __version__

ATTEMPTS = 4
WAIT_S = 0.5
"""Before the second attempt; doubled before each further one."""

MAX_WAIT_S = 30.0
"""Whatever Retry-After asks for."""

TIMEOUT_S = 10.0
"""For each attempt: to connect, and between any two bytes."""

MAX_ANSWER = 64 << 10
_PATIENCE = frozenset([408, 425, 429, 500, 502, 503, 504])


class PostError(Exception):
    """Nothing was delivered; the message is one sentence."""


class Secrets(NamedTuple):
    """secret: signs the body, ``whsec_`` and base64, or any text. authorization: the header of that name."""

    secret: str | None = None
    authorization: str | None = None


def check(url: str) -> None:
    """Raises `PostError` where nothing can be sent to this URL."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise PostError(f"--post {_shown(url)}: it must be an http or https address")
    if parts.username or parts.password:
        raise PostError(
            f"--post {_shown(url)}: an address with a login shows in process lists; set DIAGNOSER_POST_AUTHORIZATION"
        )


def post(url: str, content: str, media_type: str, secrets: Secrets, *, wait_s: float = WAIT_S) -> int:
    """The status of the answer that took it. Redirects are not followed. Raises `PostError`."""
    check(url)
    data = content.encode("utf-8", "replace")
    message = f"msg_{uuid.uuid4().hex}"
    trouble = ""
    with httpx.Client(timeout=TIMEOUT_S, follow_redirects=False) as client:
        for attempt in range(ATTEMPTS):
            headers = _headers(message, data, media_type, secrets)
            pause = wait_s * 2**attempt
            try:
                with client.stream("POST", url, content=data, headers=headers) as answer:
                    if answer.is_success:
                        return answer.status_code
                    trouble = f"it answered {answer.status_code}{_said(answer)}"
                    if answer.status_code not in _PATIENCE:
                        break
                    pause = max(pause, _asked(answer))
            except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
                trouble = str(error)
                break
            except httpx.TimeoutException:
                trouble = f"it did not answer within {TIMEOUT_S:g} s"
            except httpx.HTTPError as error:
                trouble = str(error) or type(error).__name__
            if attempt + 1 < ATTEMPTS:
                time.sleep(min(pause, MAX_WAIT_S))
    raise PostError(f"--post {_shown(url)}: not delivered: {trouble}")


def signature(secret: str, message: str, at: int, data: bytes) -> str:
    """``v1,`` and the base64 of the HMAC. at: seconds since the epoch."""
    signed = f"{message}.{at}.".encode() + data
    return "v1," + base64.b64encode(hmac.new(_key(secret), signed, hashlib.sha256).digest()).decode()


def _key(secret: str) -> bytes:
    if secret.startswith("whsec_"):
        try:
            return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            raise PostError("DIAGNOSER_POST_SECRET begins with whsec_ and is no base64 behind it") from None
    return secret.encode()


def _headers(message: str, data: bytes, media_type: str, secrets: Secrets) -> Mapping[str, str]:
    at = int(time.time())
    headers = {
        "content-type": f"{media_type}; charset=utf-8",
        "user-agent": f"diagnoser/{__version__}",
        "webhook-id": message,
        "webhook-timestamp": str(at),
    }
    if secrets.secret:
        headers["webhook-signature"] = signature(secrets.secret, message, at, data)
    if secrets.authorization:
        headers["authorization"] = secrets.authorization
    return headers


def _asked(answer: httpx.Response) -> float:
    """Seconds that Retry-After asks for; 0 where it names a date or nothing."""
    value = answer.headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() else 0.0


def _said(answer: httpx.Response) -> str:
    """The first line of what the other side says of it."""
    said = b""
    for part in answer.iter_bytes(4096):
        said += part
        if len(said) >= MAX_ANSWER or b"\n" in said:
            break
    line = said.decode("utf-8", "replace").strip().partition("\n")[0][:200]
    return f": {line}" if line else ""


def _shown(url: str) -> str:
    """The address without what may be secret in it: chat services put their token into the path."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "URL"
    return f"{parts.scheme}://{parts.hostname or ''}{port}/..."
