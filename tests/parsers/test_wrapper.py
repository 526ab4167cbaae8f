"""What is put around lines by containers, orchestrators and log daemons."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnoser.parsers.wrapper import is_partial, unwrap, unwrap_kind

SGLANG = "[2026-02-27 15:17:28 TP0] Load weight begin."

WRAPPED = {
    "docker-json": (
        json.dumps({"log": SGLANG + "\n", "stream": "stderr", "time": "2026-03-02T09:14:07.5Z"}),
        1772442847.5,
    ),
    "journal-json": (
        json.dumps({"MESSAGE": SGLANG, "__REALTIME_TIMESTAMP": "1772442847500000"}),
        1772442847.5,
    ),
    "cri": (f"2026-03-02T09:14:07.500000000Z stderr F {SGLANG}", 1772442847.5),
    "kubectl-timestamps": (f"2026-03-02T09:14:07.500000000Z {SGLANG}", 1772442847.5),
    "kubectl-prefix": (f"[pod/llm-7d9f/server] {SGLANG}", None),
    "journal-short": (f"Mar 02 09:14:07 gpu-07 sglang[123]: {SGLANG}", 1772442847.0),
    "journal-short-iso": (f"2026-03-02T09:14:07+0000 gpu-07 sglang[123]: {SGLANG}", 1772442847.0),
    "ray": (f"(ServeReplica:default:LLM pid=123, ip=10.0.0.1) {SGLANG}", None),
    "compose": (f"sglang-1  | {SGLANG}", None),
}


@pytest.mark.parametrize("kind", WRAPPED)
def test_kind_is_found_and_taken_off(kind: str) -> None:
    line, at = WRAPPED[kind]
    assert unwrap_kind([line, line, ""]) == kind
    assert unwrap(kind, line, year=2026) == (SGLANG, at)


@pytest.mark.parametrize("kind", WRAPPED)
def test_a_line_without_the_wrapper_stays(kind: str) -> None:
    assert unwrap(kind, "Traceback (most recent call last):") == ("Traceback (most recent call last):", None)


@pytest.mark.parametrize(
    "line",
    [
        SGLANG,
        "(EngineCore pid=2025) INFO 02-27 15:17:28 [core.py:139] message",
        "2025-03-01T10:00:00.123456Z  INFO text_generation_launcher: text",
        "| NVIDIA-SMI 580.95.05   Driver Version: 580.95.05   |",
        "0.00.065.564 I srv  llama_server: model loaded",
        '{"timestamp":"2025-03-01T10:00:00Z","level":"INFO","message":"m"}',
        "",
    ],
)
def test_bare_lines_are_not_taken_for_wrapped_ones(line: str) -> None:
    assert unwrap_kind([line] * 3) is None


def test_wrappers_may_be_nested() -> None:
    line = f"[pod/a/b] (Worker pid=1, ip=10.0.0.1) {SGLANG}"
    first = unwrap_kind([line])
    assert first == "kubectl-prefix"
    inner, _ = unwrap(first, line)
    assert unwrap_kind([inner]) == "ray"
    assert unwrap("ray", inner) == (SGLANG, None)


def test_a_part_of_a_long_line_says_so() -> None:
    assert is_partial("cri", "2026-03-02T09:14:07.5Z stderr P half")
    assert not is_partial("cri", "2026-03-02T09:14:07.5Z stderr F whole")
    assert is_partial("docker-json", json.dumps({"log": "half", "stream": "stdout"}))
    assert not is_partial("docker-json", json.dumps({"log": "whole\n", "stream": "stdout"}))


def test_journald_gives_bytes_of_lines_with_escapes() -> None:
    line = json.dumps({"MESSAGE": list(b"\x1b[31mred"), "__REALTIME_TIMESTAMP": "0"})
    assert unwrap("journal-json", line) == ("\x1b[31mred", 0.0)


@given(st.lists(st.text(max_size=120), max_size=4), st.sampled_from(sorted(WRAPPED)), st.integers(0, 80))
def test_never_raises(noise: list[str], kind: str, cut: int) -> None:
    line = WRAPPED[kind][0]
    unwrap_kind(noise)
    for text in (*noise, line[:cut], line[cut:], line[:cut] + "".join(noise)):
        assert isinstance(unwrap(kind, text)[0], str)
        is_partial(kind, text)
