"""nvidia-smi parsers on arbitrary, mutated and huge text: they never raise, and never take long."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnoser.parsers.base import Parser
from diagnoser.parsers.nvidia_smi import PARSERS

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SAMPLES = sorted(
    path
    for path in (FIXTURES / "gpu_host").iterdir()
    if path.name[:1] in "tqxcpnldf" and path.name[1:3].isdigit()
)
TEXTS = [path.read_text(encoding="utf-8") for path in SAMPLES]
LITERALS = sorted({literal for parser in PARSERS for literal in parser.literals})
NAMES = [parser.name for parser in PARSERS]

fragments = st.lists(
    st.one_of(
        st.sampled_from(LITERALS),
        st.sampled_from(
            [
                "|",
                "+",
                " ",
                "\t",
                "\n",
                ": ",
                " : ",
                ", ",
                "0",
                "16x",
                "N/A",
                "ERR!",
                "<gpu>",
                "</gpu>",
                "GPU 0: ",
            ]
        ),
        st.sampled_from([line for text in TEXTS for line in text.split("\n")[:12]]),
        st.text(max_size=12),
    ),
    max_size=24,
).map("".join)


def run(parser: Parser, lines: list[str]) -> int:
    """Everything the parser is asked of these lines; gives the number of facts."""
    count = 0
    for i, line in enumerate(lines):
        if not any(literal in line for literal in parser.literals):
            continue
        block = lines
        if parser.extent is not None:
            extent = parser.extent(lines, i)
            if extent is None:
                continue
            assert i in extent
            assert 0 <= extent.start < extent.stop <= len(lines)
            block = lines[extent.start : extent.stop]
        for found in parser.parse(block, 0 if parser.extent else i):
            assert 0 <= found.first <= found.last < len(block)
            hash(found.fact)
            count += 1
    return count


@pytest.mark.parametrize("parser", PARSERS, ids=NAMES)
@settings(max_examples=60, deadline=None)
@given(text=fragments)
def test_any_text(parser: Parser, text: str) -> None:
    run(parser, text.split("\n"))
    for i in range(min(3, len(text.split("\n")))):
        list(parser.parse(text.split("\n"), i))
    list(parser.parse([], 0)) if parser.extent else None


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_mutated_samples(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text)))
        end = min(len(text), at + data.draw(st.integers(0, 200)))
        text = text[:at] + data.draw(fragments) + text[end:]
    for parser in PARSERS:
        run(parser, text.split("\n"))


@settings(max_examples=60, deadline=None)
@given(text=st.sampled_from(TEXTS), drop=st.sets(st.integers(0, 90), max_size=12))
def test_lines_lost(text: str, drop: set[int]) -> None:
    lines = [line for i, line in enumerate(text.split("\n")) if i not in drop]
    for parser in PARSERS:
        run(parser, lines)


@pytest.mark.parametrize(
    "filler",
    ["a", " ", "|", "+-", "<a", "<a>", ", ", "0, NVIDIA A, ", " : ", "[", "1.", "GPU 0: (", "\\|", "&lt;"],
)
def test_long_lines(filler: str) -> None:
    body = filler * (1_000_000 // len(filler))
    started = time.perf_counter()
    for parser in PARSERS:
        for literal in parser.literals[:8]:
            for line in (literal + body, body + literal):
                lines = ["", line, ""]
                if parser.extent is not None:
                    extent = parser.extent(lines, 1)
                    if extent is not None:
                        list(parser.parse(lines[extent.start : extent.stop], 0))
                else:
                    list(parser.parse(lines, 1))
    assert time.perf_counter() - started < 10


@pytest.mark.parametrize("parser", PARSERS, ids=NAMES)
def test_many_lines(parser: Parser) -> None:
    """As the reader asks: in order, not again inside a block; every literal on 3,000 lines of its own."""
    started = time.perf_counter()
    samples = [
        line
        for text in TEXTS
        for line in text.split("\n")
        if any(literal in line for literal in parser.literals)
    ]
    for line in (*parser.literals[:40], *samples[:10]):
        lines = [line] * 3_000
        end = 0
        for i in range(len(lines)):
            if parser.extent is None:
                list(parser.parse(lines, i))
            elif i >= end and (extent := parser.extent(lines, i)) is not None:
                list(parser.parse(lines[extent.start : extent.stop], 0))
                end = extent.stop
    assert time.perf_counter() - started < 20
