"""What whole experiments share: a place with a port and a state folder of its own."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

FAKE = Path(__file__).with_name("fake_sglang.py")
SHORT = ("--output-tokens", "12", "--prompt-tokens", "16", "--runs", "3")


INTERRUPTIBLE = ("env", "--default-signal=INT")
"""What is started in the background of a script ignores Ctrl-C, and so would its children."""


class Place(NamedTuple):
    """Where an experiment runs: the server's port, and a state folder of its own."""

    port: int
    folder: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self, backend: str) -> list[str]:
        return [sys.executable, str(FAKE), "--port", str(self.port), "--attention-backend", backend]

    @property
    def yes(self) -> tuple[str, ...]:
        return (*SHORT, "--apply", "--yes", "--host", socket.gethostname())

    def bisect(self, *arguments: str) -> subprocess.Popen[str]:
        return self.run(*arguments, command="bisect")

    def run(
        self, *arguments: str | Path, wait: bool = True, command: str = "confirm"
    ) -> subprocess.Popen[str]:
        environment = {**os.environ, "DIAGNOSER_STATE": str(self.folder / "state")}
        process = subprocess.Popen(
            [*INTERRUPTIBLE, sys.executable, "-m", "diagnoser", command, *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        if wait:
            process.wait(180)
        return process

    def confirmed(self, *arguments: str | Path, wait: bool = True) -> subprocess.Popen[str]:
        yes = ("--apply", "--yes", "--host", socket.gethostname())
        return self.run("--url", self.url, *SHORT, *yes, *arguments, wait=wait)

    def backend(self) -> str | None:
        """The attention backend of the server that answers; None where none does."""
        try:
            with urllib.request.urlopen(f"{self.url}/get_server_info", timeout=5) as answer:
                return str(json.load(answer)["attention_backend"])
        except OSError:
            return None

    def events(self) -> list[str]:
        files = sorted((self.folder / "state" / "experiments").glob("*.jsonl"))
        return [json.loads(line)["event"] for file in files for line in file.read_text().splitlines()]

    def up(self, backend: str) -> bool:
        """Whether a server answers with a backend, soon."""
        for _ in range(100):
            if self.backend() == backend:
                return True
            time.sleep(0.1)
        return False

    def pid(self) -> int:
        """The server's process."""
        found = subprocess.run(
            ["pgrep", "-f", f"^[^ ]*python[^ ]* {FAKE} --port {self.port} "],
            capture_output=True,
            text=True,
            check=True,
        )
        return int(found.stdout.split()[-1])

    def reached(self, step: str, *arguments: str | Path, pid: bool = True) -> subprocess.Popen[str]:
        """An experiment that has just written a step into its journal.

        A busy machine voids what is measured before; then it is begun again, which changes nothing of what is tested.
        """
        journals = self.folder / "state" / "experiments"
        for _ in range(5):
            for old in journals.glob("*.jsonl"):
                old.unlink()
            whom = ("--pid", str(self.pid())) if pid else ()
            process = self.confirmed(*whom, "--set-flag", "--attention-backend=fa3", *arguments, wait=False)
            deadline = time.monotonic() + 120
            while process.poll() is None:
                if journals.is_dir() and step in self.events():
                    return process
                assert time.monotonic() < deadline, self.events()
                time.sleep(0.005)
            assert process.returncode == 13, process.communicate()
        pytest.skip("the machine is too busy to measure anything")

    def back(self, backend: str, within_s: float = 30) -> bool:
        """Whether the server answers with a backend, and the experiment is ended, soon."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if self.backend() == backend and self.events()[-1] == "restored":
                return True
            time.sleep(0.2)
        return False


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    yield Place(port, tmp_path)
    subprocess.run(["pkill", "-9", "-f", f"fake_sglang.py --port {port}( |$)"], check=False)


@pytest.fixture
def triton(place: Place) -> Iterator[int]:
    """A running server on the slow backend."""
    with (place.folder / "server.log").open("wb") as log:
        process = subprocess.Popen(place.command("triton"), stdout=log, stderr=log, start_new_session=True)
    for _ in range(100):
        if place.backend():
            break
        time.sleep(0.1)
    yield process.pid
    process.kill()
    process.wait()
