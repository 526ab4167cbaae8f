"""What a person sees: a live table on a terminal, lines in a pipe, a page at the end."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable

import pytest

from diagnoser.cli.main import main
from diagnoser.experiment.results import Benchmark

SHORT = ["--output-tokens", "16", "--runs", "3", "--prompt-tokens", "40"]


def test_on_a_terminal_the_interval_so_far_is_live(serve: Callable[..., str]) -> None:
    ours, theirs = pty.openpty()
    call = [sys.executable, "-m", "diagnoser.cli.main", "bench", serve(ttft_s=0.5, gap_s=0.005), *SHORT]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "160"}
    process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux says EIO when the other end has gone
            break
        if not piece:
            break
        shown += piece
    out, _ = process.communicate()
    os.close(ours)
    assert process.returncode in (0, 13)
    assert b"warm-up 1: 0 of 1 requests ..." in shown
    assert b"over 2 of 3 runs" in shown
    assert b"(95 %, " in shown
    assert "\x1b" not in out


def test_in_a_pipe_there_is_a_line_for_each_pass(
    serve: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", serve(ttft_s=0.1, gap_s=0.005), *SHORT, "--format", "json"]) in (0, 13)
    out, err = capsys.readouterr()
    result = Benchmark.model_validate_json(out)
    passes = [*result.launches[0].warm_ups, *result.launches[0].runs]
    assert sum(line.startswith(("warm-up ", "run ")) for line in err.splitlines()) == len(passes)
    assert "\x1b" not in err


def test_a_rate_is_kept_and_named(serve: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    url = serve(ttft_s=0.1, gap_s=0.005)
    assert main(["bench", url, *SHORT, "--rate", "20", "--requests", "10", "--format", "json"]) in (0, 13)
    result = Benchmark.model_validate_json(capsys.readouterr().out)
    assert (result.workload.rate_per_s, result.workload.concurrency) == (20, None)
    for run in result.launches[0].runs:
        assert len(run.requests) == 10
        assert all(request.late_ms is not None and request.late_ms >= 0 for request in run.requests)


def test_what_the_server_calls_itself_reaches_no_terminal_raw(
    serve: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = serve(ttft_s=0.05, gap_s=0.001, engine="sglang", flags={"version": "0.5\x1b[2J"})
    assert main(["bench", url, *SHORT]) in (0, 13)
    assert "\x1b" not in "".join(capsys.readouterr())
