"""A real OpenSSH server on loopback, started and stopped by the tests, with keys and accounts of its own."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from diagnoser.sources.hosts.ssh import ConnectOptions

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")


class Server(NamedTuple):
    """One sshd. target: what to connect to. folder: its keys and configuration."""

    process: subprocess.Popen[bytes]
    port: int
    folder: Path
    user: str

    @property
    def target(self) -> str:
        return f"{self.user}@127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "sshd.log").read_text()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def keygen(file: Path, *arguments: str) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", *arguments, "-f", str(file)], check=True)


def start(folder: Path, *settings: str, listen: str = "127.0.0.1") -> Server:
    """An sshd with the host key and the client key in ``folder``, which are made where they are missing."""
    assert SSHD, "sshd is not installed; install openssh-server (ci/apt.txt)"
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("host", "client"):
        if not (folder / name).exists():
            keygen(folder / name)
    shutil.copy(folder / "client.pub", folder / "authorized_keys")
    port = free_port()
    lines = [
        *settings,  # of several values sshd takes the first
        f"ListenAddress {listen}:{port}", f"Port {port}", f"HostKey {folder / 'host'}", f"PidFile {folder / 'pid'}",
        f"AuthorizedKeysFile {folder / 'authorized_keys'}", "PermitRootLogin prohibit-password", "UsePAM no",
        "PasswordAuthentication no", "KbdInteractiveAuthentication no", "StrictModes no", "LogLevel VERBOSE",
    ]  # fmt: skip
    (folder / "config").write_text("\n".join(lines) + "\n")
    with (folder / "sshd.log").open("wb") as log:
        process = subprocess.Popen([SSHD, "-D", "-e", "-f", str(folder / "config")], stderr=log)
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    user = (
        os.environ.get("USER")
        or subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    )
    key = (folder / "host.pub").read_text().split()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key[0]} {key[1]}\n")
    return Server(process, port, folder, user)


def stop(server: Server) -> None:
    server.process.terminate()
    server.process.wait(10)


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = start(tmp_path_factory.mktemp("sshd"))
    yield server
    stop(server)


@pytest.fixture
def sshd_with(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts further servers for one test."""
    started: list[Server] = []

    def make(*settings: str, folder: str = "other", listen: str = "127.0.0.1") -> Server:
        started.append(start(tmp_path / folder, *settings, listen=listen))
        return started[-1]

    yield make
    for server in started:
        stop(server)


def options(server: Server, **changed: object) -> ConnectOptions:
    """Knows the server and its key, and nothing of the user who runs the tests."""
    config = server.folder / "ssh_config"
    config.write_text(f"Host *\n  IdentityFile {server.folder / 'client'}\n  IdentitiesOnly yes\n")
    given: dict[str, object] = {
        "config": config,
        "known_hosts": server.folder / "known_hosts",
        "connect_s": 5.0,
    }
    return ConnectOptions(**{**given, **changed})  # type: ignore[arg-type]
