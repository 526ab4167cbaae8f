"""SGLang's own statements: arguments, start-up, sizes, readiness, death (releases 0.4.6 to 0.5.23).

    [2026-02-27 15:31:05] server_args=ServerArgs(model_path='/shared/kimi-k2.5-int4', ...)
    [2026-02-27 15:36:56 TP0] Load weight end. elapsed=333.58 s, type=KimiK25ForConditionalGeneration, ...
    [2026-02-27 15:37:27 TP0] max_total_num_tokens=159744, chunked_prefill_size=8192, ...

Durations that are printed are read here; those of older releases, which print a begin and an end only, are read
from the time between them by `parsers.series`. What SGLang calls GB are GiB.
"""

import re
from collections.abc import Iterable, Iterator

from diagnoser.facts.base import Fact, Found
from diagnoser.facts.engine import Capacity, Engine, Exited, Ready, ServerArg, StartPhase
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.fields import flatten, split_fields
from diagnoser.parsers.model_class import is_draft, model_at, model_of
from diagnoser.parsers.statement import Facts, by_statement, says

SGLANG = Engine(name="sglang")

KEPT_ARGS = frozenset(
    {
        "attention_backend",
        "chunked_prefill_size",
        "cuda_graph_max_bs",
        "decode_attention_backend",
        "disable_cuda_graph",
        "disable_custom_all_reduce",
        "disable_overlap_schedule",
        "disable_radix_cache",
        "enable_dp_attention",
        "enable_flashinfer_allreduce_fusion",
        "enable_hierarchical_cache",
        "enable_mixed_chunk",
        "enable_multimodal",
        "enable_symm_mem",
        "enable_torch_compile",
        "enable_torch_symm_mem",
        "flashinfer_allreduce_fusion_backend",
        "kv_cache_dtype",
        "max_running_requests",
        "mem_fraction_static",
        "mm_attention_backend",
        "moe_a2a_backend",
        "moe_runner_backend",
        "prefill_attention_backend",
        "quantization",
        "speculative_algorithm",
        "speculative_draft_attention_backend",
        "triton_attention_reduce_in_fp32",
    }
)
"""Arguments that are told even where they are None or False; of the others only what is set (not 0 either)."""

_UNSET = (None, False, "", "[]", "{}")
_SECRET = lazy(r"(?:^|_)(?:api_key|admin_api_key|password|ssl_keyfile_password|hf_token|watermark\w*)(?:$|_)")
_ARGS = lazy(r"server_args=(?:ServerArgs\(|\{)")


def parse_server_args(lines: Lines, i: int) -> Iterator[Found]:
    """The resolved arguments (asked=None) and the model's path, also of a line that is cut."""
    line = lines[i]
    opening = _ARGS.search(line)
    if opening is None:
        return
    yield Found(SGLANG, i, i)
    quantization = dtype = path = None
    for name, value in flatten(split_fields(line, opening.end())):
        if _SECRET.search(name) or (value in _UNSET and name not in KEPT_ARGS):
            continue
        yield Found(ServerArg(name=name, value=value), i, i)
        if name == "model_path" and isinstance(value, str):
            path = value
        elif name == "quantization" and isinstance(value, str):
            quantization = value
        elif name == "dtype" and isinstance(value, str) and value != "auto":
            dtype = value
    if path is not None:
        yield Found(model_at(path, dtype, quantization), i, i)


_FIELD = lazy(r"(\w{1,40})=([\w.+\-]{1,60})")


def _phase(name: str) -> Facts:
    """A phase with its printed duration in the first group."""

    def facts(match: re.Match[str]) -> Iterable[Fact]:
        return [StartPhase(name=name, duration_s=float(match[1]))]

    return facts


def _load_end(match: re.Match[str]) -> Iterator[Fact]:
    fields = dict(_FIELD.findall(match[1]))
    architecture = fields.get("type", "")
    draft = is_draft(architecture)
    yield SGLANG
    if architecture:
        dtype = fields.get("dtype", "").removeprefix("torch.") or None
        yield model_of(architecture, dtype, fields.get("quant") or fields.get("quant_method"))
    if "elapsed" in fields:
        yield from _seconds("load_draft_weight" if draft else "load_weight", fields["elapsed"])
    used = _USED.search(match[1])
    if used is not None:
        yield Capacity(name="draft_weights_gb" if draft else "weights_gb", value=float(used[1]))
    free = _FREE.search(match[1])
    if free is not None:
        yield Capacity(name="free_after_weights_gb", value=float(free[1]))


_USED = lazy(r"mem usage=(-?\d{1,5}\.\d{1,4}) GB")
_FREE = lazy(r"avail mem=(\d{1,5}\.\d{1,4}) GB")


def _seconds(name: str, text: str) -> Iterator[Fact]:
    try:
        yield StartPhase(name=name, duration_s=float(text))
    except ValueError:
        return


def _kv_cache(match: re.Match[str]) -> Iterator[Fact]:
    tokens, sizes = match.groups()
    yield Capacity(name="kv_tokens", value=float(tokens))
    parts = [float(size) for size in _GB.findall(sizes)]
    if parts:
        yield Capacity(name="kv_size_gb", value=round(sum(parts), 2))


_GB = lazy(r"size: (\d{1,6}\.\d{1,4}) GB")


def _sizes(match: re.Match[str]) -> Iterator[Fact]:
    yield SGLANG
    for name, value in _FIELD.findall(match[0]):
        capacity = _SIZE_NAMES.get(name)
        if capacity is not None and _is_number(value):
            yield Capacity(name=capacity, value=float(value))


