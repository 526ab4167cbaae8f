"""This machine, asked as any other."""

import contextlib
import http.client
import os
import selectors
import signal
import subprocess
import threading
import time
from typing import IO

from diagnoser.sources.hosts.channel import MIB, ChannelError, Gathered, Output, Reply, now
from diagnoser.sources.hosts.web import get


class LocalChannel:
    """Runs commands with /bin/sh in a session of their own, so that all of it can be ended."""

    name = "local"

    def execute(
        self, line: str, *, timeout_s: float = 20.0, limit_bytes: int = 16 * MIB, stdin: bytes = b""
    ) -> Output:
        started, begin = now(), time.monotonic()
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", line],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise ChannelError(f"local: /bin/sh cannot be started: {error.strerror}") from error
        assert process.stdin is not None
        writer = threading.Thread(target=_write, args=(process.stdin, stdin), daemon=True)
        writer.start()
        gathered = Gathered(limit_bytes)
        try:
            timed_out = not _drain(process, gathered, begin + timeout_s)
        except BaseException:
            _end(process)
            raise
        ended = timed_out or gathered.truncated
        if ended:
            _end(process)
        code = process.returncode
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
        return Output(
            gathered.of("out"),
            gathered.of("err"),
            None if ended else code if code >= 0 else 128 - code,  # as a shell tells a death by a signal
            time.monotonic() - begin,
            started,
            gathered.truncated,
            timed_out,
        )

    def fetch(self, port: int, path: str, *, timeout_s: float = 5.0, limit_bytes: int = 4 * MIB) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
        return get(connection, connection.close, f"{self.name}: port {port}", path, timeout_s, limit_bytes)

    def close(self) -> None:
        """Nothing is held."""


def _drain(process: subprocess.Popen[bytes], gathered: Gathered, deadline: float) -> bool:
    """Read both streams to their end; False at the deadline. A full limit ends it early."""
    with selectors.DefaultSelector() as ready:
        for stream, pipe in (("out", process.stdout), ("err", process.stderr)):
            assert pipe is not None
            ready.register(pipe, selectors.EVENT_READ, stream)
        while ready.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            for key, _ in ready.select(left):
                data = os.read(key.fd, 1 << 16)
                if not data:
                    ready.unregister(key.fileobj)
                elif not gathered.add(key.data, data):
                    return True
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # A process that waits for a broken device does not even end by this; it is not waited for.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(2)


def _write(pipe: IO[bytes], data: bytes) -> None:
    # A command that does not read its input closes it.
    with contextlib.suppress(OSError), pipe:
        pipe.write(data)
