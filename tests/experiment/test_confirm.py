"""Whole experiments on real processes: the right verdict, and the original server afterwards, whatever happens."""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from diagnoser.experiment.change import Change, Config
from tests.experiment.conftest import FAKE, Place
from tests.experiment.fake_smi import install, query


@pytest.mark.slow  # a busy machine voids what is measured
def test_a_real_cause_is_confirmed_and_the_server_is_as_it_was(place: Place, triton: int) -> None:
    told = place.confirmed("--pid", str(triton), "--set-flag", "--attention-backend=fa3")
    out, err = told.communicate()
    assert told.returncode == 0, out + err
    assert "Confirmed: --attention-backend fa3" in out
    # 10 ms a token before, 6 ms after: better by two thirds.
    assert "decode_ms_per_token better by +6" in out
    assert place.backend() == "triton"
    assert place.events()[-1] == "restored"
    # What it says of a report works, and the page tells every run.
    line = next(line for line in out.splitlines() if "--report" in line)
    log, report = (
        FAKE.parents[2] / "fixtures" / "story" / "step6-triton-default.log",
        place.folder / "incident.html",
    )
    words = line.replace("LOG", str(log)).replace("incident.html", str(report)).split()[2:]
    told = place.run(*words[1:], command=words[0])
    assert told.returncode == 1, told.communicate()
    page = report.read_text()
    assert "confirmed: --attention-backend fa3 changes decode_single_stream by +6" in page
    assert page.split('id="chart-runs"')[1].split("</svg>")[0].count("<circle") >= 6
    assert "The server runs again as it was found" in page


@pytest.mark.slow  # a busy machine voids what is measured
def test_the_fix_may_stay(place: Place, triton: int) -> None:
    told = place.confirmed("--pid", str(triton), "--set-flag", "--attention-backend=fa3", "--keep-fix")
    assert told.returncode == 0, told.communicate()
    assert place.backend() == "fa3"
    assert place.events()[-1] == "kept"


@pytest.mark.slow  # a busy machine voids what is measured
def test_a_change_that_does_nothing_is_never_confirmed(place: Place, triton: int) -> None:
    told = place.confirmed("--pid", str(triton), "--set-flag", "--log-level=warning")
    assert told.returncode in (10, 12), told.communicate()
    assert place.backend() == "triton"


@pytest.mark.slow  # a busy machine voids what is measured
def test_a_harmful_change_is_called_so(place: Place) -> None:
    told = place.confirmed(
        "--command", shlex.join(place.command("fa3")), "--set-flag", "--attention-backend=triton"
    )
    assert told.returncode == 11, told.communicate()
    assert place.backend() == "fa3"


def test_a_start_that_fails_is_diagnosed_while_waiting(place: Place, triton: int) -> None:
    begin = time.monotonic()
    told = place.confirmed("--pid", str(triton), "--set-flag", "--attention-backend=bogus")
    out, _ = told.communicate()
    assert told.returncode == 14, out
    assert "the server ended while it started" in out
    assert "memory" in out
    assert time.monotonic() - begin < 60
    assert place.backend() == "triton"


def test_without_apply_nothing_is_touched(place: Place, triton: int) -> None:
    told = place.run("--url", place.url, "--pid", str(triton), "--set-flag", "--attention-backend=fa3")
    out, _ = told.communicate()
    assert told.returncode == 0
    assert "This is the plan; nothing was done" in out
    assert "--attention-backend fa3" in out
    assert not (place.folder / "state").exists()
    assert place.backend() == "triton"


def test_the_fix_of_a_log_is_the_change(place: Place, triton: int) -> None:
    """A real log of SGLang on an H200 with an explicit slow backend: remove the flag, measure at a long context."""
    log = FAKE.parents[2] / "fixtures" / "captures" / "sglang_h200" / "triton.log"
    told = place.run(log, "--url", place.url, "--pid", str(triton))
    out, err = told.communicate()
    assert told.returncode == 0, err
    assert "Plan: remove --attention-backend" in out
    assert "decode_long_context: 10000 tokens in" in out


