"""`diagnose --host` against a real sshd in front of a made-up GPU host: the right answer, and nothing changed there."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from diagnoser.sources.hosts.channel import ChannelError
from diagnoser.sources.hosts.local import LocalChannel
from diagnoser.sources.hosts.readonly import COMMANDS, ReadOnlyHost
from diagnoser.sources.hosts.remote_log import read_log
from diagnoser.sources.hosts.script import script
from tests.hosts.conftest import Server
from tests.hosts.fake_host import SMI, STORY, commands, server

StartServer = Callable[..., Server]
ROOT = "triton-attn-default-sm120"


class User:
    """Somebody with an account of his own who runs `diagnose`."""

    def __init__(self, home: Path, machine: Server, *lines: str) -> None:
        self.home = home
        ssh = home / ".ssh"
        ssh.mkdir(parents=True)
        shutil.copy(machine.folder / "known_hosts", ssh / "known_hosts")
        aliases = lines or (f"Host gpu-07\n  HostName 127.0.0.1\n  Port {machine.port}",)
        common = f"Host *\n  User {machine.user}\n  IdentityFile {machine.folder / 'client'}\n  IdentitiesOnly yes\n"
        (ssh / "config").write_text("\n".join(aliases) + "\n" + common)

    def run(self, *arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "HOME": str(self.home),
            "DIAGNOSER_AUDIT": str(self.home / "audit.jsonl"),
        }
        environment.pop("SSH_AUTH_SOCK", None)
        return subprocess.run(
            [sys.executable, "-m", "diagnoser", *map(str, arguments)],
            capture_output=True, text=True, input=stdin, env=environment, timeout=120, check=False,
        )  # fmt: skip


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Servers of one test are seen by every other one on this machine."""
    with Path(tempfile.gettempdir(), "diagnoser-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def gpu_host(tmp_path: Path, sshd_with: StartServer) -> Server:
    folder = commands(tmp_path / "bin")
    return sshd_with(f"SetEnv PATH={folder}:/usr/bin:/bin")


@pytest.fixture
def user(tmp_path: Path, gpu_host: Server) -> User:
    return User(tmp_path / "home", gpu_host)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "server.log"
    shutil.copy(STORY, file)
    return file


def test_one_command_finds_what_the_story_found(user: User, log: Path) -> None:
    with server(log, NCCL_P2P_DISABLE="0") as pid:
        told = user.run("--host", "gpu-07", "-f", "json")
    assert told.returncode == 1, told.stderr
    answer = json.loads(told.stdout)
    first = answer["findings"][0]
    assert first["rule"] == ROOT
    assert first["fixes"][0]["command"] == "--attention-backend flashinfer"
    said = STORY.read_text().splitlines()
    number = next(i for i, line in enumerate(said, 1) if "Attention backend not specified" in line)
    places = {(place["host"], place["document"], place["line"]) for place in first["evidence"]}
    assert ("gpu-07", str(log), number) in places
    kinds = {document["kind"] for document in answer["coverage"]}
    assert {"sglang log", "nvidia-smi table", "nvidia-smi -q", "nvidia-smi topo"} <= kinds
    assert any(
        "nvidia-smi nvlink" in sentence and "Invalid combination" in sentence
        for sentence in answer["unreadable"]
    )
    assert any(f"/proc/{pid}/cmdline" == document["document"] for document in answer["coverage"])


def test_looking_only_where_a_question_asks(user: User, log: Path) -> None:
    with server(log):
        told = user.run("--host", "gpu-07", "--fast", "-f", "json")
    answer = json.loads(told.stdout)
    assert answer["findings"][0]["rule"] == ROOT
    audit = [json.loads(line) for line in (user.home / "audit.jsonl").read_text().splitlines()]
    ran = " ".join(row.get("command", "") for row in audit)
    assert "nvidia-smi -q" not in ran or answer["steps"]
    for step in answer["steps"]:
        assert step["probes"]
        assert "it decides" in step["because"]


def test_nothing_on_the_machine_changes(user: User, gpu_host: Server, log: Path) -> None:
    def state() -> tuple[dict[str, tuple[float, int]], set[str], str]:
        files = {
            str(path): (path.lstat().st_mtime, path.lstat().st_size)
            for folder in (gpu_host.folder, log.parent / "bin", log)
            for path in ([folder] if folder.is_file() else folder.rglob("*"))
            if path.name != "sshd.log"
        }
        processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        mine = {line for line in processes.splitlines() if str(log.parent) in line or "sglang" in line}
        # Without a process of the account left there is no port of it either.
        left = subprocess.run(
            ["pgrep", "-P", str(gpu_host.process.pid)], capture_output=True, text=True, check=False
        )
        return files, mine, left.stdout

    with server(log):
        before = state()
        assert before[2] == ""
        assert user.run("--host", "gpu-07").returncode == 1
        for _ in range(30):
            if state() == before:
                return
            time.sleep(0.1)
        assert state() == before


def test_a_bundle_gives_the_same_answer_later(user: User, log: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "seen.tar.zst"
    with server(log, HF_TOKEN="hf_" + "aB3" * 12):
        live = json.loads(user.run("--host", "gpu-07", "-f", "json").stdout)
        report = tmp_path / "incident.md"
        assert user.run("--host", "gpu-07", "--report", report).returncode == 1
        text = report.read_text()
        assert "Use triton backend by default" in text
        assert "Using default HuggingFace chat template" in text  # a line near the evidence, fetched with it
        assert "diagnose --explain triton-attn-default-sm120 --host gpu-07" in text
        kept = user.run("collect", "--host", "gpu-07", "-o", bundle)
    assert kept.returncode == 0, kept.stderr
    later = json.loads(user.run(bundle, "-f", "json").stdout)
    # Two looks at one machine: what moves by itself (free memory, counters) may stand otherwise in the evidence.
    keys = ("rule", "role", "confidence", "fixes")
    assert [[one[key] for key in keys] for one in later["findings"]] == [
        [one[key] for key in keys] for one in live["findings"]
    ]
    assert later["findings"][0] == live["findings"][0]
    assert [sentence.split(":")[:2] for sentence in later["unreadable"]] == [
        sentence.split(":")[:2] for sentence in live["unreadable"]
    ]
    with bundle.open("rb") as packed:
        assert b"aB3aB3" not in zstandard.ZstdDecompressor().stream_reader(packed).read()
    bundle.write_bytes(bundle.read_bytes()[:-200])
    assert user.run(bundle).returncode in (1, 2)


def test_the_script_prints_what_can_be_pasted(log: Path, tmp_path: Path, user: User) -> None:
    folder = commands(tmp_path / "bin")
    with server(log):
        printed = subprocess.run(
            ["dash", "-c", script()], capture_output=True, text=True, check=True,
            env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        ).stdout  # fmt: skip
    told = user.run("-f", "json", "-", stdin=printed)
    assert json.loads(told.stdout)["findings"][0]["rule"] == ROOT


def test_hosts_that_cannot_be_looked_at(user: User) -> None:
    told = user.run("--host", "127.0.0.1:1")
    assert (told.returncode, told.stdout) == (2, "")
    assert "refuses the connection" in told.stderr
    assert user.run("--hosts-file", "/no/where").returncode == 2
    assert "terminal" in user.run("--host", "gpu-07", "--interactive").stderr


def test_the_list_is_the_only_way(tmp_path: Path) -> None:
    host = ReadOnlyHost(LocalChannel())
    for command, parameters in (
        ("rm", {}),
        ("file", {"path": "relative"}),
        ("server.limits", {"pid": "1; touch /tmp/x"}),
        ("log.docker", {"container": "a b", "count": 5}),
        ("log.journal", {"unit": "-x", "count": 5}),
    ):
        with pytest.raises(ChannelError):
            host.run(command, parameters)  # type: ignore[arg-type]
    with pytest.raises(ChannelError):
        host.get(80, "/shutdown")
    evil = tmp_path / "a'; touch owned; '.json"
    evil.write_text("{}")
    assert host.run("file", {"path": str(evil)}).stdout == b"{}"
    assert not (tmp_path / "owned").exists()
    for command in COMMANDS.values():
        writes = (" rm ", " mv ", "sed -i", " tee ", "kill ", "systemctl restart", "docker stop", "> /", ">>")
        assert not any(word in f" {command.line.replace('2> /dev/null', '')} " for word in writes), command.id


def big_log(file: Path, size: int) -> int:
    """A log with one telling line in the middle; its number."""
    filler = (
        "[2026-02-27 15:38:14] INFO nothing to see on this line of the log, which is long enough to count\n"
        * 1000
    )
    with file.open("w") as out:
        for _ in range(size // len(filler) // 2):
            out.write(filler)
        half = out.tell()
        out.write(
            "[2026-02-27 15:38:15] ValueError: the telling one is not enough memory. Please try increasing\n"
        )
        for _ in range(size // len(filler) // 2):
            out.write(filler)
    return half // len(filler) * 1000 + 1


@pytest.mark.parametrize("megabytes", [12, pytest.param(5000, marks=pytest.mark.slow)])
def test_a_big_log_is_not_copied_whole(tmp_path: Path, megabytes: int) -> None:
    file = tmp_path / "big.log"
    number = big_log(file, megabytes << 20)
    log = read_log(ReadOnlyHost(LocalChannel()), str(file), b"Please try increasing\n")
    assert sum(len(part.text) for part in log.parts) < 4 << 20
    assert log.note is not None
    assert log.size_bytes == file.stat().st_size
    lines = file.read_text().splitlines() if megabytes < 100 else []
    assert log.lines == len(lines) or not lines
    for part in log.parts:
        if lines:
            text = part.text.decode().splitlines()
            assert text == lines[part.first_line - 1 : part.first_line - 1 + len(text)]
    assert any(part.first_line <= number < part.first_line + part.text.count(b"\n") for part in log.parts)
    assert log.parts[-1].first_line + log.parts[-1].text.count(b"\n") - 1 == log.lines


@pytest.mark.parametrize("size", [0, 10, 600 << 10, (2 << 20) + 7])
def test_smaller_logs_come_whole(tmp_path: Path, size: int) -> None:
    file = tmp_path / "small.log"
    file.write_bytes((b"0123456789 line of a log\n" * (size // 25 + 1))[:size])
    log = read_log(ReadOnlyHost(LocalChannel()), str(file), b"nothing\n")
    assert (
        b"".join(part.text for part in log.parts).rstrip(b"\n") == file.read_bytes().rstrip(b"\n")
        or size > 2 << 20
    )
    assert log.parts[0].first_line == 1


def fleet(tmp_path: Path, sshd_with: StartServer, size: int) -> tuple[User, list[str]]:
    """Many hosts on loopback addresses of one sshd. The first has cards with a low power limit, the second is slow."""
    table = SMI / "t07_table_580_8x_rtxpro6000_idle.txt"
    odd = tmp_path / "odd.txt"
    odd.write_text(table.read_text().replace("600W", "300W"))
    folder = commands(tmp_path / "bin", full=False)
    plain = (folder / "nvidia-smi").read_text().removeprefix("#!/bin/sh\n")
    (folder / "nvidia-smi").write_text(
        "#!/bin/sh\na=$*; set -- $SSH_CONNECTION\n"
        f'[ "$3" = 127.0.1.1 ] && [ -z "$a" ] && exec cat {odd}\n[ "$3" = 127.0.1.2 ] && sleep 2\nset -- $a\n{plain}'
    )
    machine = sshd_with(f"SetEnv PATH={folder}:/usr/bin:/bin", "MaxStartups 200:30:300", listen="0.0.0.0")
    key = (machine.folder / "known_hosts").read_text().split(None, 1)[1]
    hosts = {f"gpu-{number:02d}": f"127.0.1.{number}" for number in range(1, size + 1)}
    known = "".join(f"[{address}]:{machine.port} {key}" for address in hosts.values())
    (machine.folder / "known_hosts").write_text(known)
    aliases = [f"Host {name}\n  HostName {address}\n  Port {machine.port}" for name, address in hosts.items()]
    dead = [f"dead-{number}" for number in range(3)]
    aliases += [f"Host {name}\n  HostName 127.0.0.1\n  Port 1" for name in dead]
    return User(tmp_path / "home", machine, *aliases), [*hosts, *dead]


@pytest.mark.parametrize("size", [6, pytest.param(64, marks=pytest.mark.slow)])
def test_the_odd_one_of_many(tmp_path: Path, sshd_with: StartServer, size: int) -> None:
    user, names = fleet(tmp_path, sshd_with, size)
    hosts = tmp_path / "hosts.txt"
    hosts.write_text("# the rack\n" + "\n".join(names) + "\n")
    told = user.run("--hosts-file", hosts, "-f", "json")
    answer = json.loads(told.stdout)
    assert [one["host"] for one in answer["hosts"]] == names
    assert [one["host"] for one in answer["hosts"] if one["error"]] == names[-3:]
    assert all("refuses the connection" in one["error"] for one in answer["hosts"][-3:])
    odd = {
        (one["host"], one["value"], one["usual"])
        for one in answer["deviations"]
        if "power limit" in one["subject"]
    }
    assert odd == {("gpu-01", 300, 600)}
    assert {one["host"] for one in answer["deviations"]} == {"gpu-01"}
    shown = user.run("--hosts-file", hosts)
    assert f"{size + 3} hosts: " in shown.stdout
    assert "3 not reached" in shown.stdout
    assert "gpu-01: gpu 0 1 2 3 4 5 6 7 power limit w is 300" in shown.stdout.replace(".0", "")


def test_what_may_be_run_is_shown(user: User) -> None:
    assert "nvidia-smi topo -m" in user.run("probes").stdout
    shown = user.run("probes", "--commands").stdout
    assert all(command.line.strip() in shown for command in COMMANDS.values())
