"""Command lines and environment variables, and the prose that looks like them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnoser.facts.base import Fact
from diagnoser.facts.engine import Engine, EnvVar, Model, ServerArg
from diagnoser.parsers.command import COMMAND
from diagnoser.parsers.environment import ENVIRONMENT, assignment


def read(*lines: str) -> list[Fact]:
    return [found.fact for parser in (COMMAND, ENVIRONMENT) for found in parser.parse(lines, 0)]


def args(*lines: str) -> dict[str, object]:
    return {fact.name: fact.value for fact in read(*lines) if isinstance(fact, ServerArg) and fact.asked}


def variables(*lines: str) -> dict[str, object]:
    return {fact.name: fact.value for fact in read(*lines) if isinstance(fact, EnvVar)}


def test_a_command_at_a_prompt() -> None:
    line = (
        "$ CUDA_VISIBLE_DEVICES=0,1 python -m sglang.launch_server --model-path /m/kimi-k2.5-int4 --tp 8"
        " --attention-backend triton --disable-cuda-graph --mem-fraction-static=0.87 > log 2>&1 &"
    )
    facts = read(line)
    assert Engine(name="sglang") in facts
    assert args(line) == {
        "model_path": "/m/kimi-k2.5-int4",
        "tp_size": 8,
        "attention_backend": "triton",
        "disable_cuda_graph": True,
        "mem_fraction_static": 0.87,
    }
    assert Model(path="/m/kimi-k2.5-int4", attention="mla", moe=True) in facts
    assert variables(line) == {"CUDA_VISIBLE_DEVICES": "0,1"}


def test_continuation_lines() -> None:
    assert args("sglang serve \\", "  --model-path a/b \\", "  --context-length 65536") == {
        "model_path": "a/b",
        "context_length": 65536,
    }


def test_vllm_positional_model_negated_and_short_flags() -> None:
    line = "root@gpu:~# vllm serve Qwen/Qwen3-8B -tp 4 --no-enable-prefix-caching --enforce-eager -O3"
    assert args(line) == {
        "model": "Qwen/Qwen3-8B",
        "tensor_parallel_size": 4,
        "enable_prefix_caching": False,
        "enforce_eager": True,
        "optimization_level": 3,
    }


def test_json_values_are_taken_apart() -> None:
    line = """vllm serve m/x --speculative-config '{"method": "mtp", "num_speculative_tokens": 2}'"""
    assert args(line)["speculative_config.method"] == "mtp"
    assert args(line)["speculative_config.num_speculative_tokens"] == 2


def test_secrets_are_not_told() -> None:
    assert args("vllm serve m/x --api-key sk-abc --hf-token hf_x --max-num-batched-tokens 8192") == {
        "model": "m/x",
        "max_num_batched_tokens": 8192,
    }


def test_docker_run_gives_the_version_of_its_image() -> None:
    line = "docker run --gpus all --ipc=host -e NCCL_DEBUG=INFO -p 8000:8000 vllm/vllm-openai:v0.11.0 --model a/b"
    assert Engine(name="vllm", version="0.11.0") in read(line)
    assert args(line) == {"model": "a/b"}
    assert variables(line) == {"NCCL_DEBUG": "INFO"}


@pytest.mark.parametrize(
    ("line", "engine"),
    [
        ("root 12 99.0 2.1 123 678 ? Sl 10:00 1:23 python3 -m sglang.launch_server --model x/y", "sglang"),
        ('    command: ["python3", "-m", "sglang.launch_server", "--model-path", "x/y"]', "sglang"),
        ("./build/bin/llama-server -m /models/x.gguf -ngl 99", "llama.cpp"),
        ("trtllm-serve meta/llama --backend pytorch", "tensorrt-llm"),
        ("text-generation-launcher --model-id a/b --num-shard 4", "tgi"),
    ],
)
def test_other_places_and_engines(line: str, engine: str) -> None:
    assert any(isinstance(fact, Engine) and fact.name == engine for fact in read(line))
    assert args(line)


def test_short_flags_of_llama_server() -> None:
    line = "llama-server -m x.gguf -ngl 20 -c 8192 -fa off -ctk q8_0"
    assert args(line) == {
        "model": "x.gguf",
        "n_gpu_layers": 20,
        "ctx_size": 8192,
        "flash_attn": "off",
        "cache_type_k": "q8_0",
    }


def test_a_command_that_an_engine_built_is_not_asked_for() -> None:
    line = 'time=2026-01-03T14:34:05.318Z level=INFO msg="starting" cmd="/lib/ollama runner --model /b --ctx-size 4096"'
    assert ServerArg(name="ctx_size", value=4096, asked=None) in read(line)


@pytest.mark.parametrize(
    "line",
    [
        "/srv/sglang/launch_server.py:56: UserWarning: 'python -m sglang.launch_server' is still supported, but ...",
        "  Example: sglang serve --model-path <model> [options]",
        "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.",
        "With `vllm serve`, you should provide the model as a positional argument instead of via the `--model` option.",
        "usage: vllm serve [model_tag] [options]",
        "see https://docs.vllm.ai/en/latest/cli/vllm serve --help",
    ],
)
def test_prose_is_no_command(line: str) -> None:
    assert not any(isinstance(fact, Engine) for fact in read(line))


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["export NCCL_P2P_DISABLE=1 FOO='a b'"], {"NCCL_P2P_DISABLE": "1", "FOO": "a b"}),
        (["UCX_TLS=cuda_ipc,cuda_copy,tcp"], {"UCX_TLS": "cuda_ipc,cuda_copy,tcp"}),
        (["unset LD_LIBRARY_PATH"], {"LD_LIBRARY_PATH": None}),
        (["- name: NCCL_DEBUG", '  value: "INFO"'], {"NCCL_DEBUG": "INFO"}),
        (['os.environ["CUDA_HOME"] = "/usr/local/cuda-13.0"'], {"CUDA_HOME": "/usr/local/cuda-13.0"}),
        (['Environment="VLLM_USE_V1=0"'], {"VLLM_USE_V1": "0"}),
        (["      VLLM_ATTENTION_BACKEND: FLASHINFER"], {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}),
        (["export HF_TOKEN=hf_abc OPENAI_API_KEY=sk-x"], {}),
        (["run with NCCL_DEBUG=INFO for details"], {}),
        (["unhandled error (run with NCCL_DEBUG=INFO for details), NCCL version 2.20.5"], {}),
    ],
)
def test_variables(lines: list[str], wanted: dict[str, object]) -> None:
    assert variables(*lines) == wanted


def test_assignment() -> None:
    assert assignment("A_B=c") == ("A_B", "c")
    assert assignment("--flag=x") is None
    assert assignment("MY_SECRET=x") is None


@given(
    st.lists(st.text(max_size=60), min_size=1, max_size=4),
    st.sampled_from([*COMMAND.literals, *ENVIRONMENT.literals]),
    st.sampled_from(["", "$ ", "A=1 ", "docker run -e X=1 "]),
)
def test_never_raises(noise: list[str], literal: str, front: str) -> None:
    lines = [front + literal + noise[0], *noise[1:]]
    for found in (*COMMAND.parse(lines, 0), *ENVIRONMENT.parse(lines, 0)):
        assert 0 <= found.first <= found.last < len(lines)
