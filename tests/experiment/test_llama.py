"""Experiments on a real llama-server with a tiny model: a real flag, an irrelevant one, and one that it does not know.

The server is built by ci/llama.sh into ``.llama`` (or ``$DIAGNOSER_LLAMA``), once. These tests need an idle machine.
"""

import os
import shlex
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from tests.experiment.conftest import Place

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LONG = ("--prompt-tokens", "500", "--output-tokens", "64", "--runs", "5")
SHORT = ("--prompt-tokens", "64", "--output-tokens", "32", "--runs", "3")
APPLY = ("--apply", "--yes", "--host", socket.gethostname())


@pytest.fixture(scope="module")
def llama() -> Path:
    """The folder with llama-server and tiny.gguf. A build that fails fails the tests."""
    folder = Path(os.environ.get("DIAGNOSER_LLAMA", ROOT / ".llama"))
    if not ((folder / "llama-server").exists() and (folder / "tiny.gguf").exists()):
        subprocess.run(["sh", "ci/llama.sh", str(folder)], cwd=ROOT, check=True)
    return folder


def command(llama: Path, place: Place, *flags: str) -> list[str]:
    return [
        str(llama / "llama-server"), "-m", str(llama / "tiny.gguf"), "--host", "127.0.0.1", "--port", str(place.port),
        "--alias", "tiny", "-c", "4096", "-np", "1", *flags,
    ]  # fmt: skip


def confirmed(place: Place, server: list[str], *arguments: str | Path) -> tuple[int, str]:
    told = place.run("--url", place.url, "--command", shlex.join(server), *arguments, *APPLY)
    out, err = told.communicate()
    return told.returncode, out + err


def serves(place: Place) -> bool:
    with urllib.request.urlopen(f"{place.url}/v1/models", timeout=5) as answer:
        return bool(answer.status == 200)


def running(llama: Path) -> str:
    return subprocess.run(
        ["pgrep", "-af", str(llama / "llama-server")], capture_output=True, text=True, check=True
    ).stdout


@pytest.fixture(autouse=True)
def _ended(place: Place, llama: Path) -> object:
    yield
    subprocess.run(["pkill", "-9", "-f", f"{llama}/llama-server .*--port {place.port} "], check=False)


def test_flash_attention_on_a_cpu_is_found_in_the_log_and_confirmed(
    place: Place, llama: Path, tmp_path: Path
) -> None:
    """llama.cpp's own default on a CPU is the slow one for prompts of 500 tokens (captured: 258 against 454 tok/s)."""
    server = command(llama, place, "-t", "2", "-fa", "on", "-lv", "5")
    log = tmp_path / "llama.log"
    with log.open("wb") as output:
        process = subprocess.Popen(server, stdout=output, stderr=output)
        for _ in range(200):
            time.sleep(0.1)
            if b"server is listening" in log.read_bytes():
                break
        process.terminate()
        process.wait(20)
    code, said = confirmed(place, server, log, *LONG)
    assert "Plan: --flash-attn off" in said
    assert code == 0, said
    assert "Confirmed: --flash-attn off" in said
    assert serves(place)
    assert "--flash-attn off" not in running(llama)


def test_a_flag_that_does_nothing_is_not_confirmed(place: Place, llama: Path) -> None:
    code, said = confirmed(place, command(llama, place, "-t", "1"), "--set-flag", "--no-webui", *SHORT)
    assert code in (10, 12), said
    assert "--no-webui" not in running(llama)


def test_a_flag_that_it_does_not_know_is_told_while_waiting_and_rolled_back(
    place: Place, llama: Path
) -> None:
    begin = time.monotonic()
    code, said = confirmed(place, command(llama, place, "-t", "1"), "--set-flag", "--no-such-flag", *SHORT)
    assert code == 14, said
    assert "llama.cpp does not know an option or refuses its value" in said
    assert time.monotonic() - begin < 120
    assert serves(place)
    assert "--no-such-flag" not in running(llama)
