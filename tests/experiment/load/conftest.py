"""A server of ours with a known schedule, in its own process."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("scheduled_server.py")


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Starts a server with the given `Schedule` fields; gives its URL."""
    started = []

    def start(**schedule: Any) -> str:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), json.dumps(schedule)], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        return f"http://127.0.0.1:{int(process.stdout.readline())}"

    yield start
    for process in started:
        process.kill()
        process.communicate()
