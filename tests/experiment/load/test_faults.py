"""Servers that answer wrongly, late, in pieces, or not at all: each costs a sentence, never a wrong figure."""

import asyncio
import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diagnoser.cli.main import main
from diagnoser.experiment.load.answer import Answer
from diagnoser.experiment.load.bench import Plan, bench
from diagnoser.experiment.load.client import Client
from diagnoser.experiment.results import Benchmark

QUICK = {"ttft_s": 0.05, "gap_s": 0.005}
SHORT = ["--output-tokens", "16", "--runs", "3", "--prompt-tokens", "40"]


def measure(url: str, *, key: str | None = None, stall_s: float = 5.0, **plan: Any) -> Benchmark:
    async def go() -> Benchmark:
        async with Client(url, key=key, stall_s=stall_s) as client:
            return await bench(client, Plan(**{"output_tokens": 16, "prompt_tokens": 40, "runs": 3, **plan}))

    return asyncio.run(go())


def ask(url: str, stall_s: float = 5.0, api: Any = "completions") -> Answer:
    async def go() -> Answer:
        async with Client(url, stall_s=stall_s) as client:
            client.model, client.api = "tiny", api
            return await client.ask("x" * 80, 16)

    return asyncio.run(go())


def guards(result: Benchmark, level: str) -> set[str]:
    # How loaded the testing machine is, is not what these tests are about.
    return {f.guard for f in result.findings if f.level == level} - {"client-cpu", "client-lag"}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("500", "the server said: CUDA out of memory"),
        ("cut", "connection lost"),
        ("stall", "timed out: nothing came for 0.5 s"),
        ("garbage", "cannot be read: an event of the stream is not JSON of the API"),
    ],
)
@pytest.mark.parametrize("api", ["completions", "chat", "generate"])
def test_an_answer_that_breaks_off_is_a_failed_request(
    serve: Callable[..., str], fault: str, words: str, api: str
) -> None:
    answer = ask(serve(**QUICK, fault=fault), stall_s=0.5, api=api)
    assert not answer.ok
    assert words in answer.error


