"""What may change in a paste without changing its diagnosis, and what must change it.

The expectation is never the tool's own text: the root of a labelled case is one of its labels, and stays so when
unrelated lines come in, files change places, head and tail are cut, paths, hosts, ports and times move, or a log
collector wraps every line. It goes when the release leaves the range of the rule.
"""

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from diagnoser.agent.evaluation import LabelledCase, load_cases
from diagnoser.agent.session import run, run_text
from diagnoser.inference.diagnosis import Diagnosis

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
CASES = {case.id: case for case in load_cases([FIXTURES / "cases" / "cases.jsonl"])}

ENGINE_LOGS = (
    "case-007", "case-024", "case-026", "case-027", "case-032", "case-033", "case-037", "case-041", "case-044",
    "case-057", "case-058", "case-067", "case-069", "case-072", "case-074", "case-076", "case-083", "case-086",
    "case-112", "case-118", "case-120", "case-127", "case-148", "case-155",
)  # fmt: skip
"""Logs of engines of all kinds (SGLang, vLLM V0 and V1, llama.cpp, Ollama), failed starts and slow servers."""

WITH_OTHER_TEXTS = (
    "case-002",
    "case-015",
    "case-018",
    "case-035",
    "case-080",
    "case-193",
    "case-199",
    "case-205",
)
"""Pastes of several documents: package list, nvidia-smi table or tree, kernel log beside a server log."""

SAMPLE = ENGINE_LOGS + WITH_OTHER_TEXTS

NOISE = (
    'INFO:     10.0.0.9:50871 - "GET /health HTTP/1.1" 200 OK',
    'INFO:     172.17.0.1:47352 - "GET /metrics HTTP/1.1" 200 OK',
    'INFO:     10.0.0.9:50873 - "GET /v1/models HTTP/1.1" 200 OK',
)
RECORD = re.compile(
    r"(?:\x1b\[[0-9;]*m)?(?:\[\d{4}-\d\d-\d\d |\((?:APIServer|EngineCore|Worker|VllmWorker)|(?:INFO|WARNING|ERROR) \d\d-\d\d "
    r"|INFO:  |time=|slot |srv )"
)
"""The first line of a record of a server log: another line may stand before it, as no log is torn inside one."""

STAMP = re.compile(
    r"(?P<full>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)|(?<= )(?P<short>\d\d-\d\d \d\d:\d\d:\d\d)(?= )"
)


def text_of(case: LabelledCase) -> str:
    return case.input.read_bytes().decode("utf-8")


def lead(diagnosis: Diagnosis) -> str | None:
    return diagnosis.causes[0].rule if diagnosis.causes else None


