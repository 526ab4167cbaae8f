"""Against a real sshd: what goes in comes out, limits hold on the machine too, and every refusal is a sentence."""

import http.server
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from diagnoser.sources.hosts.audit import Audited
from diagnoser.sources.hosts.channel import Channel, ChannelError
from diagnoser.sources.hosts.ssh import connect
from tests.hosts.conftest import Server, free_port, keygen, options

StartServer = Callable[..., Server]


@pytest.fixture(scope="module")
def machine(sshd: Server) -> Iterator[Channel]:
    channel = connect(sshd.target, options(sshd))
    yield channel
    channel.close()


@pytest.fixture(params=["ssh", "local"])
def either(request: pytest.FixtureRequest, machine: Channel) -> Channel:
    return machine if request.param == "ssh" else connect("local")


def refusal(target: str, *arguments: object) -> str:
    with pytest.raises(ChannelError) as caught:
        connect(target, *arguments)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def running(mark: str) -> bool:
    return subprocess.run(["pgrep", "-f", mark], capture_output=True, check=False).returncode == 0


def test_output_error_and_exit_code(either: Channel) -> None:
    said = either.execute("echo out; echo err >&2; exit 3")
    assert (said.stdout, said.stderr, said.exit_code) == (b"out\n", b"err\n", 3)
    assert not said.truncated
    assert not said.timed_out


def test_quotes_and_standard_input_arrive_as_they_are(either: Channel) -> None:
    line = "printf '%s|' \"a'b\" '$HOME' \"\\\\\" 'x\"y'; cat"
    assert either.execute(line, stdin=b"in\0put\n").stdout == b"a'b|$HOME|\\|x\"y|in\0put\n"


def test_both_streams_at_once_are_no_deadlock(either: Channel) -> None:
    said = either.execute("head -c 5000000 /dev/zero >&2; head -c 5000000 /dev/zero; echo done")
    assert len(said.stderr) == 5_000_000
    assert said.stdout.endswith(b"done\n")
    assert said.exit_code == 0


def test_a_command_that_prints_for_ever_is_ended_on_the_machine(either: Channel) -> None:
    mark = f"forever{os.getpid()}"
    said = either.execute(f"while :; do echo {mark}; done", limit_bytes=1 << 20)
    assert said.truncated
    assert said.exit_code is None
    assert len(said.stdout) == 1 << 20
    time.sleep(0.3)
    assert not running(mark)


def test_a_command_that_hangs_is_ended_on_the_machine(either: Channel) -> None:
    said = either.execute("echo begun; sleep 31.4159 & wait; sleep 31.4159", timeout_s=1)
    assert said.timed_out
    assert said.exit_code is None
    assert said.stdout == b"begun\n"
    assert said.wall_s < 5
    time.sleep(0.3)
    assert not running("sleep 31.4159")


def test_a_command_that_closes_its_output_and_hangs_is_ended_too(either: Channel) -> None:
    said = either.execute("exec >&- 2>&-; sleep 27.1828", timeout_s=1)
    assert said.timed_out
    assert said.exit_code is None
    time.sleep(0.3)
    assert not running("sleep 27.1828")


def test_a_command_that_dies_by_a_signal_has_the_code_a_shell_gives_it(either: Channel) -> None:
    assert either.execute("echo before; kill -SEGV $$").exit_code == 128 + signal.SIGSEGV
    assert either.execute("sh -c 'kill -KILL $$'").exit_code == 128 + signal.SIGKILL


def test_many_commands_at_once_over_one_connection(machine: Channel) -> None:
    said: dict[int, bytes] = {}

    def ask(number: int) -> None:
        said[number] = machine.execute(f"sleep 0.2; echo {number}").stdout

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(25)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {number: f"{number}\n".encode() for number in range(25)}


