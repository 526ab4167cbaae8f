"""Chunks: together they are the cleaned whole, and their lines and offsets are those of the source."""

import codecs
import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnoser.sources import Chunk, Limits, Source, clean, record_start

PIECES = st.sampled_from(
    [
        *(b"[2026-02-27 15:17:28] INFO x", b"  File 'a.py'", b"Traceback", b"12", b"(a)", b" ", b"x" * 30),
        *(
            b"\n",
            b"\n",
            b"\n\n",
            b"\r",
            b"\r\n",
            b"\0",
            b"\x1b[31mred\x1b[0m",
            "größe █".encode(),
            b"\xff\xfe",
        ),
    ]
)
TEXTS = (
    st.lists(PIECES, max_size=60)
    .map(b"".join)
    .filter(lambda raw: not raw.startswith(b"\xff\xfe") and raw.count(0) * 4 <= len(raw))  # neither is UTF-16
)
SIZES = st.builds(
    Limits,
    chunk_bytes=st.integers(1, 80),
    hold_bytes=st.integers(0, 80),
    line_bytes=st.integers(20, 60),
    line_kept_bytes=st.integers(4, 15),
)


def whole(raw: bytes, limits: Limits) -> bytes:
    """The slow and obvious way."""
    return b"\n".join(_line(line, limits) for line in raw.split(b"\n"))


def _line(line: bytes, limits: Limits) -> bytes:
    if len(line) <= limits.line_bytes:
        return clean(line)
    written = [part for part in line.replace(b"\0", b"").split(b"\r") if part]
    text = written[-1] if written else b""
    if len(text) > limits.line_bytes:
        pending = codecs.getincrementaldecoder("utf-8")("replace")
        pending.decode(text[: limits.line_kept_bytes])
        kept = text[: limits.line_kept_bytes - len(pending.getstate()[0])]
        text = kept + b" ...[%d bytes of this line not read]" % (len(text) - len(kept))
    return clean(text)


