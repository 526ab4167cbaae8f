"""The result table of ``vllm bench serve`` and ``sglang.bench_serving``, pasted as text.

============ Serving Benchmark Result ============
Successful requests:                     100
Total generated tokens:                  25600
Mean TPOT (ms):                          23.41
==================================================
"""

import re
from collections.abc import Iterator, Mapping

from diagnoser.facts.base import Found
from diagnoser.facts.bench import BenchResult
from diagnoser.parsers.base import Lines, Parser

MAX_ROWS = 80
_ROW = re.compile(r"\s{0,8}([A-Z][A-Za-z0-9 /().%-]{2,60}):\s{1,40}([\w.+-]{1,40}|not set)\s*$")
_END = re.compile(r"\s{0,8}={50}\s*$")
_ROWS = {
    "Backend": "backend",
    "Successful requests": "successful",
    "Failed requests": "failed",
    "Benchmark duration (s)": "duration_s",
    "Request rate configured (RPS)": "request_rate_rps",
    "Traffic request rate": "request_rate_rps",
    "Maximum request concurrency": "max_concurrency",
    "Max request concurrency": "max_concurrency",
    "Concurrency": "concurrency_mean",
    "Total input tokens": "input_tokens",
    "Total generated tokens": "output_tokens",
    "Total generated tokens (retokenized)": "retokenized_tokens",
    "Request throughput (req/s)": "request_throughput_rps",
    "Output token throughput (tok/s)": "output_tok_s",
    "Peak output token throughput (tok/s)": "peak_output_tok_s",
    "Mean TTFT (ms)": "mean_ttft_ms",
    "P99 TTFT (ms)": "p99_ttft_ms",
    "Mean TPOT (ms)": "mean_tpot_ms",
    "Mean ITL (ms)": "mean_itl_ms",
    "Accept length": "accept_length",
    "Acceptance length": "accept_length",
}
_WHOLE = frozenset(
    ["successful", "failed", "max_concurrency", "input_tokens", "output_tokens", "retokenized_tokens"]
)
_SHARES = (
    ("itl_per_tpot", "mean_itl_ms", "mean_tpot_ms"),
    ("counted_by_text", "output_tokens", "retokenized_tokens"),
    ("rate_reached", "request_throughput_rps", "request_rate_rps"),
    ("concurrency_share", "concurrency_mean", "max_concurrency"),
)
"""A derived field, what it divides, and by what."""


def parse(lines: Lines, i: int) -> Iterator[Found]:
    """One fact for the table that begins at line ``i``."""
    fields: dict[str, str | float] = {}
    last = i
    for k in range(i + 1, min(len(lines), i + MAX_ROWS)):
        line = lines[k][:200]
        if _END.match(line):
            last = k
            break
        row = _ROW.match(line)
        name = _ROWS.get(row[1].strip()) if row is not None else None
        if row is not None and name is not None and name not in fields:
            value = _value(name, row[2])
            if value is not None:
                fields[name] = value
                last = k
    if "successful" in fields or "output_tok_s" in fields:
        yield Found(BenchResult.model_validate({**fields, **_derived(fields)}), i, last)


def _value(name: str, text: str) -> str | float | None:
    if name == "backend":
        return text
    try:
        number = float(text)
    except ValueError:
        return None
    if not 0 <= number < 1e15:
        return None
    return int(number) if name in _WHOLE else number


def _derived(fields: Mapping[str, str | float]) -> dict[str, float]:
    numbers = {name: value for name, value in fields.items() if isinstance(value, int | float)}
    shares = {
        name: round(numbers[over] / numbers[under], 4)
        for name, over, under in _SHARES
        if over in numbers and numbers.get(under, 0) > 0
    }
    done, failed = numbers.get("successful"), numbers.get("failed")
    if done is not None and failed is not None and done + failed > 0:
        shares["failed_share"] = round(failed / (done + failed), 4)
    return shares


PARSERS: tuple[Parser, ...] = (Parser("bench-text", ("Serving Benchmark Result",), parse),)
