"""Facts about an inference engine: what was asked for, what was chosen, how it started and runs."""

from typing import ClassVar, Literal

from diagnoser.facts.base import Fact

Scalar = str | int | float | bool | None

Chosen = Literal["default", "asked", "model", "forced", "unknown"]
"""Who chose a backend: nobody asked (default), a flag or variable (asked), the model class (model), a
fallback that overrode the wish (forced)."""


class Message(Fact):
    """A message of the rule packs was said. ``fields`` holds its captures, sorted by name."""

    kind: ClassVar[str] = "message"
    kept: ClassVar[int] = 128
    id: str
    fields: tuple[tuple[str, str], ...] = ()

    @property
    def family(self) -> str:
        return f"message:{self.id}"


class Engine(Fact):
    """An engine is at work here; ``version`` as printed ("0.5.9", "0.21.1rc1.dev323+g1fc2cee50")."""

    kind: ClassVar[str] = "engine"
    name: Literal[
        "sglang", "vllm", "tensorrt-llm", "llama.cpp", "ollama", "tgi", "dynamo", "triton", "lmdeploy"
    ]
    version: str | None = None


class ServerArg(Fact):
    """A server option with its value. Names use underscores without leading dashes ("attention_backend").

    asked: True when the user gave it (command line, ``non-default args``), False when the engine says it is
    its own choice, None when the text shows resolved values only and cannot tell.
    """

    kind: ClassVar[str] = "server_arg"
    kept: ClassVar[int] = 8
    name: str
    value: Scalar
    asked: bool | None = None

    @property
    def family(self) -> str:
        return f"server_arg:{self.name}"


class EnvVar(Fact):
    """An environment variable of the server or of the shell that was shown; value None: said to be unset."""

    kind: ClassVar[str] = "env"
    name: str
    value: str | None


class Model(Fact):
    """The model being served. attention is "mla" or "mha" where the class tells; moe likewise."""

    kind: ClassVar[str] = "model"
    path: str | None = None
    architecture: str | None = None
    attention: Literal["mla", "mha", "hybrid"] | None = None
    quantization: str | None = None
    dtype: str | None = None
    moe: bool | None = None
    multimodal: bool | None = None


class AttentionBackend(Fact):
    """Attention kernels in use. Names are lower case as SGLang and vLLM's flags spell them ("triton")."""

    kind: ClassVar[str] = "attention_backend"
    name: str
    chosen_by: Chosen = "unknown"
    phase: Literal["all", "prefill", "decode", "draft", "multimodal"] = "all"


class KernelBackend(Fact):
    """Another choice of kernels: role moe, fp8_gemm, fp4_gemm, linear, sampling, all_reduce."""

    kind: ClassVar[str] = "kernel_backend"
    role: str
    name: str
    chosen_by: Chosen = "unknown"


class StartPhase(Fact):
    """A phase of a server's start-up and what it took: load_weight, init_distributed, cuda_graph, compile."""

    kind: ClassVar[str] = "start_phase"
    name: str
    duration_s: float


class Capacity(Fact):
    """A size the server settled on: kv_tokens, kv_size_gb, weights_gb, free_gb, max_running_requests."""

    kind: ClassVar[str] = "capacity"
    kept: ClassVar[int] = 64
    name: str
    value: float

    @property
    def family(self) -> str:
        return f"capacity:{self.name}"


class Ready(Fact):
    """The server said that it serves requests."""

    kind: ClassVar[str] = "ready"


class Exited(Fact):
    """The server or one of its processes ended: how is sigquit, sigterm, sigkill, exception, hang_watchdog."""

    kind: ClassVar[str] = "exited"
    how: str


class ExceptionRaised(Fact):
    """The last line of a Python traceback. ``where`` is the innermost frame as "file.py:function"."""

    kind: ClassVar[str] = "exception"
    type: str
    message: str
    where: str | None = None


class SeriesStat(Fact):
    """Statistics of one number that the server prints again and again.

    metric: decode_tok_s, prefill_tok_s, running_reqs, queue_reqs, kv_usage (0 to 1), accept_len,
    cuda_graph (share of decode lines with a graph, 0 to 1), cache_hit (share of prompt tokens), preemptions.
    running: the number of running requests at which these samples were taken; None: all samples.
    median, p05 and p95 are within 1 % of the exact quantile (logarithmic bins, see facts.series).
    """

    kind: ClassVar[str] = "series"
    metric: str
    running: int | None = None
    count: int
    min: float
    p05: float
    median: float
    p95: float
    max: float
    first: float
    last: float

    @property
    def family(self) -> str:
        return f"series:{self.metric}"