def check(chunks: list[Chunk], raw: bytes) -> None:
    """What holds for the chunks of any source; offsets are into `raw`."""
    assert [chunk.last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert (chunks[0].first_line, chunks[0].offset) == (1, 0)
    for before, chunk in pairwise(chunks):
        assert before.data.endswith(b"\n")
        assert chunk.first_line == before.first_line + before.data.count(b"\n")
        assert chunk.offset > before.offset
        assert raw[: chunk.offset].count(b"\n") == chunk.first_line - 1
        assert raw[chunk.offset - 1 : chunk.offset] == b"\n"


@given(TEXTS, SIZES)
@settings(max_examples=400)
def test_chunks_are_the_cleaned_whole(raw: bytes, limits: Limits) -> None:
    chunks = list(Source.from_bytes("a", raw, limits=limits).chunks())
    assert b"".join(chunk.data for chunk in chunks) == whole(raw, limits)
    check(chunks, raw)


@given(TEXTS, SIZES)
def test_how_the_bytes_arrive_changes_nothing(raw: bytes, limits: Limits) -> None:
    class Drip:
        trouble = None

        def __init__(self) -> None:
            self.rest = raw

        def read(self, n: int, /) -> bytes:
            out, self.rest = self.rest[: min(n, 3)], self.rest[min(n, 3) :]
            return out

    dripped = list(Source("a", Drip, limits=limits).chunks())
    assert dripped == list(Source.from_bytes("a", raw, limits=limits).chunks())


@given(TEXTS, st.sampled_from(["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "utf-32"]))
def test_encodings_of_windows(raw: bytes, encoding: str) -> None:
    text = "[2026-02-27 15:17:28] start of a log\n" + raw.replace(b"\0", b"").decode(errors="ignore")
    encoded = text.encode(encoding)
    if encoding in ("utf-16-le", "utf-16-be") and not text.isascii():
        return  # without a mark it is recognised by its NULs
    chunks = list(Source.from_bytes("a", encoded, limits=Limits(chunk_bytes=20, hold_bytes=10)).chunks())
    assert b"".join(chunk.data for chunk in chunks) == clean(text.encode())
    plain = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(encoding, encoding)
    for chunk in chunks[1:]:
        assert encoded[: chunk.offset].decode(plain).endswith("\n")
        assert encoded[: chunk.offset].decode(plain).count("\n") == chunk.first_line - 1


def test_a_cut_prefers_a_record_start() -> None:
    record = b"[2026-02-27 15:17:28] Exception\nTraceback (most recent call last):\n  File x\nValueError: y\n"
    limits = Limits(chunk_bytes=100, hold_bytes=90)
    chunks = list(Source.from_bytes("a", record * 20, limits=limits).chunks())
    assert all(chunk.data.startswith(b"[2026") for chunk in chunks)
    assert all(len(chunk.data) <= 190 for chunk in chunks)
    assert len(chunks) > 5


def test_without_a_record_start_a_cut_falls_on_a_line_that_is_not_indented() -> None:
    text = (b"abc:\n" + b"   indented\n" * 3) * 50
    chunks = list(Source.from_bytes("a", text, limits=Limits(chunk_bytes=100, hold_bytes=60)).chunks())
    assert all(chunk.data.startswith(b"abc") for chunk in chunks)


def test_no_more_than_the_hold_is_held() -> None:
    chunks = list(
        Source.from_bytes("a", b"  x\n" * 1000, limits=Limits(chunk_bytes=100, hold_bytes=40)).chunks()
    )
    assert {len(chunk.data) for chunk in chunks[:-1]} == {140}


def test_the_hook_decides() -> None:
    text = b"time=1 a\n- b\n- c\n" * 100
    chunks = Source.from_bytes("a", text, limits=Limits(chunk_bytes=50, hold_bytes=40)).chunks(
        is_record_start=lambda line: line.startswith(b"- c")
    )
    assert all(chunk.data.startswith(b"- c") for chunk in list(chunks)[1:])


@pytest.mark.parametrize(
    ("line", "is_start"),
    [
        (b"[2026-02-27 15:17:28 TP0] Load weight begin.", True),
        (b"INFO 02-27 15:17:28 [core.py:139] x", True),
        (b"(EngineCore pid=2025) INFO 02-27", True),
        (b"2026-02-27T15:17:28Z x", True),
        (b"  File 'x.py', line 1", False),
        (b"Traceback (most recent call last):", False),
        (b"", False),
    ],
)
def test_record_starts(line: bytes, is_start: bool) -> None:
    assert record_start(line) is is_start


def docker(data: bytes) -> bytes:
    return b"".join(json.loads(line)["log"].encode() for line in data.splitlines())


def test_a_transform_unwraps_lines_and_is_cleaned_again() -> None:
    inner = ["[2026] a\n", "\x1b[31m  indented\x1b[0m\n"] * 40
    raw = b"".join(json.dumps({"log": line}).encode() + b"\n" for line in inner)
    source = Source.from_bytes("a", raw, limits=Limits(chunk_bytes=100, hold_bytes=90))
    chunks = list(source.chunks(docker))
    assert b"".join(chunk.data for chunk in chunks) == b"[2026] a\n  indented\n" * 40
    assert all(chunk.data.startswith(b"[2026]") for chunk in chunks)
    assert source.notes == []
    check([chunk._replace(data=line) for chunk, line in zip(chunks, _raw(chunks, raw), strict=True)], raw)


def _raw(chunks: list[Chunk], raw: bytes) -> list[bytes]:
    ends = [chunk.offset for chunk in chunks[1:]] + [len(raw)]
    return [raw[chunk.offset : end] for chunk, end in zip(chunks, ends, strict=True)]


def test_a_transform_that_loses_lines_is_ignored_with_a_note() -> None:
    source = Source.from_bytes("a", b"a\nb\n")
    (chunk,) = source.chunks(lambda data: data.replace(b"\n", b""))
    assert chunk.data == b"a\nb\n"
    assert len(source.notes) == 1


def test_a_long_line_is_noted_with_number_and_length() -> None:
    source = Source.from_bytes(
        "a", b"one\n" + b"x" * 50 + b"\nthree\n", limits=Limits(line_bytes=40, line_kept_bytes=8)
    )
    for _ in range(2):
        (chunk,) = source.chunks()
        assert chunk.data == b"one\nxxxxxxxx ...[42 bytes of this line not read]\nthree\n"
        (note,) = source.notes
        assert (note.line, note.length_bytes) == (2, 50)


def test_a_hole_and_hours_of_progress_are_no_long_lines() -> None:
    raw = bytes(5000) + b"start\n" + b"\rstep" * 2000 + b"\rdone\n"
    source = Source.from_bytes("a", raw, limits=Limits(line_bytes=100, line_kept_bytes=10))
    assert b"".join(chunk.data for chunk in source.chunks()) == b"start\ndone\n"
    assert source.notes == []


def test_an_empty_source_has_one_chunk_and_says_so() -> None:
    source = Source.from_bytes("a", b"")
    assert list(source.chunks()) == [Chunk(b"", 1, 0, last=True)]
    assert source.notes == ["it is empty"]
