"""No text makes the parsers of engines and packages raise, run away or point outside their lines."""

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diagnoser.parsers import llamacpp, other_engines, packages, sglang, vllm
from diagnoser.parsers.base import Parser

PARSERS: tuple[Parser, ...] = (
    *sglang.PARSERS,
    *vllm.PARSERS,
    *llamacpp.PARSERS,
    *other_engines.PARSERS,
    *packages.PARSERS,
)
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SAMPLES = [
    *sorted((FIXTURES / "sglang").glob("*.log")),
    *sorted((FIXTURES / "vllm").glob("*.log")),
    *sorted((FIXTURES / "captures/h200/host").glob("*.txt")),
    FIXTURES / "captures/cpu_servers/llama_server.log",
]
LITERALS = sorted({literal for parser in PARSERS for literal in parser.literals})
SAMPLE_LINES = sorted(
    {
        line
        for path in SAMPLES
        for line in path.read_text(encoding="utf-8").split("\n")
        if len(line) < 600 and any(literal in line for literal in LITERALS)
    }
)

pieces = st.one_of(
    st.sampled_from(SAMPLE_LINES),
    st.sampled_from(LITERALS),
    st.sampled_from(
        [" ", ":", "=", "(", "{", "'", "0", "-1", "9" * 40, "1e999", "nan", ".", ",", "\t", "\x00", "é", "٣"]
    ),
    st.text(max_size=12),
)
texts = st.lists(st.lists(pieces, min_size=1, max_size=3).map("".join), max_size=10).map("\n".join)


def read_all(text: str) -> None:
    lines = text.split("\n")
    for parser in PARSERS:
        for i, line in enumerate(lines):
            if not any(literal in line for literal in parser.literals):
                continue
            part, start = lines, i
            if parser.extent is not None:
                extent = parser.extent(lines, i)
                if extent is None:
                    continue
                assert 0 <= extent.start <= i < extent.stop <= len(lines)
                part, start = lines[extent.start : extent.stop], 0
            for found in parser.parse(part, start):
                assert 0 <= found.first <= found.last < len(part)
                hash(found.fact)


def test_names_and_literals() -> None:
    assert len({parser.name for parser in PARSERS}) == len(PARSERS)
    assert all(len(literal) >= 4 for literal in LITERALS)
    assert all((parser.extent is None) == (parser.document is None) for parser in PARSERS)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts)
def test_any_text(text: str) -> None:
    read_all(text)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(SAMPLE_LINES), st.integers(0, 600), st.integers(0, 20), st.text(max_size=10))
def test_a_damaged_line(line: str, at: int, gone: int, noise: str) -> None:
    read_all(line[:at] + noise + line[at + gone :])


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_cut_samples(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").split("\n")
    for cut in range(0, len(lines), max(1, len(lines) // 6)):
        read_all("\n".join(lines[cut:]))
        read_all("\n".join(lines[:cut]))


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_long_lines_cost_little(parser: Parser) -> None:
    begun = time.process_time()
    for literal in parser.literals[:12]:
        for unit in ("a", " ", "1", "=", "'", "{a=", "-e A=", "1.0, "):
            lines = [literal + unit * (1_000_000 // len(unit)), "x"]
            extent = range(1) if parser.extent is None else parser.extent(lines, 0)
            if extent:
                list(parser.parse(lines[: extent.stop], 0))
    assert time.process_time() - begun < 20


@pytest.mark.parametrize(
    "parser", [parser for parser in PARSERS if parser.extent], ids=lambda parser: parser.name
)
def test_many_lines_cost_little(parser: Parser) -> None:
    """A block's extent is asked for at every line that holds a literal, so it must be cheap where it fails."""
    assert parser.extent is not None
    begun = time.process_time()
    for literal in parser.literals:
        lines = [literal + "1.0"] * 4000
        at = 0
        while at < len(lines):
            extent = parser.extent(lines, at)
            at = at + 1 if extent is None else extent.stop
    assert time.process_time() - begun < 20
