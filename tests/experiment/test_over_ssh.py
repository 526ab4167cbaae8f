"""Experiments on a machine behind a real sshd: the same steps, a cut connection, and the dead-man that restores."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.experiment.conftest import Place
from tests.hosts.conftest import Server, sshd, sshd_with  # noqa: F401  (fixtures)


class Far(NamedTuple):
    """A machine over SSH, which is this one with other state."""

    place: Place
    server: Server

    def events(self) -> list[str]:
        return self.place.events() if (self.place.folder / "state").exists() else []

    def logs(self) -> str:
        files = (self.place.folder / "far").rglob("dead-man.log")
        return "".join(file.read_text() for file in files)


@pytest.fixture
def far(place: Place, sshd_with: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> Far:  # noqa: F811
    """The machine is reached as ``ssh gpu-07`` would reach it; its state is in a folder of its own."""
    server = sshd_with(f"SetEnv DIAGNOSER_STATE={place.folder / 'far'}")
    home = place.folder / "home" / ".ssh"
    home.mkdir(parents=True)
    (home / "config").write_text(
        f"Host gpu-07\n  HostName 127.0.0.1\n  Port {server.port}\n  User {server.user}\n"
        f"  IdentityFile {server.folder / 'client'}\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {server.folder / 'known_hosts'}\n"
    )
    monkeypatch.setenv("HOME", str(home.parent))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return Far(place, server)


def args(far: Far, *more: str) -> tuple[str, ...]:
    return (
        "--url", far.place.url, "--host", "gpu-07", "--pid", str(far.place.pid()), "--set-flag", "--attention-backend=fa3",
        "--prompt-tokens", "16", "--output-tokens", "12", "--runs", "3", *more,
    )  # fmt: skip


def reached(far: Far, step: str, *more: str) -> subprocess.Popen[str]:
    """An experiment over SSH that has just written a step; begun again where a busy machine voids it before."""
    journals = far.place.folder / "state" / "experiments"
    for _ in range(5):
        for old in journals.glob("*.jsonl"):
            old.unlink()
        process = far.place.run(*args(far, "--apply", "--yes", *more), wait=False)
        deadline = time.monotonic() + 120
        while process.poll() is None:
            if step in far.events():
                return process
            assert time.monotonic() < deadline, far.events()
            time.sleep(0.01)
        assert process.returncode == 13, process.communicate()
    pytest.skip("the machine is too busy to measure anything")


def test_the_plan_over_ssh_touches_nothing(far: Far, triton: int) -> None:
    out, err = far.place.run(*args(far)).communicate()
    assert "Plan: --attention-backend fa3, on gpu-07" in out, err
    assert "60 s without a word from here" in out
    assert not (far.place.folder / "far").exists()


def test_a_start_and_a_roll_back_over_ssh(far: Far, triton: int) -> None:
    process = reached(far, "ready")
    assert far.place.backend() == "fa3"
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 14, process.communicate()
    assert far.place.backend() == "triton"
    assert far.events()[-1] == "restored"
    far_files = [file.name for file in (far.place.folder / "far").rglob("*") if file.is_file()]
    assert "undo.sh" not in far_files
    assert "start.sh" not in far_files  # it holds the environment
    assert not (far.place.folder / "far" / "diagnoser.lock").exists()


def test_the_machine_restores_itself_when_nobody_is_left(far: Far, triton: int) -> None:
    """kill -9 of the process here: there is no watcher for another machine, the dead-man there does it."""
    process = reached(far, "ready", "--dead-man", "3")
    process.kill()
    process.wait()
    assert far.place.backend() == "fa3"
    deadline = time.monotonic() + 30
    while far.place.backend() != "triton":
        assert time.monotonic() < deadline, far.logs()
        time.sleep(0.2)
    assert "no sign of life for 3 s" in far.logs()
    done = far.place.run("--rollback")
    assert done.returncode == 0, done.communicate()
    assert far.events()[-1] == "restored"
    assert far.place.backend() == "triton"


@pytest.mark.parametrize("step", ["stopping", "starting", "ready"])
def test_a_connection_that_is_cut(far: Far, triton: int, step: str) -> None:
    """Every session is killed and sshd stays away: the dead-man restores; when sshd is back, --rollback says so."""
    process = reached(far, step, "--dead-man", "3")
    os.kill(far.server.process.pid, signal.SIGSTOP)  # lets nobody in
    subprocess.run(["pkill", "-9", "-P", str(far.server.process.pid)], check=False)
    deadline = time.monotonic() + 40
    try:
        while far.place.backend() != "triton" or "bringing the server back" not in far.logs():
            assert time.monotonic() < deadline, far.logs()
            time.sleep(0.2)
    finally:
        os.kill(far.server.process.pid, signal.SIGCONT)
    assert process.wait(120) == 14, process.communicate()  # it came back to a server that was restored
    assert "the connection was lost" in process.communicate()[0]
    assert far.events()[-1] == "restored"
    assert far.place.backend() == "triton"


def test_two_experiments_exclude_each_other_on_the_machine(far: Far, triton: int, tmp_path: Path) -> None:
    """Also when they are led from different places."""
    process = reached(far, "measuring")
    other = Place(far.place.port, tmp_path / "elsewhere")
    second = other.run(*args(far, "--apply", "--yes", "--allow-serving"))
    assert second.returncode == 13
    assert "gpu-07: another experiment has this machine" in second.communicate()[1]
    process.send_signal(signal.SIGINT)
    process.wait(60)
    assert far.place.backend() == "triton"


@pytest.mark.slow  # a busy machine voids what is measured
def test_a_whole_experiment_over_ssh(far: Far, triton: int) -> None:
    told = far.place.run(*args(far, "--apply", "--yes"))
    out, err = told.communicate()
    assert told.returncode == 0, out + err
    assert "Confirmed: --attention-backend fa3" in out
    assert far.place.backend() == "triton"


def test_a_machine_that_cannot_be_reached(place: Place) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    told = place.run(
        "--url", place.url, "--host", f"root@127.0.0.1:{port}", "--pid", "1", "--unset-flag", "--x"
    )
    assert told.returncode == 2
    assert "\n" not in told.communicate()[1].strip()
