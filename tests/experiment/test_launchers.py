"""Units, containers and custom launchers: what is changed, and that the original is back.

systemd and docker do not run where these tests do: small executables on PATH that keep their state in files stand for
them (fake_systemctl.py, fake_docker.py), with real processes under them.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diagnoser.experiment.change import Change
from diagnoser.experiment.launchers import container, launcher_from, systemd
from diagnoser.experiment.launchers.base import LauncherError
from diagnoser.experiment.launchers.custom import word
from tests.experiment.conftest import Place

HERE = Path(__file__).parent
FA3 = ("--set-flag", "--attention-backend=fa3")
Tool = Callable[..., None]


@pytest.fixture
def tool(place: Place, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Installs a program of this folder under the names of tools, and runs one by name."""
    folder = place.folder / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def put(program: str, *names: str) -> None:
        for name in names:
            file = folder / name
            file.write_text(f'#!/bin/sh\nexec {sys.executable} -c "import sys; sys.argv[0] = \'{name}\'; '
                            f"exec(compile(open('{HERE / program}').read(), '{program}', 'exec'))\" \"$@\"\n")  # fmt: skip
            file.chmod(0o755)

    return put


def ask(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def unit(place: Place, tool: Tool, monkeypatch: pytest.MonkeyPatch) -> str:
    """A running unit on the slow backend."""
    units = place.folder / "units"
    units.mkdir()
    monkeypatch.setenv("FAKE_SYSTEMD", str(units))
    monkeypatch.setenv("DIAGNOSER_UNITS", str(place.folder / "run"))
    tool("fake_systemctl.py", "systemctl", "journalctl")
    (units / "sglang.service").write_text(
        f"[Service]\nExecStart={shlex.join(place.command('triton'))}\nEnvironment=A=1\n"
    )
    ask("systemctl", "daemon-reload")
    ask("systemctl", "start", "sglang.service")
    assert place.up("triton")
    return "sglang"


def test_a_unit_is_changed_by_a_drop_in_and_comes_back(place: Place, unit: str) -> None:
    process = place.reached("ready", "--unit", unit, pid=False)
    drop_in = place.folder / "run" / "sglang.service.d" / "zz-diagnoser.conf"
    lines = drop_in.read_text().splitlines()
    assert lines[:3] == ["[Service]", "Restart=no", "ExecStart="]
    assert lines[3].endswith("--attention-backend fa3")
    assert place.backend() == "fa3"
    process.kill()
    process.wait()
    assert place.back("triton")
    assert not drop_in.exists()


def test_a_variable_of_a_unit(place: Place, unit: str) -> None:
    told = place.run("--url", place.url, "--unit", unit, "--set-env", "SGLANG_X=a b")
    assert "Plan: SGLANG_X=a b" in told.communicate()[0]
    made, up = systemd.read("sglang.service", subprocess.run(
        systemd.look("sglang.service", user=False, sudo=False), shell=True, capture_output=True, check=True).stdout,
        user=False, sudo=False)  # fmt: skip
    assert up
    assert made.command == tuple(place.command("triton"))
    script = made.start((Change("set_env", "SGLANG_X", "50% of $a"),), "/f", "/l")
    assert 'Environment="SGLANG_X=50%% of $$a"' in script
    assert "ExecStart" not in script
    assert launcher_from(json.loads(json.dumps(made.plain()))) == made


def test_units_that_cannot_be_changed(place: Place, unit: str) -> None:
    for name, words in (("other", "systemd knows no such unit"), ("--x", "is no name of a unit")):
        told = place.run("--url", place.url, f"--unit={name}", *FA3)
        assert told.returncode == 2
        assert words in told.communicate()[1]
    shown = b"LoadState=loaded\nActiveState=active\nExecStart={ path=/x ; argv[]=/opt/run.sh ; ignore_errors=no ; }\n"
    with pytest.raises(LauncherError, match="but the server"):
        systemd.read("a.service", shown + b"\x1epython\0-m\0sglang.launch_server\0", user=False, sudo=False)


@pytest.fixture
def box(place: Place, tool: Tool, monkeypatch: pytest.MonkeyPatch) -> str:
    """A running container on the slow backend, with what servers are given."""
    folder = place.folder / "docker"
    folder.mkdir()
    monkeypatch.setenv("FAKE_DOCKER", str(folder))
    tool("fake_docker.py", "docker")
    words = place.command("triton")
    made = {
        "Name": "/llm",
        "State": {},
        "Config": {"Image": "lmsysorg/sglang:v0.5.9", "Entrypoint": words[:1], "Cmd": words[1:],
                   "Env": [f"PATH={os.environ['PATH']}", "HF_TOKEN=secret"], "WorkingDir": "/sgl"},
        "HostConfig": {
            "NetworkMode": "host", "IpcMode": "host", "ShmSize": 34359738368, "Binds": ["/models:/models:ro"],
            "DeviceRequests": [{"Count": -1, "Capabilities": [["gpu"]]}], "RestartPolicy": {"Name": "always"},
            "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}], "Privileged": True, "Memory": 0,
            "MaskedPaths": ["/proc/kcore"], "PortBindings": {"30000/tcp": [{"HostIp": "", "HostPort": "30000"}]},
        },
    }  # fmt: skip
    (folder / "llm.json").write_text(json.dumps(made))
    ask("docker", "start", "llm")
    assert place.up("triton")
    return "llm"


def test_a_container_is_stopped_and_another_stands_in(place: Place, box: str) -> None:
    process = place.reached("ready", "--container", box, pid=False)
    assert place.backend() == "fa3"
    options = json.loads((place.folder / "docker" / "runs.txt").read_text().splitlines()[-1])
    assert options.pop("--env-file").endswith("/variables")
    assert options == {
        "-d": "", "--name": "llm-diagnoser", "--network": "host", "--ipc": "host", "--shm-size": "34359738368",
        "--volume": "/models:/models:ro", "--privileged": "", "--publish": "30000:30000/tcp", "--gpus": "all",
        "--ulimit": "memlock=-1:-1", "--workdir": "/sgl", "--entrypoint": place.command("triton")[0],
    }  # fmt: skip
    process.kill()
    process.wait()
    assert place.back("triton")
    assert not (place.folder / "docker" / "llm-diagnoser.json").exists()


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ({"AutoRemove": True}, "it is removed when it stops"),
        ({"BlkioWeight": 300}, "its setting BlkioWeight=300 cannot be carried over"),
    ],
)
def test_containers_that_cannot_be_made_again(host: dict[str, Any], words: str) -> None:
    made = [{"Name": "/a", "State": {}, "Config": {"Image": "i", "Cmd": ["serve"]}, "HostConfig": host}]
    with pytest.raises(LauncherError, match=words):
        container.read("a", f"docker\n{json.dumps(made)}".encode(), sudo=False)


