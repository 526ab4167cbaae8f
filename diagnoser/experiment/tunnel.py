"""A port of this machine that leads to one of another, through the SSH connection that is there already."""

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any

PIECE = 1 << 16


class Tunnel:
    """``local`` is a port of this machine's loopback; what connects there reaches ``127.0.0.1:port`` of the other.

    dial: opens a way to a port of the other machine; called for each connection, so that it outlives a loss.
    """

    def __init__(self, dial: Callable[[int], Any], port: int) -> None:
        self._dial = dial
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.local: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(near,), daemon=True).start()

    def _join(self, near: socket.socket) -> None:
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            far = self._dial(self._port)
        except Exception:  # of many kinds; the client sees a closed connection
            near.close()
            return
        back = threading.Thread(target=_pump, args=(far, near), daemon=True)
        back.start()
        _pump(near, far)
        back.join(5)
        near.close()
        far.close()


def _pump(source: Any, sink: Any) -> None:
    """Carry bytes until the source ends; then the sink is told."""
    with contextlib.suppress(OSError, EOFError):
        while data := source.recv(PIECE):
            sink.sendall(data)
    with contextlib.suppress(OSError, EOFError):
        if hasattr(sink, "shutdown_write"):
            sink.shutdown_write()
        else:
            sink.shutdown(socket.SHUT_WR)