def test_what_is_refused(place: Place, triton: int) -> None:
    flag = ("--set-flag", "--attention-backend=fa3", "--pid", str(triton), "--url", place.url)
    assert place.run(*flag, "--apply").returncode == 13
    assert place.run(*flag, "--apply", "--yes").returncode == 13
    assert place.run(*flag, "--apply", "--yes", "--host", "another.invalid").returncode == 2
    with socket.create_connection(("127.0.0.1", place.port)):
        busy = place.run(*flag, "--apply", "--yes", "--host", socket.gethostname())
        assert busy.returncode == 13
        assert "the server serves" in busy.communicate()[1]
    assert place.run("--url", place.url).returncode == 2
    assert place.run(*flag, "--set-env", "A=1").returncode == 2
    assert place.run(*flag[:2], "--pid", "999999", "--url", place.url).returncode == 2
    assert (
        place.run(
            "--url", place.url, "--pid", str(triton), "--set-flag", "--attention-backend=triton"
        ).returncode
        == 2
    )
    assert place.backend() == "triton"


def test_ctrl_c_brings_the_server_back(place: Place, triton: int) -> None:
    process = place.reached("started")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 14, process.communicate()
    assert place.backend() == "triton"


STEPS = [
    *("planned", "prepared", "running", "measuring", "stopping", "stopped", "starting", "started", "ready"),
    *(pytest.param(step, marks=pytest.mark.slow) for step in ("measured", "look", "verdict", "restoring")),
]


@pytest.mark.parametrize("step", STEPS)
def test_kill_9_at_every_step(place: Place, triton: int, step: str) -> None:
    """The watcher brings the original server back by itself."""
    process = place.reached(step)
    process.kill()
    process.wait()
    assert place.back("triton"), place.events()


def test_by_hand_when_the_watcher_died_too(place: Place, triton: int) -> None:
    process = place.reached("ready")
    subprocess.run(["pkill", "-9", "-f", f"confirm --watch {place.folder}"], check=True)
    process.kill()
    process.wait()
    time.sleep(1)
    assert place.backend() != "triton"
    again = place.confirmed("--pid", str(os.getpid()), "--set-flag", "--x=1", "--allow-serving")
    assert again.returncode == 13
    assert "was not ended" in again.communicate()[1]
    undone = place.run("--rollback")
    assert undone.returncode == 0, undone.communicate()
    assert place.backend() == "triton"
    assert "nothing was done" in place.run("--rollback").communicate()[0]


RESUMED = [
    *("planned", "prepared", "stopping", "starting", "started"),
    *(
        pytest.param(step, marks=pytest.mark.slow)
        for step in ("running", "measuring", "measured", "stopped", "ready", "look")
    ),
]


@pytest.mark.parametrize("step", RESUMED)
@pytest.mark.parametrize("watcher", [True, False], ids=["watched", "unwatched"])
def test_an_experiment_that_was_cut_is_resumed(place: Place, triton: int, step: str, watcher: bool) -> None:
    """What was measured before counts, and the original server runs at the end, whoever died."""
    process = place.reached(step)
    if not watcher:
        subprocess.run(["pkill", "-9", "-f", f"confirm --watch {place.folder}"], check=False)
    process.kill()
    process.wait()
    told = place.run("--resume")
    out, err = told.communicate()
    events = place.events()
    # A busy machine may void what is measured; what is never left to luck is the server.
    assert told.returncode in (0, 12, 13), out + err
    assert "resumed" in events
    assert events[-1] == "restored"
    assert place.backend() == "triton"
    assert "nothing to go on with" in place.run("--resume").communicate()[1]
    assert "nothing was done" in place.run("--rollback").communicate()[0]


