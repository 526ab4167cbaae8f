"""vLLM's own statements: version, arguments, configuration, start-up, sizes, readiness (0.2 to 0.33).

    INFO 07-24 15:17:30 [api_server.py:912] vLLM API server version 0.11.0
    (EngineCore_DP0 pid=4188) INFO 02-27 15:17:46 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: ...
    (Worker_TP0 pid=4242) INFO 02-27 15:18:16 [gpu_model_runner.py:2653] Model loading took 65.7410 GiB and 24.9 seconds

Attention and kernel choices are messages of the rule pack. V0's "GB" are GiB too.
"""

import re
from collections.abc import Iterable, Iterator

from diagnoser.facts.base import Fact, Found
from diagnoser.facts.engine import Capacity, Engine, Exited, Ready, Scalar, ServerArg, StartPhase
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.fields import flatten, split_fields
from diagnoser.parsers.model_class import model_at, model_of
from diagnoser.parsers.prefix import read_prefix
from diagnoser.parsers.statement import Facts, by_statement, says

VLLM = Engine(name="vllm")

_VERSION = r"v?(\d{1,4}\.\d{1,4}[\w.+\-]{0,80})"
_ARGS = lazy(r"non-default args: \{|args: Namespace\(")
_CONFIG = lazy(rf"Initializing an? (?:(V[01]) )?LLM engine \({_VERSION}\) with config: ")
_SECRET = lazy(r"(?:^|_)(?:api_key|token|password|ssl_keyfile)(?:$|_)")
_UNSET: tuple[Scalar, ...] = (None, False, "", "[]", "{}")

_RAW_DEFAULTS = frozenset(
    {
        "compilation_config",
        "cpu_offload_gb",
        "disable_custom_all_reduce",
        "enable_chunked_prefill",
        "enable_expert_parallel",
        "enable_prefix_caching",
        "enforce_eager",
        "gpu_memory_utilization",
        "kv_transfer_config",
        "max_model_len",
        "max_num_batched_tokens",
        "max_num_seqs",
        "num_gpu_blocks_override",
        "quantization",
        "rope_scaling",
        "served_model_name",
        "speculative_config",
        "speculative_model",
        "tokenizer",
        "trust_remote_code",
    }
)
"""Options that the parser leaves at None or False: a value in the raw ``Namespace`` was given by the user."""

_DEFAULT_VALUES: dict[str, Scalar] = {"gpu_memory_utilization": 0.9, "cpu_offload_gb": 0, "max_num_seqs": 256}

_KEPT_CONFIG = frozenset(
    {
        "chunked_prefill_enabled",
        "disable_custom_all_reduce",
        "enable_chunked_prefill",
        "enable_prefix_caching",
        "enforce_eager",
        "kv_cache_dtype",
        "quantization",
        "speculative_config",
    }
)
"""Entries of the configuration that are told even where they are None or False."""


def parse_args(lines: Lines, i: int) -> Iterator[Found]:
    """``non-default args`` (asked=True) or the whole ``Namespace`` (asked only where that is certain)."""
    line = lines[i]
    opening = _ARGS.search(line)
    if opening is None:
        return
    whole = opening[0].endswith("(")
    if read_prefix(line[: opening.end()]).engine not in ("vllm", None):
        return
    yield Found(VLLM, i, i)
    for name, value in flatten(split_fields(line, opening.end())):
        if _SECRET.search(name) or (whole and value in _UNSET):
            continue
        asked = True if not whole else _surely_asked(name, value)
        yield Found(ServerArg(name=name, value=value, asked=asked), i, i)
        if name == "model" and isinstance(value, str):
            yield Found(model_at(value), i, i)


def _surely_asked(name: str, value: Scalar) -> bool | None:
    return True if name in _RAW_DEFAULTS and value != _DEFAULT_VALUES.get(name) else None


def parse_config(lines: Lines, i: int) -> Iterator[Found]:
    """The version, the engine's generation ("V1"), the resolved configuration (asked=None), the model."""
    line = lines[i]
    head = _CONFIG.search(line)
    if head is None:
        return
    generation, version = head.groups()
    yield Found(Engine(name="vllm", version=version), i, i)
    if generation is not None:
        yield Found(ServerArg(name="engine_generation", value=generation), i, i)
    path = dtype = quantization = None
    for name, value in flatten(split_fields(line[head.end() :])):
        if _SECRET.search(name) or (value in _UNSET and name not in _KEPT_CONFIG):
            continue
        yield Found(ServerArg(name=name, value=value), i, i)
        if name == "model" and isinstance(value, str):
            path = value
        elif name == "dtype" and isinstance(value, str):
            dtype = value
        elif name == "quantization" and isinstance(value, str):
            quantization = value
    if path is not None:
        yield Found(model_at(path, dtype, quantization), i, i)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _capacity(*names: str) -> Facts:
    """Capacities from the groups in order; a group that did not take part is left out."""

    def facts(match: re.Match[str]) -> Iterable[Fact]:
        values = zip(names, match.groups(), strict=True)
        return [Capacity(name=name, value=_number(text)) for name, text in values if text is not None]

    return facts


def _phase(name: str) -> Facts:
    def facts(match: re.Match[str]) -> Iterable[Fact]:
        return [StartPhase(name=name, duration_s=_number(match[1]))]

    return facts


def _model_loaded(match: re.Match[str]) -> Iterator[Fact]:
    yield Capacity(name="weights_gb", value=_number(match[1]))
    yield StartPhase(name="load_model", duration_s=_number(match[2]))


