"""vLLM's statements in composed samples of eight releases and real captures of 0.32."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from diagnoser.facts.base import Fact, Found
from diagnoser.facts.engine import Capacity, Engine, Exited, Model, Ready, ServerArg, StartPhase
from diagnoser.parsers.vllm import PARSERS

Read = Callable[[Sequence[Any], str], list[Found]]
Of = Callable[[str], list[Fact]]


@pytest.fixture
def facts(read: Read, fixtures: Path) -> Of:
    def of(name: str) -> list[Fact]:
        return [found.fact for found in read(PARSERS, (fixtures / name).read_text(encoding="utf-8"))]

    return of


def capacities(facts: list[Fact]) -> dict[str, float]:
    return {fact.name: fact.value for fact in facts if isinstance(fact, Capacity)}


def phases(facts: list[Fact]) -> dict[str, float]:
    return {fact.name: fact.duration_s for fact in facts if isinstance(fact, StartPhase)}


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("01_healthy_start_v0.11.0_h100_tp2.log", "0.11.0"),
        ("02_fp8_marlin_fallback_v0.10.2_a100.log", "0.10.2"),
        ("03_default_moe_config_v0.22.1_8x_rtx_pro_6000.log", "0.22.1"),
        ("04_preemption_storm_v0.7.3.log", "0.7.3"),
        ("06_enforce_eager_left_on_v0.22.1.log", "0.22.1"),
        ("09_removed_env_var_and_new_prefix_v0.33.0.log", "0.33.0"),
    ],
)
def test_version(facts: Of, name: str, version: str) -> None:
    found = facts(f"vllm/{name}")
    assert {fact.version for fact in found if isinstance(fact, Engine) and fact.version} == {version}
    assert Ready() in found


def test_a_server_that_dies_at_import_is_still_vllm(facts: Of) -> None:
    assert Engine(name="vllm") in facts("vllm/07_abi_mismatch_v0.16.0.log")


def test_healthy_start(facts: Of) -> None:
    found = facts("vllm/01_healthy_start_v0.11.0_h100_tp2.log")
    took = phases(found)
    assert took["load_weight"] == 19.83
    assert took["load_model"] == pytest.approx(24.913227)
    assert took["compile"] == 12.32
    assert took["load_compiled"] == 3.412
    assert took["cuda_graph"] == 10
    assert took["init_engine"] == 31.87
    sizes = capacities(found)
    assert sizes["weights_gb"] == 65.741
    assert sizes["kv_size_gb"] == 4.87
    assert sizes["kv_tokens"] == 31_904
    assert sizes["max_concurrency"] == 1.95
    assert sizes["max_request_tokens"] == 16_384
    assert sizes["cuda_graph_gb"] == 1.21
    assert sizes["max_num_batched_tokens"] == 8192


def test_who_asked(facts: Of) -> None:
    found = facts("vllm/06_enforce_eager_left_on_v0.22.1.log")
    assert ServerArg(name="enforce_eager", value=True, asked=True) in found
    assert ServerArg(name="enforce_eager", value=True, asked=None) in found
    assert ServerArg(name="tensor_parallel_size", value=1, asked=None) in found
    assert ServerArg(name="compilation_config.cudagraph_mode", value="NONE", asked=None) in found


def test_v0_sizes_and_generation(facts: Of) -> None:
    found = facts("vllm/04_preemption_storm_v0.7.3.log")
    assert ServerArg(name="engine_generation", value="V0") in found
    sizes = capacities(found)
    assert sizes["kv_blocks"] == 3371
    assert sizes["cpu_kv_blocks"] == 1638
    assert sizes["kv_size_gb"] == 8.23
    assert sizes["max_concurrency"] == 1.65
    assert phases(found)["memory_profiling"] == 3.41


def test_compilation_inside_init_engine(facts: Of) -> None:
    assert phases(facts("vllm/09_removed_env_var_and_new_prefix_v0.33.0.log")) == {
        "load_weight": 18.42,
        "init_engine": 96.10,
        "compile": 41.20,
    }


def test_the_model(facts: Of) -> None:
    found = facts("vllm/03_default_moe_config_v0.22.1_8x_rtx_pro_6000.log")
    assert Model(architecture="Qwen3MoeForCausalLM", attention="mha", moe=True, multimodal=False) in found
    assert Model(path="Qwen/Qwen3-235B-A22B-FP8", dtype="bfloat16", quantization="fp8") in found


def test_a_raw_namespace_says_asked_only_where_that_is_certain(read: Read) -> None:
    line = (
        "INFO 02-05 20:24:50 api_server.py:405] args: Namespace(host=None, port=8000, model='m/awq', dtype='auto', "
        "max_model_len=8192, tensor_parallel_size=1, quantization='awq', enforce_eager=False)"
    )
    found = [one.fact for one in read(PARSERS, line)]
    assert ServerArg(name="quantization", value="awq", asked=True) in found
    assert ServerArg(name="port", value=8000, asked=None) in found
    assert not [fact for fact in found if isinstance(fact, ServerArg) and fact.name == "enforce_eager"]


def test_deaths(facts: Of) -> None:
    found = facts("vllm/08_shared_memory_stall_v0.11.0_tp2.log")
    assert Exited(how="exception") in found
    assert Exited(how="worker_died") in found


def test_real_server_with_a_banner(facts: Of) -> None:
    found = facts("captures/cpu_servers/vllm_preemption.log")
    assert Engine(name="vllm", version="0.32.0") in found
    assert ServerArg(name="num_gpu_blocks_override", value=24, asked=True) in found
    assert capacities(found)["kv_tokens"] == 3072
    assert capacities(found)["max_concurrency"] == 3.0
    assert phases(found)["init_engine"] == 0.06
    assert Ready() in found
    assert Exited(how="sigterm") in found


def test_real_cold_compile(facts: Of) -> None:
    found = facts("captures/cpu_servers/vllm_compile_cold.log")
    assert phases(found)["init_engine"] == 33.99
    assert ServerArg(name="compilation_config.mode", value="DYNAMO_TRACE_ONCE") in found


def test_sglangs_startup_complete_is_not_ready(read: Read) -> None:
    line = "[2026-02-27 15:37:28] INFO:     Application startup complete."
    assert Ready() not in [found.fact for found in read(PARSERS, line)]


@pytest.mark.parametrize(
    "line",
    [
        "GPU KV cache size: , tokens",
        "Loading weights took , seconds",
        "Model loading took 1,2 GiB and x seconds",
    ],
)
def test_numbers_that_are_none(read: Read, line: str) -> None:
    assert not [found for found in read(PARSERS, line) if isinstance(found.fact, Capacity | StartPhase)]
