"""Ollama, TGI, TensorRT-LLM, Triton, Dynamo; and what is nobody's own: shells' death notes and command lines."""

import re
from collections.abc import Iterator

from diagnoser.facts.base import Fact, Found
from diagnoser.facts.engine import Capacity, Engine, EnvVar, Exited, Ready, ServerArg, StartPhase
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.command import COMMAND
from diagnoser.parsers.environment import ENVIRONMENT
from diagnoser.parsers.fields import read_value
from diagnoser.parsers.gpu_name import gpu_name
from diagnoser.parsers.model_class import model_at
from diagnoser.parsers.statement import Facts, by_statement, says

OLLAMA, TGI = Engine(name="ollama"), Engine(name="tgi")
TRTLLM, TRITON, DYNAMO = Engine(name="tensorrt-llm"), Engine(name="triton"), Engine(name="dynamo")

_GB = r"(\d{1,6}(?:\.\d{1,4})?)"


def _capacity(name: str, *engine: Engine) -> Facts:
    return lambda match: [*engine, Capacity(name=name, value=float(match[1]))]


def _phase(name: str, *engine: Engine) -> Facts:
    return lambda match: [*engine, StartPhase(name=name, duration_s=float(match[1]))]


# Ollama ------------------------------------------------------------------------------------------------------

_MAP_ENTRY = lazy(r"([A-Z][A-Z0-9_]{2,60}):(.*?)(?= [A-Z][A-Z0-9_]{2,60}:|\])")
_LAYERS = lazy(r"layers\.(model|offload)=(\d{1,6})")


def _ollama_config(match: re.Match[str]) -> Iterator[Fact]:
    """The variables of Ollama's own that have a value; those without are unset."""
    yield OLLAMA
    for name, value in _MAP_ENTRY.findall(match[1] + "]"):
        if value and len(value) <= 300:
            yield EnvVar(name=name, value=value)


def _ollama_compute(match: re.Match[str]) -> Iterator[Fact]:
    library, name = match.groups()
    yield OLLAMA
    yield ServerArg(name="inference_library", value=library)
    if library != "cpu" and name:
        capability = (
            re.search(r" compute=(\d{1,2}\.\d)\b", match.string) if library.startswith("cuda") else None
        )
        yield gpu_name(name, capability=capability[1] if capability else None)


def _ollama_offload(match: re.Match[str]) -> Iterator[Fact]:
    layers = {name: int(count) for name, count in _LAYERS.findall(match[0])}
    yield OLLAMA
    if len(layers) == 2:
        yield Capacity(name="layers", value=layers["model"])
        yield Capacity(name="layers_on_gpu", value=layers["offload"])
        yield Capacity(name="layers_on_cpu", value=layers["model"] - layers["offload"])


_OLLAMA = (
    says('msg="server config"', r"env=\"?map\[([^\]]{1,4000})", _ollama_config),
    says(
        'msg="Listening on ',
        r"Listening on \S{1,60} \(version v?([\w.+\-]{1,60})\)",
        lambda match: [Engine(name="ollama", version=match[1]), Ready()],
    ),
    says(
        'msg="inference compute"',
        r"library=(\w{1,20})(?: .{0,400}? name=\"?([^\"]{1,80}?)\"?(?: [a-z_]{1,20}=|$))?",
        _ollama_compute,
    ),
    says("layers.offload=", r"layers\..{1,600}", _ollama_offload),
    says(
        "llama runner started in ",
        r"runner started in (\d{1,6}(?:\.\d{1,4})?) seconds",
        _phase("load_model", OLLAMA),
    ),
)

# Text Generation Inference -----------------------------------------------------------------------------------

_TGI_FIELD = lazy(r"^ {4,8}(\w{1,60}): (.{1,300}?),?\s*$")
_SOME = lazy(r"Some\((.{1,280})\)\Z")


def parse_tgi_args(lines: Lines, i: int) -> Iterator[Found]:
    """The launcher's ``Args {`` with one ``name: value,`` a line (asked=None: defaults are shown too)."""
    if not lines[i].rstrip().endswith("Args {"):
        return
    last = i
    for last in range(i + 1, min(len(lines), i + 200)):
        match = _TGI_FIELD.match(lines[last][:400])
        if match is None:
            break
        name, text = match.groups()
        some = _SOME.match(text)
        value = read_value(some[1] if some else text)
        if value in (None, False) or ("token" in name and isinstance(value, str)):
            continue
        yield Found(ServerArg(name=name, value=value), last, last)
        if name == "model_id" and isinstance(value, str):
            yield Found(model_at(value), last, last)
    yield Found(TGI, i, last)


def _tgi_attention(match: re.Match[str]) -> Iterator[Fact]:
    yield TGI
    yield ServerArg(name="attention", value=match[1])
    yield ServerArg(name="prefix_caching", value=match[2].lower() == "true")


def _tgi_blocks(match: re.Match[str]) -> Iterator[Fact]:
    yield TGI
    yield Capacity(name="kv_blocks", value=int(match[1]))
    yield Capacity(name="kv_tokens", value=int(match[1]) * int(match[2]))


