"""What is read in columns is what is read line by line, whatever the lines are like."""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

np = pytest.importorskip("numpy")

from diagnoser.facts.engine import SeriesStat  # noqa: E402
from diagnoser.facts.series import SeriesStore  # noqa: E402
from diagnoser.facts.sketch import Sketch, bin_of, extend_arrays  # noqa: E402
from diagnoser.parsers import series  # noqa: E402

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures"
SGLANG = (CAPTURES / "sglang_h200" / "triton.log").read_bytes().splitlines(keepends=True)
VLLM = (CAPTURES / "cpu_servers" / "vllm_preemption.log").read_bytes().splitlines(keepends=True)
METRICS = [line for line in SGLANG if b" batch, " in line] + [line for line in VLLM if b"Avg prompt" in line]
PADDING = b"".join(
    b"[2026-12-01 02:40:00] padding so that no metric stands in the margin\n" for _ in range(20)
)


def in_columns(data: bytes, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    monkeypatch.setattr(series, "numpy_for", lambda _: np)
    return said(data)


def line_by_line(data: bytes, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    monkeypatch.setattr(series, "numpy_for", lambda _: None)
    return said(data)


def said(data: bytes) -> list[object]:
    store = SeriesStore()
    starts = [0, *itertools.accumulate(len(line) for line in data.splitlines(keepends=True))]
    series.SeriesReader().read(data, store, starts=starts, year=2026)
    minutes = sorted((metric, kept.means()) for metric, kept in store.minutes.items())
    return [*store.facts(), *sorted(store.streams.items()), *minutes]


def moved(line: bytes, dice: random.Random) -> bytes:
    """The line with other numbers behind its colons."""
    out = []
    for piece in line.split(b": "):
        digits = len(piece) - len(piece.lstrip(b"0123456789"))
        if digits and out:
            number = str(dice.randrange(10 ** dice.choice((1, 1, 2, 3, 5, 7, 8)))).encode()
            piece = number + piece[digits:]  # noqa: PLW2901
        out.append(piece)
    return b": ".join(out)


MUTATIONS = (
    lambda line, dice: line,
    lambda line, dice: line[: dice.randrange(1, len(line))],
    lambda line, dice: line.replace(b"] ", b" TP%d] " % dice.randrange(3), 1),
    lambda line, dice: line.replace(b"] ", b".%03d] " % dice.randrange(999), 1),
    lambda line, dice: line.replace(b"02:36", b"%02d:%02d" % (dice.randrange(26), dice.randrange(62)), 1),
    lambda line, dice: line.replace(b"2026", b"2a26", 1),
    lambda line, dice: line[22:],
    lambda line, dice: b"2026-03-02T09:14:%02d.5Z " % dice.randrange(60) + line,
    lambda line, dice: line.rstrip(b"\n") + line,
    lambda line, dice: line.replace(b", cuda graph: True", b"", 1),
    lambda line, dice: line.replace(b"#running-req: ", b"#running-req: 0", 1),
    lambda line, dice: line.replace(b"gen throughput", b"accept len: 2.71, gen throughput", 1),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(METRICS), st.sampled_from(MUTATIONS)), max_size=60), st.integers(0))
def test_columns_and_lines_say_the_same(lines: list[tuple[bytes, object]], seed: int) -> None:
    dice = random.Random(seed)
    data = b"".join(mutate(moved(line, dice), dice) for line, mutate in lines)  # type: ignore[operator]
    data = (data if not data or data.endswith(b"\n") else data + b"\n") + PADDING
    with pytest.MonkeyPatch.context() as patch:
        assert in_columns(data, patch) == line_by_line(data, patch)


@pytest.mark.parametrize("lines", [SGLANG, VLLM], ids=["sglang", "vllm"])
def test_real_logs(lines: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(lines) * 30
    assert in_columns(data, monkeypatch) == line_by_line(data, monkeypatch)


def test_a_decode_line_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    line = (
        b"[2026-02-27 15:38:%02d] Decode batch, #running-req: 3, #token: %d, token usage: 0.25, "
        b"cuda graph: True, gen throughput (token/s): 83.9, #queue-req: 7\n"
    )
    data = b"".join(line % (second, 77 + second) for second in range(40)) + PADDING
    monkeypatch.setattr(series, "numpy_for", lambda _: np)
    stats = {(fact.metric, fact.running): (fact.count, fact.median) for fact, _, _ in numbers(data)}
    assert stats[("decode_tok_s", 3)] == (40, 83.9)
    assert stats[("kv_usage", None)] == (40, 0.25)
    assert stats[("queue_reqs", None)] == (40, 7.0)


def numbers(data: bytes) -> Iterator[tuple[object, int, str]]:
    store = SeriesStore()
    starts = [0, *itertools.accumulate(len(line) for line in data.splitlines(keepends=True))]
    series.SeriesReader().read(data, store, starts=starts)
    return (stated for stated in store.facts() if isinstance(stated[0], SeriesStat))


@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=700), st.booleans())
def test_a_sketch_of_an_array_is_that_of_its_values(values: list[int], binned: bool) -> None:
    one, other = Sketch(binned=binned), Sketch(binned=binned)
    one.extend(values, range(len(values)))
    extend_arrays(np, [other], np.zeros(1, int), np.array(values), np.arange(len(values)))
    assert (one.counts, one.binned, one.marks(), one.total) == (
        other.counts,
        other.binned,
        other.marks(),
        other.total,
    )
    assert set(other.counts) <= ({bin_of(value) for value in values} if other.binned else set(values))
