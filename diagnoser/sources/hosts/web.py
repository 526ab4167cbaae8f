"""HTTP GET over a connection that is already there, bounded in time and size."""

import http.client
import threading
from collections.abc import Callable

from diagnoser.sources.hosts.channel import ChannelError, Reply


def get(
    connection: http.client.HTTPConnection,
    hang_up: Callable[[], None],
    where: str,
    path: str,
    timeout_s: float,
    limit_bytes: int,
) -> Reply:
    """The answer, whatever its status; redirects are not followed.

    hang_up: closes the connection for good. where: whom the question goes to, for errors ("gpu-07: port 30000").
    Raises `ChannelError` when there is no answer within the time.
    """
    over = threading.Event()
    parts: list[bytes] = []
    size = 0

    def give_up() -> None:
        over.set()
        # Ends a reading that is under way; a server that sends a byte now and then would hold it for ever.
        hang_up()

    timer = threading.Timer(timeout_s, give_up)
    timer.daemon = True
    timer.start()
    error: Exception | None = None
    status = 0
    try:
        connection.request("GET", path, headers={"Accept": "*/*", "Connection": "close"})
        answer = connection.getresponse()
        status = answer.status
        while size <= limit_bytes and (part := answer.read(1 << 14)):
            parts.append(part)
            size += len(part)
    except (OSError, ValueError, AttributeError, http.client.HTTPException) as caught:
        error = caught
    finally:
        timer.cancel()
        hang_up()
    if over.is_set() or isinstance(error, TimeoutError):
        raise ChannelError(f"{where}{path} did not answer within {timeout_s:g} s") from error
    if error is not None:
        words = getattr(error, "strerror", None) or type(error).__name__
        raise ChannelError(f"{where}{path} gave no answer: {words}") from error
    return Reply(status, b"".join(parts)[:limit_bytes], size > limit_bytes)