_TGI = (
    says("text_generation_launcher: ", r"text_generation_launcher: ", lambda _: [TGI]),
    says(
        "Using attention ",
        r"Using attention (\w{1,30}) - Prefix caching (true|false|True|False)",
        _tgi_attention,
    ),
    says("KV-cache blocks: ", r"KV-cache blocks: (\d{1,9}), size: (\d{1,5})", _tgi_blocks),
    says(
        "Setting max batch total tokens to ",
        r"total tokens to (\d{1,10})",
        _capacity("max_batch_total_tokens", TGI),
    ),
    says("Shard ready in ", r"Shard ready in (\d{1,6}(?:\.\d{1,6})?)s", _phase("load_model", TGI)),
    says(": Connected", r"text_generation_router\S{0,80}: .{0,80}: Connected$", lambda _: [TGI, Ready()]),
    says(
        "Shard process was signaled to shutdown with signal 9",
        r"signal 9\b",
        lambda _: [TGI, Exited(how="sigkill")],
    ),
    says("Webserver Crashed", r"Webserver Crashed", lambda _: [TGI, Exited(how="exception")]),
)

# TensorRT-LLM, Triton, Dynamo --------------------------------------------------------------------------------


def _paged_kv(match: re.Match[str]) -> Iterator[Fact]:
    yield TRTLLM
    yield Capacity(name="kv_size_gb", value=float(match[1]))
    yield Capacity(name="kv_tokens", value=int(match[2]))


def _peak_memory(match: re.Match[str]) -> Iterator[Fact]:
    yield TRTLLM
    for name, value in zip(
        ("peak_memory_gb", "kv_size_gb", "free_gpu_memory_fraction"), match.groups(), strict=True
    ):
        yield Capacity(name=name, value=float(value.rstrip(".")))


_NVIDIA = (
    says(
        "[TensorRT-LLM] TensorRT",
        r"TensorRT[ -]LLM version: v?([\w.+\-]{1,60})",
        lambda match: [Engine(name="tensorrt-llm", version=match[1])],
    ),
    says(
        "Using LLM with ",
        r"Using LLM with (\w{1,20}) backend",
        lambda match: [TRTLLM, ServerArg(name="backend", value=match[1].lower())],
    ),
    says(
        "Memory used after loading model weights (inside torch)",
        rf"\(inside torch\) in memory usage profiling: {_GB} GiB",
        _capacity("weights_gb", TRTLLM),
    ),
    says(
        "Memory used after loading model weights (outside torch)",
        rf"\(outside torch\) in memory usage profiling: {_GB} GiB",
        _capacity("outside_torch_after_weights_gb", TRTLLM),
    ),
    says(
        "Memory used outside torch",
        rf"in memory usage profiling: {_GB} GiB",
        _capacity("outside_torch_gb", TRTLLM),
    ),
    says(
        "Peak memory during memory usage profiling",
        rf"\): {_GB} GiB, available KV cache memory when calculating max tokens: {_GB} GiB, "
        r"fraction is set (\d(?:\.\d{1,6})?)",
        _peak_memory,
    ),
    says("Estimated max memory in KV cache", rf"in KV cache ?: {_GB} GiB", _capacity("kv_size_gb", TRTLLM)),
    says(
        "for max tokens in paged KV cache",
        rf"Allocated {_GB} GiB for max tokens in paged KV cache \((\d{{1,12}})\)",
        _paged_kv,
    ),
    says(
        "CUDA graph warmup for batch size=",
        r"[Gg]eneration[ -]only CUDA graph warmup for batch size=(\d{1,6})",
        _capacity("cuda_graph_bs", TRTLLM),
    ),
    says(
        "Loaded engine size: ",
        r"Loaded engine size: (\d{1,8}) MiB",
        lambda m: [TRTLLM, Capacity(name="weights_gb", value=int(m[1]) / 1024)],
    ),
    says("Started HTTPService at ", r"Started HTTPService at \S", lambda _: [TRITON, Ready()]),
    says(
        "creating server: Internal - failed to load all models",
        r"creating server: Internal",
        lambda _: [TRITON, Exited(how="exception")],
    ),
    says(
        "Initiating Dynamo Runtime shutdown.",
        r"Initiating Dynamo",
        lambda _: [DYNAMO, Exited(how="exception")],
    ),
    says(" dynamo_", r"^\d{4}-\S{10,24}Z {1,3}[A-Z]{4,5} dynamo_\w", lambda _: [DYNAMO]),
)

# Shells and init systems -------------------------------------------------------------------------------------

_SHELL = (
    says(
        "Killed",
        r"^(?:\S{1,200}: line \d{1,6}: {1,8}\d{1,9} {1,8}|\[\d{1,4}\][+\-]? {1,8}(?:\d{1,9} {1,8})?)?"
        r"Killed(?: {2,}\S.{0,400}|\s*)$",
        lambda _: [Exited(how="sigkill")],
    ),
    says(
        "Segmentation fault",
        r"Segmentation fault(?: \(core dumped\)|\s*$|: \d)|Fatal Python error: Segmentation fault",
        lambda _: [Exited(how="sigsegv")],
    ),
    says("Aborted (core dumped)", r"Aborted \(core dumped\)", lambda _: [Exited(how="sigabrt")]),
    says("Exited (137)", r"Exited \(137\)", lambda _: [Exited(how="sigkill")]),
    says("status=9/KILL", r"code=killed, status=9/KILL", lambda _: [Exited(how="sigkill")]),
    says("OOMKilled", r"Reason:\s{1,12}OOMKilled|\"OOMKilled\": ?true", lambda _: [Exited(how="sigkill")]),
)

PARSERS: tuple[Parser, ...] = (
    COMMAND,
    ENVIRONMENT,
    by_statement("ollama", _OLLAMA),
    by_statement("tgi", _TGI),
    Parser("tgi-args", ("Args {",), parse_tgi_args),
    by_statement("nvidia-servers", _NVIDIA),
    by_statement("shell", _SHELL),
)
