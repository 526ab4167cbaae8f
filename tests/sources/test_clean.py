"""Cleaning is line by line, and nothing that is shown moves a terminal."""

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from diagnoser.sources import clean, label, printable
from diagnoser.sources.clean import LongLine, has_lost_colours, strip_lost_colours

TERMINAL = st.lists(
    st.sampled_from(
        [
            *(
                b"a",
                b"\n",
                b"\r",
                b"\r\n",
                b"\0",
                b" ",
                "é█".encode(),
                b"\xff",
                b"[0m",
                b"m",
                b"]",
                b"\\",
                b"\x07",
                b"0",
            ),
            *(b"\x1b", b"\x1b[", b"\x1b[1;36m", b"\x1b]0;t\x07", b"\x1b]8;;u\x1b\\", b";", b"\x07"),
        ]
    ),
    max_size=60,
).map(b"".join)
BIDIRECTIONAL = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x1b[1;36m(EngineCore pid=7)\x1b[0;0m INFO x", b"(EngineCore pid=7) INFO x"),
        (b"\x1b]0;user@gpu-07: ~\x07$ ls", b"$ ls"),
        (b"see \x1b]8;;https://e.org\x1b\\here\x1b]8;;\x1b\\ now", b"see here now"),
        (b"an unfinished \x1b]0;title stays", b"an unfinished 0;title stays"),
        (b"\x1b(Bplain\x1bM \x1b[?25lhidden\x1b[2K", b"plain hidden"),
        (b"ends in \x1b", b"ends in "),
        (b"a\0b\0", b"ab"),
        (b"one\r\ntwo\r\n", b"one\ntwo\n"),
        (b"one\r\r\n", b"one\n"),
        (b"\rLoading: 0%\rLoading: 50%\rLoading: 100%\nnext\n", b"Loading: 100%\nnext\n"),
        (b"bar 90%\r[2026-02-27 15:17:28] ready\n", b"[2026-02-27 15:17:28] ready\n"),
        (b"bar\r\x1b[K\n", b"bar\n"),
        (b"\r\r\n\r", b"\n"),
    ],
)
def test_what_a_terminal_was_told_is_gone(raw: bytes, text: bytes) -> None:
    assert clean(raw) == text


@given(TERMINAL)
@example(b"\x1b\x1b[31m[31m")
def test_cleaning_is_idempotent_and_keeps_lines(raw: bytes) -> None:
    text = clean(raw)
    assert clean(text) == text
    assert text.count(b"\n") == raw.count(b"\n")
    assert not set(text) & set(b"\0\x1b\r")


@given(st.lists(TERMINAL, max_size=4))
def test_lines_are_cleaned_on_their_own(texts: list[bytes]) -> None:
    lines = [text + b"\n" for text in texts]
    assert clean(b"".join(lines)) == b"".join(map(clean, lines))


def test_a_real_vllm_log_keeps_its_lines(fixtures: Path) -> None:
    raw = (fixtures / "captures/cpu_servers/vllm_default.log").read_bytes()
    text = clean(raw)
    assert b"\r" in raw
    assert b"\r" not in text
    assert text.count(b"\n") == raw.count(b"\n")
    assert re.search(rb"(?m)version 0\.32\.0$", text)  # the banner's lines end in CR LF


def test_a_real_sglang_log_loses_its_colours(fixtures: Path) -> None:
    raw = (fixtures / "captures/sglang_h200/triton.log").read_bytes()
    text = clean(raw)
    assert b"\x1b[1;33m" in raw
    assert b"\n'--cuda-graph-max-bs' is deprecated" in text
    assert b"\x1b" not in text
    assert not has_lost_colours(text)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"[1;36m(EngineCore_DP0 pid=76)[0;0m ERROR", b"(EngineCore_DP0 pid=76) ERROR"),
        (b"^[[31mERROR^[[0m x", b"ERROR x"),
        (b"\\x1b[91m\\x1b[1mCRITICAL\\x1b[0m", b"CRITICAL"),
        (b"took [10ms] [0ms], rate(x[5m]) [1m 3s]", b"took [10ms] [0ms], rate(x[5m]) [1m 3s]"),
    ],
)
def test_colours_that_lost_their_escape(raw: bytes, text: bytes) -> None:
    assert strip_lost_colours(raw) == text
    assert has_lost_colours(raw) == (raw != text)


@given(TERMINAL, st.integers(1, 7), st.integers(2, 12))
def test_a_long_line_does_not_depend_on_its_pieces(line: bytes, step: int, limit: int) -> None:
    line = line.replace(b"\n", b"")
    whole, pieces = LongLine(limit, limit // 2), LongLine(limit, limit // 2)
    whole.feed(line)
    for at in range(0, len(line), step):
        pieces.feed(line[at : at + step])
    assert pieces.result() == whole.result()
    written = [part for part in line.replace(b"\0", b"").split(b"\r") if part]
    last = written[-1] if written else b""
    text, length = whole.result()
    if len(last) <= limit:
        assert (text, length) == (last, 0)
    else:
        kept, marker = text.split(b" ...[")
        assert length == len(last)
        assert last.startswith(kept)
        assert marker == b"%d bytes of this line not read]" % (len(last) - len(kept))


def test_a_long_line_is_cut_between_characters() -> None:
    line = LongLine(6, 5)
    line.feed("ab█████".encode())
    assert line.result() == ("ab█".encode() + b" ...[12 bytes of this line not read]", 17)


@given(st.text() | st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_nothing_printable_moves_a_terminal(text: str) -> None:
    shown = printable(text)
    for character in shown:
        assert character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cs", "Zl", "Zp"}
        assert unicodedata.bidirectional(character) not in {
            "LRE",
            "RLE",
            "PDF",
            "LRO",
            "RLO",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
        }
    shown.encode()
    assert printable(shown) == shown
    assert len(label(text).splitlines()) <= 1


def test_printable_leaves_text_alone_and_spells_out_the_rest() -> None:
    assert printable("█ 100 % – größer\n\tx") == "█ 100 % – größer\n\tx"
    assert printable("a\x1b[31m\x9b\u202eb\udc80") == r"a\x1b[31m\x9b\u202eb\udc80"
