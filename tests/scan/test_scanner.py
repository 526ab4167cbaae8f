"""Both scanners find the same; templates take what they should and never run away."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnoser.scan.scanner import AT_START, ONCE, HyperscanScanner, NaiveScanner, fast_available
from diagnoser.scan.template import MatchTimeoutError, match_pattern, match_plan

needs_hyperscan = pytest.mark.skipif(not fast_available(), reason="no hyperscan on this platform")

ALPHABET = st.sampled_from([b"a", b"b", b".", b"\n", b"\x00", b"\xff", b"(", b"[", b" "])
WORDS = st.lists(ALPHABET, min_size=1, max_size=6).map(b"".join)


@needs_hyperscan
@given(st.lists(WORDS, min_size=1, max_size=8, unique=True), st.lists(WORDS, max_size=40).map(b"".join))
def test_hyperscan_and_naive_find_the_same(literals: list[bytes], data: bytes) -> None:
    assert HyperscanScanner(literals).scan(data) == NaiveScanner(literals).scan(data)


@needs_hyperscan
def test_a_kept_database_finds_what_the_new_one_does() -> None:
    literals = [b"Use triton backend", b"token usage: 0.99"]
    first = HyperscanScanner(literals)
    again = HyperscanScanner(literals, first.serialize())
    data = b"x Use triton backend by default.\ntoken usage: 0.99, Use triton backend"
    assert again.scan(data) == first.scan(data)
    assert [hit.literal for hit in again.scan(data)] == [0, 1, 0]


def test_captures_run_to_the_next_fixed_text() -> None:
    plan = ("Attention backend not specified. Use ", ("backend", ""), " backend by default.")
    line = "[2026-02-27 15:17:28] INFO server_args.py:1835: Attention backend not specified. Use triton backend by default."
    assert match_plan(plan, line) == {"backend": "triton"}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "n=159,744, next", "159744"),
        ("float", "n=0.92 s", "0.92"),
        ("word", "n=/models/kimi, next", "/models/kimi"),
        ("name", "n=0.6.4. Please", "0.6.4"),
        ("quoted", "n='a b', next", "a b"),
        ("lower", "n=TRITON_ATTN", "triton_attn"),
    ],
)
def test_typed_captures_take_one_token(kind: str, text: str, value: str) -> None:
    assert match_plan(("n=", ("x", kind)), text) == {"x": value}


def test_a_typed_capture_that_does_not_fit_is_no_match() -> None:
    assert match_plan(("took ", ("seconds", "float"), " seconds"), "took some seconds") is None


def test_later_occurrences_of_the_first_text_are_tried() -> None:
    assert match_plan(("code ", ("n", "int")), "code x, code 7") == {"n": "7"}


def test_a_pattern_that_runs_away_is_stopped_in_time() -> None:
    began = time.monotonic()
    with pytest.raises(MatchTimeoutError):
        match_pattern(r"^(?P<x>(a|aa)+)$", "a" * 5000 + "!")
    assert time.monotonic() - began < 5


def test_rule_files_and_the_scanner_know_the_same_capture_types() -> None:
    # The two floors may not import each other, so the list stands in both.
    from diagnoser.rulebook.compile import CAPTURE_TYPES
    from diagnoser.scan.template import TYPES

    assert CAPTURE_TYPES == TYPES


@pytest.mark.parametrize("scanner", [NaiveScanner, pytest.param(HyperscanScanner, marks=needs_hyperscan)])
def test_literals_that_are_wanted_once_or_where_a_line_begins(scanner: type) -> None:
    found = scanner([b"batch", b"rate", b"rate: "], wanted={0: ONCE, 2: AT_START}).scan(
        b"rate: 1 batch\nbatch rate: 2\nrate: 3 batch"
    )
    assert list(found) == [(4, 1), (6, 2), (13, 0), (24, 1), (32, 1), (34, 2)]