def test_a_container_that_nobody_knows(place: Place, box: str) -> None:
    told = place.run("--url", place.url, "--container", "other", *FA3)
    assert told.returncode == 2
    assert "neither docker nor podman knows it" in told.communicate()[1]


LAUNCHER = """#!/bin/sh
# The server's process is in $0.pid, its log in $0.log.
up() { [ -s "$0.pid" ] && kill -0 "$(cat "$0.pid")" 2>/dev/null; }
case $1 in
  start) shift; echo "$@" >> "$0.starts"; b=triton
    case $1 in --set-flag=--attention-backend=*) b=${1##*=} ;; esac
    setsid COMMAND --attention-backend $b > "$0.log" 2>&1 </dev/null & echo $! > "$0.pid" ;;
  stop) up || exit 0; kill "$(cat "$0.pid")"; while up; do sleep 0.05; done ;;
  alive) up ;;
  log) cat "$0.log" ;;
esac
"""


def test_a_launcher_of_the_users_own(place: Place) -> None:
    script = place.folder / "serve"
    script.write_text(LAUNCHER.replace("COMMAND", shlex.join(place.command("x")[:-2])))
    script.chmod(0o755)
    ask(str(script), "start")
    assert place.up("triton")
    process = place.reached("ready", "--launcher", str(script), pid=False)
    assert place.backend() == "fa3"
    process.kill()
    process.wait()
    assert place.back("triton")
    starts = script.with_name("serve.starts").read_text().splitlines()
    assert starts[-2:] == ["--set-flag=--attention-backend=fa3", ""]
    ask(str(script), "stop")


def test_a_change_is_one_word() -> None:
    changes = [
        Change("set_flag", "--tp", "8"),
        Change("set_flag", "--x"),
        Change("unset_flag", "--y"),
        Change("set_env", "A", "1=2"),
    ]
    assert list(map(word, changes)) == [
        "--set-flag=--tp=8",
        "--set-flag=--x",
        "--unset-flag=--y",
        "--set-env=A=1=2",
    ]