_SIZE_NAMES = {
    "max_total_num_tokens": "kv_tokens",
    "chunked_prefill_size": "chunked_prefill_size",
    "max_prefill_tokens": "max_prefill_tokens",
    "max_running_requests": "max_running_requests",
    "context_len": "context_len",
    "available_gpu_mem": "free_gb",
}


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).removeprefix("-").isdigit() and text.isascii()


def _graph_end(match: re.Match[str]) -> Iterator[Fact]:
    """The target's decode graphs are "cuda_graph", whatever the release calls them."""
    words = f"{match[1] or ''} {match[2]}".lower().split()
    name = "_".join(word for word in words if word not in ("target", "decode"))
    yield SGLANG
    yield from _seconds(name, match[3])
    used = _USED.search(match.string, match.end())
    if used is not None:
        yield Capacity(name=f"{name}_gb", value=float(used[1]))


def _graph_sizes(match: re.Match[str]) -> Iterator[Fact]:
    sizes = [int(size) for size in re.findall(r"\d{1,7}", match[2])]
    if sizes:
        yield Capacity(name=f"cuda_graph_max_{match[1]}", value=max(sizes))
        yield Capacity(name=f"cuda_graph_{match[1]}_sizes", value=len(sizes))


def _timings(match: re.Match[str]) -> Iterator[Fact]:
    """0.5.17 on: all phases in one line; those that took no time are left out."""
    yield SGLANG
    graphs = _GRAPH_TIMES.search(match[1])
    outer = match[1].replace(graphs[0], "") if graphs else match[1]
    named = [(name, text) for name, text in _TIME.findall(outer)]
    for kind, text in _TIME.findall(graphs[1]) if graphs else ():
        named.append(("_".join([*kind.replace("decode", "").strip("_").split(), "cuda_graph"]), text))
    for name, text in named:
        if float(text) > 0:
            yield StartPhase(name=name, duration_s=float(text))


_GRAPH_TIMES = lazy(r"cuda_graph=\{([^{}]{0,400})\}")
_TIME = lazy(r"(\w{1,40})=(\d{1,7}\.\d{1,4})")
_SIGNALS = {
    "-9": "sigkill",
    "-11": "sigsegv",
    "-6": "sigabrt",
    "-7": "sigbus",
    "-15": "sigterm",
    "137": "sigkill",
}

_STATEMENTS = (
    says("Load weight end.", r"Load weight end\. (.{1,400})", _load_end),
    says(
        "Init torch distributed ends.",
        r"Init torch distributed ends\. elapsed=(\d{1,7}\.\d{1,4}) s",
        _phase("init_distributed"),
    ),
    says(
        "KV Cache is allocated.", r"KV Cache is allocated\. .{0,60}?#tokens: (\d{1,12})(.{0,120})", _kv_cache
    ),
    says("max_total_num_tokens=", r"max_total_num_tokens=\d{1,12}, .{1,300}", _sizes),
    says(
        "graph end.",
        r"Capture (?:([a-z_][a-z_ ]{0,40}?) )?((?:cuda|CUDA|cpu|npu) graph) end\. "
        r"(?:Time elapsed: |elapsed=)(\d{1,7}\.\d{1,4}) s",
        _graph_end,
    ),
    says("Capture cuda graph bs [", r"Capture cuda graph (bs) \[([\d, ]{1,4000})", _graph_sizes),
    says(
        "graph begin. backend=",
        r"decode (?:CUDA|cuda) graph begin\. .{0,80}?(bs)=\[([\d, ]{1,4000})",
        _graph_sizes,
    ),
    says("Engine startup timings (s): ", r"Engine startup timings \(s\): (.{1,600})", _timings),
    says("The server is fired up and ready to roll!", r"The server is fired up", lambda _: [SGLANG, Ready()]),
    says(
        "Received sigquit from a child process",
        r"Received sigquit",
        lambda _: [SGLANG, Exited(how="sigquit")],
    ),
    says("SIGTERM received", r"SIGTERM received\.", lambda _: [SGLANG, Exited(how="sigterm")]),
    says(
        "hit an exception: Traceback", r"\w hit an exception: Traceback", lambda _: [Exited(how="exception")]
    ),
    says(
        "atchdog timeout (self.watchdog_timeout=",
        r"atchdog timeout \(self\.watchdog_timeout=[\d.]{1,12}(?:, self\.soft=(True|False))?",
        lambda match: [] if match[1] == "True" else [SGLANG, Exited(how="hang_watchdog")],
    ),
    says(
        "xit code: ",
        r"[Ee]xit code: (-?\d{1,3})\b",
        lambda match: [Exited(how=_SIGNALS[match[1]])] if match[1] in _SIGNALS else [],
    ),
    says("sglang is using nccl==", r"sglang is using nccl==", lambda _: [SGLANG]),
    says("/sglang/launch_server.py", r"/sglang/launch_server\.py", lambda _: [SGLANG]),
    says("/sglang/srt/", r"/sglang/srt/\w", lambda _: [SGLANG]),
    says("[sgl_kernel] CRITICAL", r"\[sgl_kernel\] CRITICAL", lambda _: [SGLANG]),
    says("Using KV cache dtype: ", r"Using KV cache dtype: ", lambda _: [SGLANG]),
)

PARSERS: tuple[Parser, ...] = (
    Parser("sglang-args", ("server_args=ServerArgs(", "server_args={'"), parse_server_args),
    by_statement("sglang", _STATEMENTS),
)
