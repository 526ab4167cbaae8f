"""The result table of serving benchmarks as text."""

from hypothesis import given
from hypothesis import strategies as st

from diagnoser.facts.bench import BenchResult
from diagnoser.parsers.bench_text import parse

TABLE = """============ Serving Benchmark Result ============
Backend:                                 sglang-oai
Traffic request rate:                    inf
Max request concurrency:                 1
Successful requests:                     5
Benchmark duration (s):                  108.37
Total generated tokens:                  10240
Total generated tokens (retokenized):    10021
Output token throughput (tok/s):         94.49
Mean TTFT (ms):                          210.40
Mean TPOT (ms):                          10.70
Mean ITL (ms):                           32.11
==================================================""".splitlines()


def test_reads_rows_and_ratios() -> None:
    (found,) = parse(TABLE, 0)
    assert isinstance(found.fact, BenchResult)
    assert (found.first, found.last) == (0, len(TABLE) - 1)
    assert found.fact.output_tok_s == 94.49
    assert found.fact.request_rate_rps is None
    assert found.fact.counted_by_text == 1.0219
    assert found.fact.itl_per_tpot == 3.0009


def test_a_header_alone_states_nothing() -> None:
    assert list(parse(TABLE[:1], 0)) == []


@given(st.lists(st.text(max_size=80), max_size=30))
def test_never_raises(lines: list[str]) -> None:
    list(parse([TABLE[0], *lines], 0))
