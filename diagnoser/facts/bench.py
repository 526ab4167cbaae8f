"""Results that benchmark clients print as a table."""

from typing import ClassVar

from diagnoser.facts.base import Fact


class BenchResult(Fact):
    """The table of ``vllm bench serve`` or ``sglang.bench_serving`` (rows that were not printed are None).

    request_rate_rps: the configured rate, None for "inf". concurrency_mean: requests in flight on average.
    itl_per_tpot: time between chunks by time per token; 1.3 and more means several tokens in a chunk.
    counted_by_text: counted output tokens by those of the re-tokenised text; above 1.01 lengths were assumed.
    rate_reached: requests per second by the configured rate. concurrency_share: concurrency_mean by its limit.
    failed_share: failed by all requests.
    """

    kind: ClassVar[str] = "bench_result"
    backend: str | None = None
    successful: int | None = None
    failed: int | None = None
    duration_s: float | None = None
    request_rate_rps: float | None = None
    max_concurrency: int | None = None
    concurrency_mean: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    retokenized_tokens: int | None = None
    request_throughput_rps: float | None = None
    output_tok_s: float | None = None
    peak_output_tok_s: float | None = None
    mean_ttft_ms: float | None = None
    p99_ttft_ms: float | None = None
    mean_tpot_ms: float | None = None
    mean_itl_ms: float | None = None
    accept_length: float | None = None
    itl_per_tpot: float | None = None
    counted_by_text: float | None = None
    rate_reached: float | None = None
    concurrency_share: float | None = None
    failed_share: float | None = None