def test_a_failure_in_a_run_voids_it_and_keeps_the_rest(serve: Callable[..., str]) -> None:
    # 1 request finds the API, the prompt's length takes at most 5, the warm-up the rest.
    result = measure(serve(**QUICK, fault="500", fault_from=20), runs=20, output_tokens=4)
    runs = result.launches[0].runs
    assert len(runs) == 20
    assert runs[-1].failed == 1
    assert runs[-1].requests[0].error == "the server said: CUDA out of memory"
    assert runs[-1].output_tok_s_wall is None
    assert runs[0].failed == 0
    assert "failed" in guards(result, "void")


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ({"fault": "404"}, 'HTTP 404 from /v1/chat/completions: {"detail": "Not Found"}'),
        ({"fault": "422"}, 'HTTP 422 from /v1/completions: {"detail": "temperature must be at least 0.1"}'),
        ({"fault": "503"}, 'HTTP 503 from /v1/completions: {"error": "Loading model"}'),
        ({"fault": "500"}, "the server said: CUDA out of memory"),
        ({"fault": "cut"}, "connection lost"),
        ({"key": "right"}, "HTTP 401: the server wants a key; set DIAGNOSER_API_KEY"),
    ],
)
def test_a_server_that_cannot_be_measured_costs_one_sentence(
    serve: Callable[..., str], capsys: pytest.CaptureFixture[str], schedule: dict[str, str], words: str
) -> None:
    url = serve(**QUICK, **schedule)
    assert main(["bench", url, *SHORT]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    last = err.splitlines()[-1]
    assert last.startswith(f"diagnose bench: {url}: ")
    assert words in last


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:9", "no server answers there"),
        ("https://127.0.0.1:9", "no server answers there"),
        ("ftp://host", "not the address of a server"),
        ("http://", "not the address of a server"),
        ("http://host:99999", "not a URL"),
        ("http://user:secret@host", "a key goes into DIAGNOSER_API_KEY"),
        ("http://h\u00f6st", "an address has no such characters"),
        ("http://ho st", "an address has no such characters"),
        ("http://[::1", "not a URL"),
    ],
)
def test_a_wrong_address_costs_one_sentence(capsys: pytest.CaptureFixture[str], url: str, words: str) -> None:
    assert main(["bench", url]) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert words in err
    assert "secret" not in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--runs", "0"], "runs must be from 1 to 1000, not 0"),
        (["--rate", "0"], "rate must be from 0.001 to 10000 requests a second, not 0"),
        (["--rate", "nan"], "rate must be from 0.001 to 10000 requests a second, not nan"),
        (["-c", "-1"], "concurrency must be from 1 to 4096, not -1"),
        (["-o", "/nowhere/at/all.json"], "the folder /nowhere/at does not exist"),
        (["-o", "/"], "is a folder; give a file"),
    ],
)
def test_a_wrong_call_is_told_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["bench", "http://127.0.0.1:9", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_key_from_the_environment_opens(
    serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = serve(**QUICK, key="right")
    monkeypatch.setenv("DIAGNOSER_API_KEY", "wr\u00f6ng")
    assert main(["bench", url, *SHORT]) == 2
    assert "DIAGNOSER_API_KEY holds characters" in capsys.readouterr().err
    monkeypatch.setenv("DIAGNOSER_API_KEY", "right")
    assert main(["bench", url, *SHORT]) in (0, 13)


@pytest.mark.slow  # a busy machine keeps no schedule
def test_tls_is_checked_and_measured(
    serve: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pem = tmp_path / "both.pem"
    call = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    call += [
        "-addext",
        "subjectAltName=DNS:localhost",
        "-keyout",
        str(pem),
        "-out",
        str(tmp_path / "cert.pem"),
    ]
    subprocess.run(call, check=True, capture_output=True)
    pem.write_text(pem.read_text() + (tmp_path / "cert.pem").read_text())
    url = serve(ttft_s=0.3, gap_s=0.02, tls=str(pem)).replace("http://127.0.0.1", "https://localhost")
    assert main(["bench", url]) == 2
    assert "certificate verify failed" in capsys.readouterr().err
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    run = measure(url).launches[0].runs[0]
    assert run.ttft_ms is not None
    assert run.ttft_ms.mean == pytest.approx(300, rel=0.05)


def test_refused_options_are_left_out_and_told(serve: Callable[..., str]) -> None:
    result = measure(serve(**QUICK, fault="strict"))
    assert result.workload.options_refused == ["ignore_eos", "min_tokens"]
    assert "options" in guards(result, "note")
    assert all(run.failed == 0 for run in result.launches[0].runs)


def test_without_token_counts_there_are_no_rates(serve: Callable[..., str]) -> None:
    result = measure(serve(**QUICK, fault="no_usage"))
    run = result.launches[0].runs[0]
    assert run.output_tok_s_wall is None
    assert run.decode_ms_per_token is None
    assert run.ttft_ms is not None
    assert {"no-counts", "prompt-length"} <= guards(result, "warn")


def test_a_missing_done_line_is_no_failure(serve: Callable[..., str]) -> None:
    answer = ask(serve(**QUICK, fault="no_done"))
    assert answer.ok
    assert answer.output_tokens == 16


@pytest.mark.slow  # a busy machine keeps no schedule
def test_a_collapsed_stream_has_only_a_total_time(serve: Callable[..., str]) -> None:
    result = measure(serve(ttft_s=0.3, gap_s=0.02, fault="collapsed"), output_tokens=36)
    run = result.launches[0].runs[0]
    assert run.ttft_ms is None
    assert run.decode_ms_per_token is None
    assert run.e2e_ms is not None
    # 35 gaps of 20 ms after 300 ms.
    assert run.e2e_ms.mean == pytest.approx(1000, rel=0.02)
    assert "collapsed" in guards(result, "warn")


@pytest.mark.parametrize("fault", ["", "split", "gzip"])
@pytest.mark.parametrize("api", ["completions", "chat", "generate"])
def test_the_text_is_the_same_however_it_is_cut_or_packed(
    serve: Callable[..., str], fault: str, api: str
) -> None:
    answer = ask(serve(**QUICK, fault=fault, text="caf\u00e9 "), api=api)
    assert answer.ok
    assert answer.text_sha256 == hashlib.sha256("caf\u00e9 ".encode() * 16).hexdigest()
    assert len(answer.arrivals_s) == 16
    assert answer.output_tokens == 16


@pytest.mark.parametrize("api", ["completions", "generate"])
def test_cache_hits_void(serve: Callable[..., str], api: Any) -> None:
    result = measure(serve(**QUICK, cached_tokens=8), api=api)
    assert "cache" in guards(result, "void")


def test_early_ends_leave_the_headline(serve: Callable[..., str]) -> None:
    result = measure(serve(**QUICK, stop_after=9))
    assert all(run.off_length for run in result.launches[0].runs)
    assert {"length"} <= guards(result, "warn")
    assert {"valid-runs"} <= guards(result, "void")


def test_warm_ups_go_on_until_two_agree(serve: Callable[..., str]) -> None:
    slow = measure(serve(ttft_s=0.4, gap_s=0.005, first_slow_s=1.0, first_slow=1), runs=1)
    rates = [warm.output_tok_s_wall or 0 for warm in slow.launches[0].warm_ups]
    assert len(rates) >= 3
    # 16 tokens in 1.475 s and in 0.475 s.
    assert rates[0] == pytest.approx(16 / 1.475, rel=0.05)
    assert rates[-1] == pytest.approx(16 / 0.475, rel=0.05)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_accept_length_is_the_servers_own(serve: Callable[..., str], engine: str) -> None:
    api = "generate" if engine == "sglang" else "completions"
    result = measure(serve(**QUICK, engine=engine, accept_len=3.0), api=api, output_tokens=30)
    assert [run.accept_len for run in result.launches[0].runs] == [3.0] * 3


def test_ctrl_c_gives_what_was_measured(serve: Callable[..., str], tmp_path: Path) -> None:
    url, saved = serve(ttft_s=0.3, gap_s=0.005), tmp_path / "result.json"
    call = [
        *(
            "env",
            "--default-signal=INT",
        ),  # the background of a script ignores Ctrl-C, and so would its children
        sys.executable,
        "-m",
        "diagnoser.cli.main",
        "bench",
        url,
        *SHORT,
        "--runs",
        "500",
        "-o",
        str(saved),
    ]
    process = subprocess.Popen(
        call,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("run 2"):
            process.send_signal(signal.SIGINT)
            break
    out, err = process.communicate()
    assert process.returncode == 130
    assert "INCOMPLETE" in out
    assert "Traceback" not in err
    result = Benchmark.model_validate_json(saved.read_text())
    assert not result.complete
    assert len([run for run in result.launches[0].runs if run.complete]) >= 2


def test_the_result_file_says_who_and_what(
    serve: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "result.json"
    assert main(["bench", serve(**QUICK, engine="sglang"), *SHORT, "--seed", "a", "-o", str(saved)]) in (
        0,
        13,
    )
    text = json.loads(saved.read_text())
    assert text["schema"] == "diagnoser/benchmark/1"
    identity = text["identity"]
    assert (identity["engine"], identity["version"], identity["model"]) == ("sglang", "0.5.9", "tiny")
    assert identity["flags"] == {"model_path": "/models/tiny", "tp_size": 8}
    assert Benchmark.model_validate(text).to_json() == saved.read_text()
    out = capsys.readouterr().out
    assert "sglang 0.5.9, model tiny" in out
    assert out.count("\nrun ") == 3
