"""Reading ahead changes when bytes are unpacked, never which."""

import gc
import gzip
import random
import threading
import time
from pathlib import Path

import pytest

from diagnoser.sources import Source, open_sources
from diagnoser.sources.ahead import AFTER_BYTES, Ahead
from diagnoser.sources.streams import Held


def text(size: int) -> bytes:
    dice = random.Random(3)
    line = b"".join(
        b"%d %s\n" % (dice.randrange(10**9), dice.randbytes(40).hex().encode()) for _ in range(500)
    )
    return (line * (size // len(line) + 1))[:size]


@pytest.mark.parametrize("size", [0, 10, AFTER_BYTES - 1, AFTER_BYTES, AFTER_BYTES + 1, 3 * AFTER_BYTES + 17])
def test_the_same_bytes(size: int) -> None:
    data = text(size)
    stream = Ahead(Held(data))
    out = []
    while block := stream.read(300_000):
        out.append(block)
    assert b"".join(out) == data
    assert stream.trouble is None
    assert stream.read(5) == b""


def test_what_went_wrong_is_told_behind_the_last_byte(tmp_path: Path) -> None:
    data = text(4 * AFTER_BYTES)
    path = tmp_path / "cut.log.gz"
    path.write_bytes(gzip.compress(data)[:-100_000])
    for source in open_sources([path]):
        assert isinstance(source, Source)
        chunks = list(source.chunks())
        assert sum(len(chunk.data) for chunk in chunks) > 3 * AFTER_BYTES
        assert any("ends early" in note for note in source.notes)


def test_a_reader_that_is_left_ends_its_thread() -> None:
    before = threading.active_count()
    stream = Ahead(Held(text(6 * AFTER_BYTES)))
    while threading.active_count() == before:
        assert stream.read(1 << 20)
    del stream
    gc.collect()
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() == before
