"""llama.cpp, Ollama, TGI, TensorRT-LLM and what shells say of dead servers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from diagnoser.facts.base import Fact, Found
from diagnoser.facts.engine import Capacity, Engine, EnvVar, Exited, Model, Ready, ServerArg, StartPhase
from diagnoser.facts.packages import GpuName
from diagnoser.parsers import llamacpp, other_engines

Read = Callable[[Sequence[Any], str], list[Found]]
PARSERS = (*llamacpp.PARSERS, *other_engines.PARSERS)


@pytest.fixture
def facts(read: Read) -> Callable[..., list[Fact]]:
    def of(*lines: str) -> list[Fact]:
        return [found.fact for found in read(PARSERS, "\n".join(lines))]

    return of


Of = Callable[..., list[Fact]]


def test_llamacpp_with_layers_left_on_the_cpu(facts: Of) -> None:
    found = facts(
        "ggml_cuda_init: found 1 CUDA devices:",
        "  Device 0: NVIDIA GeForce RTX 4090, compute capability 8.9, VMM: yes",
        "build: 10791 (247c6beb) with cc (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0 for x86_64-linux-gnu",
        "print_info: file type   = Q4_K - Medium",
        "load_tensors: offloaded 20/33 layers to GPU",
        "load_tensors:   CPU_Mapped model buffer size =   512.00 MiB",
        "load_tensors:        CUDA0 model buffer size = 14336.00 MiB",
        "llama_context: n_ctx         = 65536",
        "llama_context: flash_attn    = enabled",
        "llama_kv_cache: size = 2048.00 MiB ( 65536 cells,  48 layers,  4/1 seqs), "
        "K (q8_0): 1024.00 MiB, V (f16): 1024.00 MiB",
        "main: server is listening on http://127.0.0.1:8080 - starting the main loop",
    )
    assert Engine(name="llama.cpp", version="10791") in found
    assert GpuName(name="NVIDIA GeForce RTX 4090", compute_capability="8.9", arch="sm89") in found
    sizes = {fact.name: fact.value for fact in found if isinstance(fact, Capacity)}
    assert (sizes["layers"], sizes["layers_on_gpu"], sizes["layers_on_cpu"]) == (33, 20, 13)
    assert sizes["cpu_model_buffer_gb"] == 0.5
    assert sizes["cuda0_model_buffer_gb"] == 14.0
    assert sizes["kv_size_gb"] == 2.0
    assert ServerArg(name="cache_type_k", value="q8_0") in found
    assert ServerArg(name="flash_attn", value="enabled") in found
    assert ServerArg(name="n_ctx", value=65536) in found
    assert Model(quantization="Q4_K - Medium") in found
    assert Ready() in found


def test_real_llama_servers(read: Read, fixtures: Path) -> None:
    folder = fixtures / "captures/cpu_servers"

    def facts_of(name: str) -> list[Fact]:
        return [found.fact for found in read(PARSERS, (folder / name).read_text(encoding="utf-8"))]

    assert Ready() in facts_of("llama_server.log")
    assert Capacity(name="context_len", value=2048) in facts_of("llama_server.log")
    assert ServerArg(name="flash_attn", value="disabled") in facts_of("llama_fa_off.log")
    assert ServerArg(name="flash_attn", value="enabled") in facts_of("llama_fa_on.log")
    for name in ("llama_err_model_not_found.log", "llama_err_port_in_use.log"):
        assert Exited(how="exception") in facts_of(name)
        assert Ready() not in facts_of(name)


def test_ollama(facts: Of) -> None:
    found = facts(
        'time=2026-01-03T14:34:00.677Z level=INFO source=routes.go:1304 msg="server config" '
        'env="map[CUDA_VISIBLE_DEVICES: OLLAMA_CONTEXT_LENGTH:4096 OLLAMA_HOST:http://0.0.0.0:11434]"',
        'time=2026-01-03T14:34:02.396Z level=INFO source=routes.go:1357 msg="Listening on [::]:11434 (version 0.3.3)"',
        'time=2026-01-03T14:34:05.924Z level=INFO source=types.go:105 msg="inference compute" id=GPU-1 library=cuda '
        'compute=8.6 driver=12.3 name="NVIDIA GeForce RTX 3080" total="9.8 GiB" available="9.2 GiB"',
        'time=2026-01-03T14:34:06.650Z level=INFO source=server.go:637 msg="llama runner started in 4.27 seconds"',
    )
    assert Engine(name="ollama", version="0.3.3") in found
    assert EnvVar(name="OLLAMA_CONTEXT_LENGTH", value="4096") in found
    assert EnvVar(name="OLLAMA_HOST", value="http://0.0.0.0:11434") in found
    assert not [fact for fact in found if isinstance(fact, EnvVar) and fact.name == "CUDA_VISIBLE_DEVICES"]
    assert GpuName(name="NVIDIA GeForce RTX 3080", compute_capability="8.6", arch="sm86") in found
    assert StartPhase(name="load_model", duration_s=4.27) in found


def test_ollama_on_the_cpu(facts: Of) -> None:
    found = facts(
        'time=2026-08-06T20:24:06.618Z level=INFO source=types.go:131 msg="inference compute" id=cpu library=cpu '
        'compute="" name=cpu total="125.6 GiB" available="119.2 GiB"'
    )
    assert ServerArg(name="inference_library", value="cpu") in found
    assert not [fact for fact in found if isinstance(fact, GpuName)]


def test_tgi(facts: Of) -> None:
    stamp = "2025-03-01T10:00:00.123456Z  INFO text_generation_launcher: "
    found = facts(
        stamp + "Args {",
        '    model_id: "meta-llama/Llama-3.1-8B",',
        "    num_shard: Some(4),",
        "    quantize: None,",
        "}",
        stamp + "Using attention flashinfer - Prefix caching true",
        stamp + "Shard ready in 42.3s rank=0",
        stamp + "KV-cache blocks: 1000, size: 1",
        "2025-03-01T10:00:50.1Z  INFO text_generation_router::server: router/src/server.rs:2302: Connected",
    )
    assert Engine(name="tgi") in found
    assert ServerArg(name="num_shard", value=4) in found
    assert ServerArg(name="attention", value="flashinfer") in found
    assert ServerArg(name="prefix_caching", value=True) in found
    assert StartPhase(name="load_model", duration_s=42.3) in found
    assert Capacity(name="kv_tokens", value=1000) in found
    assert Ready() in found


def test_tensorrt_llm(facts: Of) -> None:
    stamp = "[05/03/2026-08:26:18] [TRT-LLM] [I] "
    found = facts(
        "[TensorRT-LLM] TensorRT LLM version: 1.2.0rc2",
        stamp + "Using LLM with PyTorch backend",
        stamp + "Memory used after loading model weights (inside torch) in memory usage profiling: 63.52 GiB",
        stamp + "Memory used outside torch (e.g., NCCL and CUDA graphs) in memory usage profiling: 12.07 GiB",
        stamp + "Estimated max memory in KV cache : 36.53 GiB",
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 78.30 GiB for max tokens in paged KV cache (3731744).",
    )
    assert Engine(name="tensorrt-llm", version="1.2.0rc2") in found
    assert ServerArg(name="backend", value="pytorch") in found
    assert Capacity(name="weights_gb", value=63.52) in found
    assert Capacity(name="outside_torch_gb", value=12.07) in found
    assert Capacity(name="kv_size_gb", value=36.53) in found
    assert Capacity(name="kv_tokens", value=3_731_744) in found


@pytest.mark.parametrize(
    ("line", "how"),
    [
        ("Killed", "sigkill"),
        ("./run.sh: line 12: 12345 Killed                  python3 -m sglang.launch_server", "sigkill"),
        ("Segmentation fault (core dumped)", "sigsegv"),
        ("Fatal Python error: Segmentation fault", "sigsegv"),
        ("Aborted (core dumped)", "sigabrt"),
        ("systemd[1]: vllm.service: Main process exited, code=killed, status=9/KILL", "sigkill"),
    ],
)
def test_shells(facts: Of, line: str, how: str) -> None:
    assert Exited(how=how) in facts(line)


@pytest.mark.parametrize(
    "line", ["Killed the request", "Out of memory: Killed process 7 (python)", "Killed workers: 0"]
)
def test_the_word_alone_is_no_death(facts: Of, line: str) -> None:
    assert not [fact for fact in facts(line) if isinstance(fact, Exited)]
