"""Speeds under like load: what the lines of a real log say of it, counted here by hand."""

import re
import statistics
from pathlib import Path

import pytest

from diagnoser.agent import session
from diagnoser.compare.speeds import Change, Speed
from diagnoser.facts.factbase import merge_all
from diagnoser.facts.loads import CELL, cell
from diagnoser.facts.series_stats import SeriesAt

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
H200 = FIXTURES / "captures" / "sglang_h200"
LINE = re.compile(r"Decode batch.*#running-req: 1, #token: (\d+),.*gen throughput \(token/s\): ([\d.]+)")


def test_the_median_of_each_range_of_contexts_is_that_of_its_lines() -> None:
    judged = session.run([H200 / "triton.log"])
    assert not isinstance(judged, list)
    facts = merge_all([part.case.facts for part in judged.parts])
    told = {
        (fact.running, fact.context): fact
        for fact, _ in facts.of("series_at:decode_tok_s")
        if isinstance(fact, SeriesAt)
    }
    assert set(told) == {(1, 0), (1, 4096)}
    lines = [(int(held), float(rate)) for held, rate in LINE.findall((H200 / "triton.log").read_text())]
    long = [rate for held, rate in lines if 4096 <= held < 16384]
    # One line behind each prefill counts its time too and is kept apart, so a few of these are not among the speeds.
    assert len(long) - told[1, 4096].count in range(10)
    assert told[1, 4096].median == pytest.approx(statistics.median(long), rel=0.01)


def test_loads_are_kept_by_requests_and_by_what_each_of_them_holds() -> None:
    assert cell(4, None) == 4
    assert cell(0, 100) == 0
    assert cell(1, 1023) == 1 * CELL + 1
    assert cell(1, 1024) == 2 * CELL + 1
    assert cell(4, 4 * 4096) == 3 * CELL + 4
    assert cell(137, 137 * 300_000) == 6 * CELL + 130


def speed(context: int, after: float, lines: int) -> Speed:
    return Speed("decode_tok_s", 1, context, 100.0, after, (lines, lines))


def test_where_loads_differ_the_one_that_lost_most_decides() -> None:
    alike = Change("decode_tok_s", (speed(0, 90, 50), speed(4096, 91, 50)))
    assert alike.worst(0.03) is None
    assert alike.effect == pytest.approx((speed(0, 90, 1).better + speed(0, 91, 1).better) / 2)
    apart = Change("decode_tok_s", (speed(0, 100, 50), speed(4096, 60, 50)))
    assert apart.worst(0.03) == apart.speeds[1]
    rare = Change("decode_tok_s", (speed(0, 100, 500), speed(4096, 60, 5)))
    assert rare.worst(0.03) is None
