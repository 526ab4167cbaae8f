"""HTTP GET over a connection that is already there, bounded in time and size."""

import http.client
import threading

from diagnoser.sources.hosts.channel import ChannelError, Reply


def get(
    connection: http.client.HTTPConnection,
    host: str,
    port: int,
    path: str,
    timeout_s: float,
    limit_bytes: int,
) -> Reply:
    """The answer, whatever its status; redirects are not followed. Closes the connection.

    Raises `ChannelError` when there is none within the time.
    """
    over = threading.Event()
    parts: list[bytes] = []
    size = 0

    def give_up() -> None:
        over.set()
        # Ends a reading that is under way; a server that sends a byte now and then would hold it for ever.
        connection.close()

    timer = threading.Timer(timeout_s, give_up)
    timer.daemon = True
    timer.start()
    try:
        connection.request(
            "GET", path, headers={"Host": f"127.0.0.1:{port}", "Accept": "*/*", "Connection": "close"}
        )
        answer = connection.getresponse()
        while size <= limit_bytes and (part := answer.read(1 << 14)):
            parts.append(part)
            size += len(part)
    except (OSError, ValueError, AttributeError, http.client.HTTPException) as error:
        if over.is_set() or isinstance(error, TimeoutError):
            raise ChannelError(f"{host}: port {port}{path} did not answer within {timeout_s:g} s") from error
        words = getattr(error, "strerror", None) or type(error).__name__
        raise ChannelError(f"{host}: port {port}{path} gave no answer: {words}") from error
    finally:
        timer.cancel()
        connection.close()
    if over.is_set():
        raise ChannelError(f"{host}: port {port}{path} did not answer within {timeout_s:g} s")
    return Reply(answer.status, b"".join(parts)[:limit_bytes], size > limit_bytes)