def test_a_web_server_of_the_machine_is_asked_through_the_connection(either: Channel) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/stall":
                time.sleep(3)
            self.send_response(503 if self.path == "/health" else 200)
            self.end_headers()
            self.wfile.write(b"x" * 3000)

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_port
        assert either.fetch(port, "/health").status == 503
        cut = either.fetch(port, "/metrics", limit_bytes=1000)
        assert (len(cut.body), cut.truncated) == (1000, True)
        with pytest.raises(ChannelError, match="did not answer within 1 s"):
            either.fetch(port, "/stall", timeout_s=1)
        server.shutdown()
    with pytest.raises(ChannelError):
        either.fetch(free_port(), "/health")


def test_a_login_shell_that_talks_and_is_no_bash(sshd_with: StartServer, tmp_path: Path) -> None:
    noisy = tmp_path / "noisy"
    noisy.write_text('#!/bin/sh\necho Welcome to gpu-07\necho motd >&2\nexec /bin/dash "$@"\n')
    noisy.chmod(0o755)
    server = sshd_with(f"SetEnv SHELL={noisy}", f'ForceCommand {noisy} -c "$SSH_ORIGINAL_COMMAND"')
    channel = connect(server.target, options(server))
    answer = channel.execute("echo answer; echo error >&2")
    assert (answer.stdout, answer.stderr) == (b"answer\n", b"error\n")
    channel.close()


def test_an_account_without_commands(sshd_with: StartServer) -> None:
    server = sshd_with("ForceCommand echo This account is not available.")
    channel = connect(server.target, options(server))
    with pytest.raises(ChannelError, match="does not run commands: This account is not available"):
        channel.execute("echo answer")
    channel.close()


def test_a_machine_that_dies_in_the_middle(sshd_with: StartServer) -> None:
    server = sshd_with()
    channel = connect(server.target, options(server))
    threading.Timer(
        0.5, lambda: subprocess.run(["pkill", "-9", "-P", str(server.process.pid)], check=False)
    ).start()
    with pytest.raises(ChannelError, match="the connection was lost"):
        channel.execute("echo begun; sleep 20")
    with pytest.raises(ChannelError, match="the connection was lost"):
        channel.execute("echo again")
    channel.close()


def test_keys_encrypted_in_an_agent_and_asked_for(
    sshd_with: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = sshd_with()
    locked = tmp_path / "locked"
    keygen(locked, "-N", "open sesame")
    with (server.folder / "authorized_keys").open("a") as file:
        file.write((tmp_path / "locked.pub").read_text())
    config = tmp_path / "config"
    config.write_text(f"Host *\n  IdentityFile {locked}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    assert "needs a passphrase; load the key into the agent" in refusal(
        server.target, options(server, config=config)
    )
    asked: list[str] = []

    def answer(question: str) -> str:
        asked.append(question)
        return "open sesame"

    connect(server.target, options(server, config=config, ask=answer)).close()
    assert len(asked) == 1
    assert "that passphrase opens none of the keys" in refusal(
        server.target, options(server, config=config, ask=lambda _: "wrong")
    )
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(tmp_path / "agent")], stdout=subprocess.DEVNULL)
    try:
        for _ in range(50):
            if (tmp_path / "agent").exists():
                break
            time.sleep(0.05)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        monkeypatch.setenv("SSH_ASKPASS", str(_askpass(tmp_path)))
        monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
        subprocess.run(["ssh-add", "-q", str(locked)], check=True, stdin=subprocess.DEVNULL)
        empty = tmp_path / "empty"
        empty.write_text("")
        connect(server.target, options(server, config=empty)).close()
    finally:
        agent.terminate()
        agent.wait()


def _askpass(folder: Path) -> Path:
    script = folder / "askpass"
    script.write_text("#!/bin/sh\necho open sesame\n")
    script.chmod(0o755)
    return script


def test_a_stranger_is_not_let_in(sshd: Server, tmp_path: Path) -> None:
    keygen(tmp_path / "stranger")
    config = tmp_path / "config"
    config.write_text(f"Host *\n  IdentityFile {tmp_path / 'stranger'}\n  IdentitiesOnly yes\n")
    words = refusal(sshd.target, options(sshd, config=config))
    assert f"{sshd.user} is not let in (tried {tmp_path / 'stranger'}" in words


