"""A real server on a free port of this machine."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
import uvicorn

from diagnoser.serve.app import application
from diagnoser.serve.limits import Door, Limits

NAMES = frozenset(["127.0.0.1", "localhost"])


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Starts servers; gives their addresses."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(token: str | None = None, **limits: float) -> str:
        app = application(Door(token, NAMES), Limits(**limits))  # type: ignore[arg-type]
        config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error")
        socket = config.bind_socket()
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        running.append((server, thread))
        return f"http://127.0.0.1:{socket.getsockname()[1]}"

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(10)
