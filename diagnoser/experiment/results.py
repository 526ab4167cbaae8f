"""The result of a benchmark, as it is saved and read: one JSON object of schema ``diagnoser/benchmark/1``.

Shape: who was measured (`Identity`), what was asked of it (`Workload`), and per launch of the server its runs, per run
its requests. Every number carries its unit in its name; the metrics are defined in `diagnoser.experiment.load.measure`.
None means that the server or the stream did not tell; it is never zero.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA: Literal["diagnoser/benchmark/1"] = "diagnoser/benchmark/1"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Gpu(_Part):
    """A GPU of the server's host, idle values at the start."""

    name: str
    uuid: str | None = None
    driver: str | None = None
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_limit_w: float | None = None


class Identity(_Part):
    """The server under test."""

    url: str
    engine: str | None = None
    version: str | None = None
    model: str | None = None
    flags: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    gpus: list[Gpu] = Field(default_factory=list)


class Workload(_Part):
    """What was asked. Results of different workloads are not compared."""

    api: Literal["completions", "chat", "generate"]
    concurrency: int | None  # closed loop; None in an open loop
    rate_per_s: float | None  # open loop, Poisson; None in a closed loop
    requests_per_run: int
    prompt_tokens: int  # asked for
    prompt_tokens_counted: int | None  # by the server, of a prompt of this family
    output_tokens: int
    seed: str
    options_refused: list[str] = Field(default_factory=list)
    prompts_sha256: str


class Spread(_Part):
    """Over the requests of one run (for ``chunk_gap_ms`` over its chunks)."""

    mean: float
    p50: float
    p95: float
    p99: float
    max: float


class Request(_Part):
    """One request."""

    output_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    counted_by: Literal["usage", "meta_info", "timings"] | None = None
    first_chunk_tokens: int | None = None
    chunks: int = 0
    ttft_ms: float | None = None
    e2e_ms: float | None = None
    decode_ms_per_token: float | None = None
    e2e_ms_per_token: float | None = None
    output_tok_s_request: float | None = None
    late_ms: float | None = None
    accept_len: float | None = None
    collapsed: bool = False
    text_sha256: str | None = None
    error: str | None = None


class Finding(_Part):
    """A guard spoke."""

    guard: str
    level: Literal["note", "warn", "void"]
    text: str
    run: int | None = None


class Run(_Part):
    """One measured pass (or a warm-up)."""

    number: int
    complete: bool
    off_length: bool  # some answer is more than 2 % off the asked length
    wall_s: float | None
    failed: int
    output_tokens: int | None
    output_tok_s_wall: float | None
    output_tok_s_request: Spread | None
    ttft_ms: Spread | None
    decode_ms_per_token: Spread | None
    e2e_ms: Spread | None
    e2e_ms_per_token: Spread | None
    chunk_gap_ms: Spread | None
    accept_len: float | None
    client_cpu_share: float  # of one core
    client_lag_p99_ms: float
    requests: list[Request]


class Launch(_Part):
    """One start of the server: the unit of evidence."""

    warm_ups: list[Run] = Field(default_factory=list)
    warm_ups_agree: bool | None = None
    runs: list[Run] = Field(default_factory=list)


class Benchmark(_Part):
    """A result file."""

    schema_: Literal["diagnoser/benchmark/1"] = Field(default=SCHEMA, alias="schema")
    tool: str
    tool_version: str
    started_at: str  # UTC, ISO 8601
    complete: bool
    identity: Identity
    workload: Workload
    launches: list[Launch]
    findings: list[Finding] = Field(default_factory=list)

    def to_json(self) -> str:
        """The file's text; the same result gives the same bytes."""
        return self.model_dump_json(by_alias=True, indent=1) + "\n"