def test_a_password_is_asked_for_where_keys_do_not_help(sshd_with: StartServer) -> None:
    server = sshd_with("AuthenticationMethods password", "PasswordAuthentication yes", "PermitRootLogin yes")
    asked: list[str] = []

    def answer(question: str) -> str:
        asked.append(question)
        return "certainly wrong"

    assert "is not let in" in refusal(server.target, options(server, ask=answer))
    assert asked == [f"password of {server.user}@127.0.0.1: "]
    assert "is not let in" in refusal(server.target, options(server))


def test_through_a_jump_host_and_with_an_alias(sshd: Server, sshd_with: StartServer, tmp_path: Path) -> None:
    behind = sshd_with(folder="behind")
    shutil.copy(sshd.folder / "authorized_keys", behind.folder / "authorized_keys")
    known = tmp_path / "known"
    known.write_text((sshd.folder / "known_hosts").read_text() + (behind.folder / "known_hosts").read_text())
    config = tmp_path / "config"
    config.write_text(
        f"Host jump\n  HostName 127.0.0.1\n  Port {sshd.port}\n"
        f"Host gpu-*\n  HostName 127.0.0.1\n  Port {behind.port}\n  ProxyJump jump\n"
        f"Host piped\n  HostName 127.0.0.1\n  Port {behind.port}\n  ProxyCommand nc 127.0.0.1 {behind.port}\n"
        f"Host *\n  IdentityFile {sshd.folder / 'client'}\n  IdentitiesOnly yes\n  User {sshd.user}\n"
    )
    channel = connect("gpu-07", options(sshd, config=config, known_hosts=known))
    assert channel.name == "gpu-07"
    assert channel.execute("echo $SSH_CONNECTION | cut -d' ' -f4").stdout.decode().strip() == str(behind.port)
    channel.close()
    behind.process.terminate()
    behind.process.wait()
    assert "the jump host cannot reach" in refusal("gpu-07", options(sshd, config=config, known_hosts=known))