def _graphs(match: re.Match[str]) -> Iterator[Fact]:
    yield StartPhase(name="cuda_graph", duration_s=_number(match[1]))
    if match[2]:
        yield Capacity(name="cuda_graph_gb", value=_number(match[2]))


def _init_engine(match: re.Match[str]) -> Iterator[Fact]:
    yield StartPhase(name="init_engine", duration_s=_number(match[1]))
    if match[2]:
        yield StartPhase(name="compile", duration_s=_number(match[2]))


def _ready(match: re.Match[str]) -> Iterable[Fact]:
    """Uvicorn's line means ready for vLLM and most others, but SGLang stamps it and is not ready yet."""
    return [] if read_prefix(match.string[:200]).engine == "sglang" else [Ready()]


_N = r"(\d{1,3}(?:,\d{3}){1,5}|\d{1,15}(?:\.\d{1,8})?)"

_STATEMENTS = (
    says(
        "vLLM API server version ",
        rf"vLLM API server version {_VERSION}",
        lambda m: [Engine(name="vllm", version=m[1])],
    ),
    says("█  version ", rf"█  version {_VERSION}", lambda m: [Engine(name="vllm", version=m[1])]),
    says("Resolved architecture: ", r"Resolved architecture: (\w{3,100})", lambda m: [VLLM, model_of(m[1])]),
    says("Using max model len ", rf"Using max model len {_N}", _capacity("context_len")),
    says(
        "max_num_batched_tokens=",
        rf"is enabled with max_num_batched_tokens={_N}",
        _capacity("max_num_batched_tokens"),
    ),
    says("Loading weights took ", rf"Loading weights took {_N} seconds", _phase("load_weight")),
    says("Loading model weights took ", rf"Loading model weights took {_N} Gi?B", _capacity("weights_gb")),
    says("Model loading took ", rf"Model loading took {_N} GiB(?: memory)? and {_N} seconds", _model_loaded),
    says("Memory profiling takes ", rf"Memory profiling takes {_N} seconds", _phase("memory_profiling")),
    says("torch.compile takes ", rf"torch\.compile takes {_N} s in total", _phase("compile")),
    says("torch.compile took ", rf"torch\.compile took {_N} s in total", _phase("compile")),
    says(
        "Dynamo bytecode transform time: ",
        rf"Dynamo bytecode transform time: {_N} s",
        _phase("dynamo_transform"),
    ),
    says(
        "Compiling a graph for ",
        rf"Compiling a graph for [^\n]{{1,80}} takes {_N} s",
        _phase("compile_graph"),
    ),
    says(
        "Directly load the compiled graph",
        rf"Directly load the compiled graph.{{1,80}} took {_N} s",
        _phase("load_compiled"),
    ),
    says(
        "Graph capturing finished in ",
        rf"Graph capturing finished in {_N} secs?(?:, took {_N} GiB)?",
        _graphs,
    ),
    says(
        "init engine (profile, create kv cache, warmup model) took ",
        rf"warmup model\) took {_N} s(?:econds)?(?: \(compilation: {_N} s)?",
        _init_engine,
    ),
    says("Available KV cache memory: ", rf"Available KV cache memory: {_N} GiB", _capacity("kv_size_gb")),
    says("KV cache size: ", rf"KV cache size: {_N} tokens", _capacity("kv_tokens")),
    says(
        "Maximum concurrency for ",
        rf"Maximum concurrency for {_N} tokens per request: {_N}x",
        _capacity("max_request_tokens", "max_concurrency"),
    ),
    says(
        " blocks: ",
        rf"# (?:GPU|cuda|CUDA) blocks: {_N}(?:, # CPU blocks: {_N})?",
        _capacity("kv_blocks", "cpu_kv_blocks"),
    ),
    says(
        "model weights take ",
        rf"model weights take {_N}GiB; .{{1,300}} reserved for KV Cache is {_N}GiB",
        _capacity("weights_gb", "kv_size_gb"),
    ),
    says("Starting vLLM ", r"Starting vLLM (?:API )?server (?:\d{1,4} )?on http", lambda _: [VLLM]),
    says("Application startup complete.", r"Application startup complete\.", _ready),
    says("/vllm/entrypoints/", r"/vllm/entrypoints/\w", lambda _: [VLLM]),
    says("/vllm/v1/", r"/vllm/v1/(?:engine|executor|worker)/", lambda _: [VLLM]),
    says("vLLM is using nccl==", r"vLLM is using nccl==", lambda _: [VLLM]),
    says("EngineDeadError", r"EngineDeadError: ", lambda _: [VLLM, Exited(how="exception")]),
    says(
        "EngineCore failed to start.",
        r"EngineCore failed to start\.",
        lambda _: [VLLM, Exited(how="exception")],
    ),
    says(
        "EngineCore encountered a fatal error.",
        r"EngineCore encountered a fatal error\.",
        lambda _: [VLLM, Exited(how="exception")],
    ),
    says(
        "[shutdown] EngineCore: trigger received signal=",
        r"signal=SIG([A-Z]{3,6})",
        lambda m: [Exited(how=f"sig{m[1].lower()}")],
    ),
    says(
        "died unexpectedly, shutting down executor.",
        r"Worker proc \S{1,80} died",
        lambda _: [Exited(how="worker_died")],
    ),
)

PARSERS: tuple[Parser, ...] = (
    Parser("vllm-args", ("non-default args: {", "args: Namespace("), parse_args),
    Parser("vllm-config", (" LLM engine (v",), parse_config),
    by_statement("vllm", _STATEMENTS),
)