def noisy(text: str) -> str:
    """Access lines and health checks between the records."""
    lines: list[str] = []
    for number, line in enumerate(text.split("\n")):
        if RECORD.match(line) and number % 2:
            lines.append(NOISE[number // 2 % len(NOISE)])
        lines.append(line)
    return "\n".join(lines)


def moved(text: str) -> str:
    """Other install folders, hosts, addresses and ports."""
    for old, new in (
        ("/usr/local/lib/python3.12/dist-packages", "/data/conda/envs/serve/lib/python3.11/site-packages"),
        ("/opt/sglang/lib/python3.12/site-packages", "/home/ml/.venv/lib/python3.11/site-packages"),
        ("/models/", "/mnt/nvme0/checkpoints/"),
        ("0.0.0.0", "10.31.7.5"),
        ("10.0.0.9", "192.168.4.77"),
        ("port=30000", "port=31555"),
        (":30000", ":31555"),
        (":8000", ":8123"),
        ("gpu-box", "node-b17"),
    ):  # fmt: skip
        text = text.replace(old, new)
    return text


def later(text: str) -> str:
    """All stamps three days, five hours and seven seconds later."""

    def shift(match: re.Match[str]) -> str:
        full = match["full"]
        form = f"%Y-%m-%d{full[10]}%H:%M:%S" if full else "%Y-%m-%d %H:%M:%S"
        value = datetime.strptime(full or "2026-" + match["short"], form) + timedelta(
            days=3, hours=5, seconds=7
        )
        shown = value.strftime(form)
        return shown if full else shown[5:]

    return STAMP.sub(shift, text)


def _stamps(count: int) -> list[datetime]:
    start = datetime(2026, 3, 2, 9, 14, 7, 417000)
    return [start + timedelta(milliseconds=370 * number) for number in range(count)]


def _each(form: Callable[[datetime, str], str]) -> Callable[[str], str]:
    def wrap(text: str) -> str:
        lines = text.rstrip("\n").split("\n")
        return "".join(form(at, line) + "\n" for at, line in zip(_stamps(len(lines)), lines, strict=True))

    return wrap


def _iso(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f") + "123Z"


CHANGES: dict[str, Callable[[str], str]] = {
    "noise between the records": noisy,
    "paths, hosts and ports": moved,
    "times": later,
    "CRLF line ends": lambda text: text.replace("\n", "\r\n"),
}
WRAPPERS: dict[str, Callable[[str], str]] = {
    "docker json": _each(lambda at, line: json.dumps({"log": line + "\n", "stream": "stderr", "time": _iso(at)})),
    "CRI": _each(lambda at, line: f"{_iso(at)} stderr F {line}"),
    "kubectl --timestamps": _each(lambda at, line: f"{_iso(at)} {line}"),
    "compose": _each(lambda at, line: f"llm-1  | {line}"),
    "journald": _each(lambda at, line: f"{at:%b} {at.day:2d} {at:%H:%M:%S} gpu-07 llm[18822]: {line}"),
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLE)
def test_the_sample_is_diagnosed_at_all(name: str) -> None:
    assert lead(run_text(text_of(CASES[name])).diagnosis) in CASES[name].causes


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", SAMPLE)
def test_what_does_not_matter_does_not_move_the_root(name: str, change: str) -> None:
    case = CASES[name]
    assert lead(run_text(CHANGES[change](text_of(case))).diagnosis) in case.causes


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("name", ENGINE_LOGS)
def test_a_log_collectors_prefix_does_not_move_the_root(name: str, wrapper: str) -> None:
    case = CASES[name]
    assert lead(run_text(WRAPPERS[wrapper](text_of(case))).diagnosis) in case.causes


@pytest.mark.parametrize("name", SAMPLE)
def test_head_and_tail_without_evidence_can_be_cut(name: str) -> None:
    case = CASES[name]
    text = text_of(case)
    root = run_text(text).diagnosis.causes[0]
    first = min(proof.line for proof in root.evidence)
    last = max(proof.end_line or proof.line for proof in root.evidence)
    lines = text.split("\n")
    for part in (lines[: last + 2], lines[max(0, first - 2) :], lines[first - 1 : last + 1]):
        assert lead(run_text("\n".join(part) + "\n").diagnosis) in case.causes


@pytest.mark.parametrize("name", SAMPLE)
def test_the_order_of_files_does_not_move_the_root(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    paths = [case.input] + [
        FIXTURES / "clean" / file for file in ("composed/dmesg_boot.txt", "captured/h200_host_df.txt")
    ]
    judged = [run(order) for order in (paths, paths[::-1])]
    leads = [None if isinstance(one, list) else lead(one.diagnosis) for one in judged]
    assert leads[0] == leads[1]
    assert leads[0] in case.causes


VERSIONS = (
    ("case-060", "0.13.0", "0.14.1", "0.35.0"),
    ("case-069", "0.2.6", "0.4.0", "0.6.4"),
    ("case-070", "0.3.3", "0.4.1", "0.6.4"),
    ("case-088", "0.28.0", "0.30.0", "0.40.0"),
    ("case-089", "0.24.0", "0.26.0", "0.12.0"),
    ("case-048", "0.5.6", "0.5.6.post2", "0.5.12"),
    ("case-132", "0.4.1", "0.4.1.post1", "0.5.3"),
    ("case-109", "595.91.07", "595.91.12", "580.95.05"),
    ("case-143", "5945", "5960", "6500"),
)
"""A case whose rule has a range of releases: the release in the text, one more inside, one outside."""


@pytest.mark.parametrize(("name", "given", "inside", "outside"), VERSIONS)
def test_a_rule_with_a_range_keeps_to_it(name: str, given: str, inside: str, outside: str) -> None:
    case = CASES[name]
    text = text_of(case)
    assert given in text
    assert lead(run_text(text.replace(given, inside)).diagnosis) in case.causes
    rules = {finding.rule for finding in run_text(text.replace(given, outside)).diagnosis.causes}
    assert not rules & set(case.causes)
