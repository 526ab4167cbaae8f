"""llama.cpp's server and library: build, devices, offloaded layers, buffers, context, readiness.

    build: 10791 (247c6beb) with cc (Ubuntu 13.3.0) 13.3.0 for x86_64-linux-gnu
      Device 0: NVIDIA GeForce RTX 4090, compute capability 8.9, VMM: yes, VRAM: 24081 MiB
    load_tensors: offloaded 20/33 layers to GPU
    load_tensors:   CPU_Mapped model buffer size =   264.13 MiB

Timings are series (`parsers.series`).
"""

import re
from collections.abc import Iterator

from diagnoser.facts.base import Fact
from diagnoser.facts.engine import Capacity, Engine, Exited, Model, Ready, ServerArg
from diagnoser.parsers.base import Parser
from diagnoser.parsers.fields import read_value
from diagnoser.parsers.gpu_name import gpu_name
from diagnoser.parsers.statement import by_statement, says

LLAMACPP = Engine(name="llama.cpp")

_CONTEXT_ARGS = (
    "n_ctx",
    "n_ctx_seq",
    "n_ctx_per_seq",
    "n_batch",
    "n_ubatch",
    "n_seq_max",
    "flash_attn",
    "kv_unified",
)


def _build(match: re.Match[str]) -> Iterator[Fact]:
    """Build 0 is one outside a git checkout: its number says nothing."""
    yield Engine(name="llama.cpp", version=match[1] if match[1] != "0" else None)


def _device(match: re.Match[str]) -> Iterator[Fact]:
    yield gpu_name(match[1].strip(), capability=match[2])


def _offloaded(match: re.Match[str]) -> Iterator[Fact]:
    on_gpu, all_layers = int(match[1]), int(match[2])
    yield LLAMACPP
    yield Capacity(name="layers_on_gpu", value=on_gpu)
    yield Capacity(name="layers", value=all_layers)
    yield Capacity(name="layers_on_cpu", value=all_layers - on_gpu)


def _buffer(match: re.Match[str]) -> Iterator[Fact]:
    """Named after device and use ("cuda0_kv_buffer_gb", "cpu_model_buffer_gb"), in GiB."""
    device, use, mib = match.groups()
    device = device.lower().removesuffix("_mapped")
    yield Capacity(name=f"{device}_{use.lower()}_buffer_gb", value=round(float(mib) / 1024, 4))


def _context(match: re.Match[str]) -> Iterator[Fact]:
    name, text = match.groups()
    if name in _CONTEXT_ARGS:
        yield ServerArg(name=name, value=read_value(text))


def _slots(match: re.Match[str]) -> Iterator[Fact]:
    yield LLAMACPP
    yield Capacity(name="max_running_requests", value=int(match[1]))
    yield Capacity(name="context_len", value=int(match[2]))


def _kv_cache(match: re.Match[str]) -> Iterator[Fact]:
    size, cells, key_type, value_type = match.groups()
    yield Capacity(name="kv_size_gb", value=round(float(size) / 1024, 4))
    yield Capacity(name="kv_tokens", value=int(cells))
    yield ServerArg(name="cache_type_k", value=key_type)
    yield ServerArg(name="cache_type_v", value=value_type)


def _file_type(match: re.Match[str]) -> Iterator[Fact]:
    yield Model(quantization=match[1].strip())


_STATEMENTS = (
    says("build: ", r"(?:^|\s)build: (\d{1,8}) \([0-9a-f]{4,40}\)", _build),
    says("build: ", r"(?:^|\s)build: [0-9a-f]{7,12} \((\d{3,6})\)", _build),
    says("common_params_print_info: build ", r"print_info: build (\d{1,8}) \(", _build),
    says("compute capability ", r"Device \d{1,3}: (.{1,100}?), compute capability (\d{1,2}\.\d)", _device),
    says("layers to GPU", r"offloaded (\d{1,5})/(\d{1,5}) layers to GPU", _offloaded),
    says(
        " buffer size = ",
        r"\s(\w{1,24}) {1,4}(model|KV|compute|output|RS) buffer size = {1,8}(\d{1,9}\.\d{1,4}) MiB",
        _buffer,
    ),
    says("llama_context: ", r"llama_context: (\w{1,24}) {1,24}= (\S{1,40})", _context),
    says("n_slots = ", r"n_slots = (\d{1,6}), n_ctx_slot = (\d{1,9})", _slots),
    says(
        "graph splits = ",
        r"graph splits = (\d{1,6})",
        lambda m: [Capacity(name="graph_splits", value=int(m[1]))],
    ),
    says(
        "llama_kv_cache: size = ",
        r"size = {1,8}(\d{1,9}\.\d{1,4}) MiB \( {0,12}(\d{1,9}) cells,.{1,80}?"
        r"K \((\w{1,12})\): {1,8}[\d.]{1,12} MiB, V \((\w{1,12})\)",
        _kv_cache,
    ),
    says(
        "print_info: file type ", r"print_info: file type {1,8}= (.{1,60}?)(?: \(guessed\))?\s*$", _file_type
    ),
    says(
        "n_ctx_train",
        r"n_ctx_train {1,24}= (\d{1,9})\b",
        lambda m: [Capacity(name="trained_context_len", value=int(m[1]))],
    ),
    says("llama_server: model loaded", r"model loaded", lambda _: [LLAMACPP]),
    says(
        "listening on http://",
        r"(?:llama_server|main): (?:server is )?listening on http",
        lambda _: [LLAMACPP, Ready()],
    ),
    says(
        "exiting due to ",
        r"exiting due to (?:model loading|HTTP server) error",
        lambda _: [LLAMACPP, Exited(how="exception")],
    ),
    says("ggml_cuda_init: ", r"ggml_cuda_init: ", lambda _: [LLAMACPP]),
)

PARSERS: tuple[Parser, ...] = (by_statement("llamacpp", _STATEMENTS),)
