"""Getting in, against a real sshd: what is configured is what happens, and what is wrong is said."""

import io
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest

from diagnoser.sources.hosts.channel import ChannelError
from diagnoser.sources.hosts.ssh import connect
from diagnoser.sources.hosts.target import read_target
from tests.hosts.conftest import Server, keygen, options


@pytest.fixture
def said(sshd: Server, tmp_path: Path) -> Callable[..., str]:
    """What a machine of a configuration answers, or why it is not reached; it is named gpu."""

    def ask(config: str, **changed: object) -> str:
        file = tmp_path / "config"
        file.write_text(
            config.replace("HERE", f"HostName 127.0.0.1\n  Port {sshd.port}")
            + f"\nHost *\n  IdentityFile {sshd.folder / 'client'}\n  IdentitiesOnly yes\n  User {sshd.user}\n"
        )
        try:
            channel = connect("gpu", options(sshd, config=file, **changed))
        except ChannelError as error:
            return str(error)
        answer = channel.execute("echo in")
        channel.close()
        return answer.stdout.decode().strip()

    return ask


class TestConfiguration:
    def test_included_files_count(self, said: Callable[..., str], tmp_path: Path, sshd: Server) -> None:
        (tmp_path / "conf.d").mkdir()
        (tmp_path / "conf.d" / "a.conf").write_text(
            f"Host gpu\n  HostName 127.0.0.1\nHost x\n  Port 1\nHost gpu\n  Port {sshd.port}\nHost other\n"
        )
        assert said("Include conf.d/*.conf\nConnectTimeout 5\n") == "in"

    def test_settings_after_an_include_go_on(self, said: Callable[..., str], tmp_path: Path) -> None:
        (tmp_path / "some").write_text("Host other\n  Port 1\n")
        # Of no block, so of every host.
        assert "refuses the connection" in said("Include some\nPort 1\nHostName 127.0.0.1\n")

    def test_an_include_without_blocks_stays_in_its_block(
        self, said: Callable[..., str], tmp_path: Path
    ) -> None:
        (tmp_path / "some").write_text("HostName 127.0.0.1\n")
        assert "other" not in said("Host other\n  Include some\nHost gpu\n  HERE\n")
        (tmp_path / "some").write_text("Host x\n")
        assert "move the Include to the top" in said("Host other\n  Include some\n")

    def test_files_that_include_each_other(self, said: Callable[..., str]) -> None:
        assert "include each other" in said("Include config\n")

    def test_what_is_not_understood_is_not_taken_for_true(
        self, said: Callable[..., str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        words = said("Match localnetwork 192.0.2.0/24\n  HostName 192.0.2.1\nHost gpu\n  HERE\n")
        assert "config:1: Match localnetwork is not understood" in words
        monkeypatch.setattr("sys.stdin", io.StringIO())  # the runner of Match exec reads it
        assert said('Match originalhost gpu exec "true # version"\n  HERE\n') == "in"

    def test_a_name_that_cannot_be_made_canonical(self, said: Callable[..., str]) -> None:
        words = said(
            "CanonicalizeHostname yes\nCanonicalDomains nowhere.invalid\nCanonicalizeFallbackLocal no\n"
        )
        assert "the SSH configuration cannot be applied" in words

    def test_targets(self) -> None:
        assert read_target("u@[fe80::1%eth0]:2200")[1:4] == ("fe80::1%eth0", 2200, "u")
        assert read_target("::1")[1:3] == ("::1", 22)
        assert read_target("ssh://u@h:23")[1:4] == ("h", 23, "u")


class TestProxyCommand:
    def test_a_shell_runs_it(self, said: Callable[..., str], sshd: Server) -> None:
        through = (
            f"ssh -F none -i {sshd.folder / 'client'} -o UserKnownHostsFile={sshd.folder / 'known_hosts'} "
            f"-p {sshd.port} -W %h:%p {sshd.user}@127.0.0.1 2>/dev/null | cat"
        )
        assert said(f"Host gpu\n  HERE\n  ProxyCommand {through}\n") == "in"
        assert not subprocess.run(
            ["pgrep", "-P", str(os.getpid()), "-x", "ssh"], capture_output=True, check=False
        ).stdout

    @pytest.mark.parametrize(
        ("command", "says"),
        [
            ("sh -c 'echo no route >&2; exit 3'", "its ProxyCommand says: no route"),
            ("/no/such/command %h", "/no/such/command: not found"),
            ("sh -c 'unfinished", "nterminated quoted string"),
        ],
    )
    def test_its_last_words_are_told(self, said: Callable[..., str], command: str, says: str) -> None:
        assert says in said(f"Host gpu\n  HERE\n  ProxyCommand {command}\n")

    def test_one_that_is_silent(self, said: Callable[..., str]) -> None:
        assert "within 1 s" in said("Host gpu\n  HERE\n  ProxyCommand sleep 29.5\n", connect_s=1.0)
        assert subprocess.run(["pgrep", "-f", "sleep 29.5"], capture_output=True, check=False).returncode == 1


@pytest.fixture
def locked(sshd_with: Callable[..., Server], tmp_path: Path) -> tuple[Server, Path]:
    """A machine that knows only a key with the passphrase ``open sesame``."""
    server = sshd_with()
    keygen(tmp_path / "locked", "-N", "open sesame")
    (server.folder / "authorized_keys").write_text((tmp_path / "locked.pub").read_text())
    return server, tmp_path / "locked"


class TestKeys:
    def test_a_passphrase_is_asked_for_behind_a_jump_host(
        self, sshd: Server, locked: tuple[Server, Path], tmp_path: Path
    ) -> None:
        server, key = locked
        config, known = tmp_path / "config", tmp_path / "known"
        config.write_text(
            f"Host jump\n  HostName 127.0.0.1\n  Port {sshd.port}\n  IdentityFile {sshd.folder / 'client'}\n"
            f"Host gpu\n  HostName 127.0.0.1\n  Port {server.port}\n  IdentityFile {key}\n  ProxyJump jump\n"
            f"Host *\n  IdentitiesOnly yes\n  User {sshd.user}\n"
        )
        known.write_text("".join((one.folder / "known_hosts").read_text() for one in (sshd, server)))
        given = options(sshd, config=config, known_hosts=known, ask=lambda _: "open sesame")
        channel = connect("gpu", given)
        assert channel.execute("echo in").stdout == b"in\n"
        channel.close()
        before = threading.active_count()
        with pytest.raises(ChannelError, match="passphrase opens none"):
            connect("gpu", options(sshd, config=config, known_hosts=known, ask=lambda _: "wrong"))
        time.sleep(0.5)
        assert threading.active_count() <= before, "the connection to the jump host stayed open"

    def test_a_jump_host_that_fails_is_named_with_what_it_led_to(self, said: Callable[..., str]) -> None:
        words = said("Host jump\n  HostName 127.0.0.1\n  Port 1\nHost gpu\n  HERE\n  ProxyJump jump\n")
        assert words.startswith("gpu: on the way there: jump: 127.0.0.1:1 refuses the connection")
        assert "more than 8 jump hosts" in said("Host *\n  HERE\n  ProxyJump jump\n")

    def test_only_the_identities_but_from_the_agent(
        self, locked: tuple[Server, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server, key = locked
        config, askpass = tmp_path / "config", tmp_path / "askpass"
        askpass.write_text("#!/bin/sh\necho open sesame\n")
        askpass.chmod(0o755)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        monkeypatch.setenv("SSH_ASKPASS", str(askpass))
        monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
        agent = subprocess.Popen(
            ["ssh-agent", "-D", "-a", str(tmp_path / "agent")], stdout=subprocess.DEVNULL
        )
        try:
            while not (tmp_path / "agent").exists():
                assert agent.poll() is None
                time.sleep(0.05)
            subprocess.run(["ssh-add", "-q", str(key)], check=True, stdin=subprocess.DEVNULL)
            # As with keys that exist only in an agent, the public half names it too.
            for identity in (key, f"{key}.pub"):
                config.write_text(f"Host *\n  IdentityFile {identity}\n  IdentitiesOnly yes\n")
                connect(server.target, options(server, config=config)).close()
            keygen(tmp_path / "stranger")
            config.write_text(f"Host *\n  IdentityFile {tmp_path / 'stranger'}\n  IdentitiesOnly yes\n")
            with pytest.raises(ChannelError, match="is not let in"):
                connect(server.target, options(server, config=config))
        finally:
            agent.terminate()
            agent.wait()

    def test_what_is_wrong_with_key_files_is_said(self, sshd: Server, tmp_path: Path) -> None:
        (tmp_path / "junk").write_text("no key\n")
        keygen(tmp_path / "stranger")
        files = [tmp_path / name for name in ("none", "junk", "stranger.pub", "stranger")]
        config = tmp_path / "config"
        config.write_text(
            "Host *\n  IdentitiesOnly yes\n" + "".join(f"  IdentityFile {file}\n" for file in files)
        )
        with pytest.raises(ChannelError) as caught:
            connect(sshd.target, options(sshd, config=config))
        words = str(caught.value)
        assert f"{files[0]}, which does not exist" in words
        assert f"{files[1]}, which is no private key" in words
        assert f"{files[2]}, which is a public key" in words
        assert f"; {files[3]}" in words


class _Lets(paramiko.ServerInterface):
    """sshd lets nobody in by password unless the machine has an account for it; this does."""

    def __init__(self, methods: str) -> None:
        self._methods = methods

    def get_allowed_auths(self, username: str) -> str:
        return self._methods

    def check_auth_password(self, username: str, password: str) -> int:
        right = "password" in self._methods.split(",") and password == "correct horse"
        return paramiko.AUTH_SUCCESSFUL if right else paramiko.AUTH_FAILED

    def check_auth_interactive(self, username: str, submethods: object) -> object:
        return paramiko.InteractiveQuery("", "", ("Password: ", False))

    def check_auth_interactive_response(self, responses: list[str]) -> int:
        return paramiko.AUTH_SUCCESSFUL if responses == ["correct horse"] else paramiko.AUTH_FAILED


@pytest.fixture(params=["password", "keyboard-interactive"])
def asking(request: pytest.FixtureRequest, sshd: Server) -> Iterator[int]:
    """The port of a server that asks for a password in this way."""
    listener = socket.create_server(("127.0.0.1", 0))
    key = paramiko.Ed25519Key.from_private_key_file(str(sshd.folder / "host"))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            transport = paramiko.Transport(connection)
            transport.add_server_key(key)
            transport.start_server(threading.Event(), _Lets(request.param))

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.close()


def test_the_right_password_lets_in(asking: int, sshd: Server, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text((sshd.folder / "known_hosts").read_text().replace(str(sshd.port), str(asking)))
    for answer, lets_in in (("correct horse", True), ("wrong", False)):
        given = options(sshd, known_hosts=known, ask=lambda _, answer=answer: answer)
        if lets_in:
            connect(f"me@127.0.0.1:{asking}", given).close()
        else:
            with pytest.raises(ChannelError, match="me is not let in"):
                connect(f"me@127.0.0.1:{asking}", given)