class TestHostKeys:
    def test_an_unknown_host_is_refused_and_can_be_added(self, sshd: Server, tmp_path: Path) -> None:
        known = tmp_path / "ssh" / "known_hosts"
        words = refusal(sshd.target, options(sshd, known_hosts=known))
        print_of_it = subprocess.run(
            ["ssh-keygen", "-lf", str(sshd.folder / "host.pub")], capture_output=True, text=True, check=True
        ).stdout.split()[1]
        assert f"its key {print_of_it} (ssh-ed25519) is not in {known}" in words
        assert not known.exists()
        connect(sshd.target, options(sshd, known_hosts=known, accept_new_host_key=True)).close()
        assert known.read_text() == (sshd.folder / "known_hosts").read_text()
        assert known.stat().st_mode & 0o777 == 0o600
        connect(sshd.target, options(sshd, known_hosts=known)).close()

    def test_a_changed_key_is_refused_even_so(self, sshd: Server, tmp_path: Path) -> None:
        keygen(tmp_path / "old")
        kind, key, *_ = (tmp_path / "old.pub").read_text().split()
        known = tmp_path / "known"
        known.write_text(f"# comment\n[127.0.0.1]:{sshd.port} {kind} {key}\n")
        words = refusal(sshd.target, options(sshd, known_hosts=known, accept_new_host_key=True))
        assert "key has changed" in words
        assert f"{known}:2" in words
        assert words.count("SHA256:") == 2
        assert known.read_text().count("\n") == 2

    def test_hashed_names_are_known(self, sshd: Server, tmp_path: Path) -> None:
        known = tmp_path / "known"
        known.write_text((sshd.folder / "known_hosts").read_text())
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known)], check=True, stderr=subprocess.DEVNULL)
        assert "127.0.0.1" not in known.read_text()
        connect(sshd.target, options(sshd, known_hosts=known)).close()

    @pytest.mark.parametrize(
        ("known_hosts", "says"),
        [
            # sshd(8), SSH_KNOWN_HOSTS FILE FORMAT: patterns, exclusions, hashed names, several keys of a kind
            ("[127.0.0.*]:PORT KEY", ""),
            ("[127.0.0.?]:PORT KEY", ""),
            ("[127.0.0.?]:PORT,![127.0.0.1]:PORT KEY", "is not in"),
            ("[127.0.0.1]:PORT KEY\n@revoked * KEY", "is revoked in"),
            ("127.0.0.1 KEY\n@revoked 127.0.0.1 KEY", "is revoked in"),
            ("@cert-authority * OTHER", "certificates of hosts are not checked"),
            ("[127.0.0.1]:PORT KEY\n[127.0.0.1]:PORT OTHER", ""),
            ("[127.0.0.1]:PORT OTHER\n[127.0.0.1]:PORT KEY", ""),
            # as ssh: what is known of the host without a port counts, unless its port is known otherwise
            ("127.0.0.1 KEY", ""),
            ("127.0.0.1 KEY\n[127.0.0.1]:PORT OTHER", "key has changed"),
            # damaged lines are no host's
            (
                "|1|abc|def KEY\n|1| KEY\n|1|a|b|c KEY\n[127.0.0.1]:PORT ssh-ed25519 AAAA\n[127.0.0.1]:PORT KEY",
                "",
            ),
            ("|1|abc|def KEY", "is not in"),
        ],
    )
    def test_what_known_hosts_may_say(
        self, sshd: Server, tmp_path: Path, known_hosts: str, says: str
    ) -> None:
        keygen(tmp_path / "other")
        for word, file in (("KEY", sshd.folder / "host.pub"), ("OTHER", tmp_path / "other.pub")):
            known_hosts = known_hosts.replace(word, " ".join(file.read_text().split()[:2]))
        known = tmp_path / "known"
        known.write_text(known_hosts.replace("PORT", str(sshd.port)) + "\n")
        if says:
            assert says in refusal(sshd.target, options(sshd, known_hosts=known))
        else:
            connect(sshd.target, options(sshd, known_hosts=known)).close()

    def test_a_server_is_asked_for_the_key_that_is_known(
        self, sshd_with: StartServer, tmp_path: Path
    ) -> None:
        keygen(tmp_path / "rsa", "-t", "rsa", "-b", "2048")
        server = sshd_with(f"HostKey {tmp_path / 'rsa'}")
        known = tmp_path / "known"
        for key in (tmp_path / "rsa.pub", server.folder / "host.pub"):
            known.write_text(f"[127.0.0.1]:{server.port} {' '.join(key.read_text().split()[:2])}\n")
            connect(server.target, options(server, known_hosts=known)).close()

    def test_a_revoked_key_is_refused(self, sshd: Server, tmp_path: Path) -> None:
        known = tmp_path / "known"
        line = (sshd.folder / "known_hosts").read_text()
        known.write_text(line + "@revoked " + line)
        assert "is revoked in" in refusal(sshd.target, options(sshd, known_hosts=known))

    def test_the_last_line_without_its_end_stays_whole(self, sshd: Server, tmp_path: Path) -> None:
        known = tmp_path / "known"
        known.write_text("other ssh-ed25519 AAAA")
        connect(sshd.target, options(sshd, known_hosts=known, accept_new_host_key=True)).close()
        assert known.read_text().splitlines()[0] == "other ssh-ed25519 AAAA"
        assert len(known.read_text().splitlines()) == 2


