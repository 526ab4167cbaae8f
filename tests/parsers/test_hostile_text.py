"""No text makes these parsers raise, run away or point outside the lines they were given."""

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diagnoser.parsers import cuda_errors, host, kernel, loader, lspci, nccl, traceback
from diagnoser.parsers.base import Parser
from diagnoser.parsers.demangle import demangle

PARSERS: tuple[Parser, ...] = (
    *kernel.PARSERS,
    *nccl.PARSERS,
    *loader.PARSERS,
    *cuda_errors.PARSERS,
    *traceback.PARSERS,
    *host.PARSERS,
    *lspci.PARSERS,
)
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SAMPLES = sorted(
    [path for path in (FIXTURES / "gpu_host").glob("[kmeh]*") if path.suffix in (".log", ".txt")]
    + list((FIXTURES / "captures" / "cpu_servers").glob("*err*.log"))
    + list((FIXTURES / "captures" / "h200" / "host").glob("*.txt"))
)
SAMPLE_LINES = sorted(
    {line for path in SAMPLES for line in path.read_text(encoding="utf-8").split("\n") if len(line) < 300}
)
LITERALS = sorted({literal for parser in PARSERS for literal in parser.literals})

pieces = st.one_of(
    st.sampled_from(SAMPLE_LINES),
    st.sampled_from(LITERALS),
    st.sampled_from([" ", ":", "(", ")", "0x", "-1", "999999999999999999999", "%", ".", "\t", "\x00", "é"]),
    st.text(max_size=12),
)
texts = st.lists(st.lists(pieces, min_size=1, max_size=3).map("".join), max_size=12).map("\n".join)


def read_everywhere(text: str) -> None:
    """Call every parser wherever a literal of it stands, and check what comes back."""
    lines = text.split("\n")
    for parser in PARSERS:
        for i in [i for i, line in enumerate(lines) if any(word in line for word in parser.literals)]:
            block, start = lines, i
            if parser.extent is not None:
                extent = parser.extent(lines, i)
                if extent is None:
                    continue
                assert extent.step == 1
                assert 0 <= extent.start <= i < extent.stop <= len(lines)
                block, start = lines[extent.start : extent.stop], 0
            for found in parser.parse(block, start):
                assert 0 <= found.first <= found.last < len(block)
                hash(found.fact)


@settings(max_examples=120, deadline=None)
@given(texts)
def test_any_text(text: str) -> None:
    read_everywhere(text)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SAMPLES), st.data())
def test_a_sample_with_a_hole_or_a_graft(path: Path, data: st.DataObject) -> None:
    text = path.read_text(encoding="utf-8")[:6000]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 200)))
    read_everywhere(text[:start] + data.draw(pieces) + text[end:])


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="ZN0123456789SIEJLPRKTFCDvijbacstdL_.@", max_size=60))
def test_any_symbol(tail: str) -> None:
    demangle("_Z" + tail)


@pytest.mark.parametrize("literal", LITERALS)
def test_long_lines_cost_little(literal: str) -> None:
    filler = ("a" * 50_000, " " * 50_000, "a." * 25_000, "1 " * 25_000, "[" * 50_000, literal * 2_000)
    lines = [piece for text in filler for piece in (literal + text, text + literal)]
    started = time.process_time()
    for parser in PARSERS:
        for i, line in enumerate(lines):
            if any(word in line for word in parser.literals):
                extent = parser.extent(lines, i) if parser.extent else None
                block = lines[extent.start : extent.stop] if extent else lines
                list(parser.parse(block, 0 if extent else i))
    assert time.process_time() - started < 2.0


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "ValueError: x",
        "[2026-02-27 15:17:28 TP0] Traceback (most recent call last):",
        "[1.000000] NVRM: Xid (PCI:0000:c1:00): 43, pid=1, name=a, Ch 1",
        "\tLnkSta:\tSpeed 5GT/s, Width x16",
        "cpu.max: 400000 100000",
    ],
)
def test_many_equal_lines_cost_linear_time(line: str) -> None:
    lines = [line] * 3000
    started = time.process_time()
    for parser in PARSERS:
        covered = 0
        for i in range(len(lines)):
            if i >= covered and any(word in line for word in parser.literals):
                extent = parser.extent(lines, i) if parser.extent else None
                covered = extent.stop if extent else 0
                block = lines[extent.start : extent.stop] if extent else lines
                list(parser.parse(block, 0 if extent else i))
    assert time.process_time() - started < 6.0