def test_a_void_says_which_guard_and_why(place: Place, triton: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU's hardware slows it down all the time: no run counts, and the server is as it was."""
    smi = install(place.folder / "bin", query("busy", clocks_event_reasons_active="0x0000000000000008"))
    monkeypatch.setenv("PATH", f"{smi}:{os.environ['PATH']}")
    told = place.confirmed("--pid", str(triton), "--set-flag", "--attention-backend=fa3")
    out, _ = told.communicate()
    assert told.returncode == 13
    assert "Void: --attention-backend fa3" in out
    assert "gpu-slowdown: hardware slowdown on GPU 0" in out
    assert place.backend() == "triton"


def test_a_kernel_that_is_compiled_in_the_window_voids_the_runs(place: Place) -> None:
    says = "Triton kernel JIT compilation during inference: fused_moe."
    command = shlex.join([*place.command("triton"), "--says", says])
    told = place.confirmed("--command", command, "--set-flag", "--attention-backend=fa3")
    out, _ = told.communicate()
    assert told.returncode == 13
    assert "jit: a kernel was compiled during the run" in out
    assert place.backend() == "triton"


@pytest.mark.slow  # a busy machine voids what is measured
def test_a_change_that_the_server_does_not_heed_is_no_verdict(place: Place) -> None:
    command = shlex.join([*place.command("triton"), "--deaf"])
    told = place.confirmed("--command", command, "--set-flag", "--attention-backend=fa3")
    out, _ = told.communicate()
    assert told.returncode == 13
    assert "the change was not applied: the server says attention_backend is triton" in out


def test_a_chain_goes_from_a_crash_to_the_first_measurement(place: Place) -> None:
    """cuDNN's check ends the start, its fix is tried next, and the log of the start that works says what to test."""
    command = shlex.join([sys.executable, str(FAKE), "--port", str(place.port), "--story"])
    told = place.confirmed("--command", command, "--chain")
    out, err = told.communicate()
    assert told.returncode in (0, 13), out + err  # a busy machine may void what is measured
    assert "SGLang refuses to start: torch 2.9.1 with cuDNN older than 9.15" in err
    assert "tried next: SGLANG_DISABLE_CUDNN_CHECK=1" in err
    assert "triton-attn-default-sm120; put to the test: --attention-backend flashinfer" in err
    assert "nothing runs, as before" in out
    assert place.backend() is None


@pytest.mark.slow  # a busy machine voids what is measured
def test_the_whole_story_in_one_command(place: Place) -> None:
    command = shlex.join([sys.executable, str(FAKE), "--port", str(place.port), "--story"])
    told = place.confirmed("--command", command, "--chain", "--keep-fix")
    out, err = told.communicate()
    assert told.returncode == 0, out + err
    assert "Confirmed: --attention-backend flashinfer" in out
    assert (
        "both arms were started with SGLANG_DISABLE_CUDNN_CHECK=1; without, the server does not start" in out
    )
    assert place.backend() == "flashinfer"


def test_an_experiment_under_way_is_neither_resumed_nor_rolled_back(place: Place, triton: int) -> None:
    process = place.reached("measuring")
    for way in ("--resume", "--rollback"):
        told = place.run(way)
        assert told.returncode == 13
        assert "is under way in another process" in told.communicate()[1]
    process.send_signal(signal.SIGINT)
    process.wait(60)
    assert place.backend() == "triton"


@pytest.mark.slow  # a busy machine is past the step that is looked at
def test_a_secret_of_the_environment_is_in_no_list_of_processes_and_in_no_audit_log(place: Place) -> None:
    """The server gets it; nobody else can see it."""
    secret = "hf_abcdefghijklmnopqrstuvwxyz0123456789"
    audit = place.folder / "audit.jsonl"
    os.environ["DIAGNOSER_AUDIT"] = str(audit)
    try:
        process = place.confirmed(
            "--command", shlex.join(place.command("triton")), "--env", f"HF_TOKEN={secret}",
            "--set-flag", "--attention-backend=fa3", wait=False,
        )  # fmt: skip
        seen = False
        while "ready" not in (place.events() if (place.folder / "state").exists() else []):
            lists = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
            seen |= any(secret in line and "diagnoser confirm" not in line for line in lists.splitlines())
            time.sleep(0.02)
        environment = Path(f"/proc/{place.pid()}/environ").read_text()
        process.send_signal(signal.SIGINT)
        process.wait(60)
    finally:
        del os.environ["DIAGNOSER_AUDIT"]
    assert f"HF_TOKEN={secret}" in environment
    assert not seen
    assert "start the server" in audit.read_text()
    assert secret not in audit.read_text()


@pytest.mark.parametrize(
    ("change", "command"),
    [
        (Change("set_flag", "--attention-backend", "fa3"), "serve --tp 8 --attention-backend fa3"),
        (Change("set_flag", "--attention_backend", "fa3"), "serve --tp 8 --attention_backend fa3"),
        (Change("unset_flag", "--attention-backend"), "serve --tp 8"),
        (Change("set_flag", "--disable-x"), "serve --tp 8 --attention-backend triton --disable-x"),
        (Change("unset_flag", "--tp"), "serve --attention-backend triton"),
    ],
)
def test_changes_of_a_command(change: Change, command: str) -> None:
    for words in ("serve --tp 8 --attention-backend triton", "serve --tp 8 --attention-backend=triton"):
        changed = " ".join(change.applied(Config(tuple(words.split()), "/")).command)
        assert changed.replace("=", " ") == command