class TestDeadHosts:
    def test_nobody_listens(self, sshd: Server) -> None:
        assert "refuses the connection; does sshd run there" in refusal(
            f"127.0.0.1:{free_port()}", options(sshd)
        )

    def test_a_name_that_nobody_knows(self, sshd: Server) -> None:
        assert "is no known host name" in refusal("gpu-07.invalid", options(sshd))

    def test_a_host_that_accepts_and_is_silent(self, sshd: Server) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            begin = time.monotonic()
            words = refusal(f"127.0.0.1:{port}", options(sshd, connect_s=1.0))
            assert "does not greet as an SSH server within 1 s" in words
            assert time.monotonic() - begin < 6

    def test_a_host_that_greets_and_is_silent(self, sshd: Server) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def greet() -> None:
                connection, _ = listener.accept()
                connection.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")
                time.sleep(8)
                connection.close()

            threading.Thread(target=greet, daemon=True).start()
            begin = time.monotonic()
            assert "127.0.0.1" in refusal(
                f"127.0.0.1:{listener.getsockname()[1]}", options(sshd, connect_s=1.0)
            )
            assert time.monotonic() - begin < 7

    def test_what_is_no_target(self, sshd: Server) -> None:
        assert "is no host" in refusal("", options(sshd))
        assert "is no host" in refusal("a b", options(sshd))
        assert "is no host" in refusal("-oProxyCommand=touch /tmp/x", options(sshd))
        assert "is no port" in refusal("host:99999", options(sshd))

    def test_a_configuration_that_is_none(self, sshd: Server, tmp_path: Path) -> None:
        config = tmp_path / "config"
        config.write_text("Host gpu\n  HostName\n")
        assert "is no SSH configuration" in refusal("gpu", options(sshd, config=config))


@contextmanager
def delayed(port: int, seconds: float) -> Iterator[int]:
    """A proxy that hands every piece on so much later."""
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                time.sleep(seconds)
                target.sendall(data)
        except OSError:
            pass
        finally:
            target.close()

    def accept() -> None:
        while True:
            try:
                inside, _ = listener.accept()
            except OSError:
                return
            outside = socket.create_connection(("127.0.0.1", port))
            for pair in ((inside, outside), (outside, inside)):
                threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    listener.close()


def test_a_slow_line(sshd: Server, tmp_path: Path) -> None:
    with delayed(sshd.port, 0.5) as port:
        known = tmp_path / "known"
        known.write_text((sshd.folder / "known_hosts").read_text().replace(str(sshd.port), str(port)))
        channel = connect(f"{sshd.user}@127.0.0.1:{port}", options(sshd, known_hosts=known, connect_s=20.0))
        assert channel.execute("echo slow").stdout == b"slow\n"
        channel.close()


def test_every_command_is_written_down(machine: Channel, tmp_path: Path) -> None:
    import json

    file = tmp_path / "state" / "audit.jsonl"
    audited = Audited(machine, file)
    audited.execute("echo abc; exit 4")
    with pytest.raises(ChannelError):
        audited.fetch(free_port(), "/health")
    first, second = map(json.loads, file.read_text().splitlines())
    assert (first["command"], first["exit_code"], first["stdout_bytes"]) == ("echo abc; exit 4", 4, 4)
    assert first["at"].endswith("+00:00")
    assert "error" in second
    assert file.stat().st_mode & 0o777 == 0o600
    blocked = Audited(machine, Path("/proc/1/nowhere/audit.jsonl"))
    with pytest.raises(ChannelError, match="audit log"):
        blocked.execute("echo never")
    full = Audited(machine, Path("/dev/full"))
    with pytest.raises(ChannelError, match="/dev/full cannot be written: No space left"):
        full.execute("echo once")


def test_signals_do_not_leave_commands_behind(sshd: Server) -> None:
    """Our process is killed in the middle of a command: the machine ends it by itself."""
    script = (
        "from diagnoser.sources.hosts.ssh import *\n"
        f"c = connect({sshd.target!r}, ConnectOptions(config=Path({str(sshd.folder / 'ssh_config')!r}), "
        f"known_hosts=Path({str(sshd.folder / 'known_hosts')!r})))\n"
        "print('up', flush=True)\nc.execute('sleep 47.11', timeout_s=1.5)\n"
    )
    options(sshd)
    import sys

    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.4)
    process.send_signal(signal.SIGKILL)
    process.wait()
    for _ in range(90):
        if not running("sleep 47.11"):
            return
        time.sleep(0.1)
    pytest.fail("the command runs on")
