"""The closed vocabularies that rules use."""

from typing import Literal, get_args

Kind = Literal["cause", "symptom", "bystander"]
Status = Literal["experimental", "stable", "deprecated", "withdrawn"]
Severity = Literal["info", "low", "medium", "high", "critical"]
Strength = Literal["strong", "medium", "weak"]
Risk = Literal["none", "low", "medium", "high"]
Mark = Literal["opens", "progress", "ready", "exit"]
Effect = Literal[
    "startup_failure",
    "crash",
    "hang",
    "decode_slower",
    "prefill_slower",
    "ttft_longer",
    "throughput_lower",
    "capacity_lower",
    "load_slower",
    "wrong_output",
    "misleading_measurement",
    "none",
]

EFFECTS: tuple[str, ...] = get_args(Effect)

ACTIONS = ("set_flag", "unset_flag", "set_env", "unset_env", "install", "run", "do")
"""What a fix may do, one at a time."""

ENGINES = (
    "sglang",
    "vllm",
    "tensorrt-llm",
    "llama.cpp",
    "ollama",
    "tgi",
    "dynamo",
    "triton",
    "lmdeploy",
)
"""Engines; in ``applies`` each may carry a version range or "*"."""

PACKAGES = (
    "torch",
    "triton-lang",
    "flashinfer-python",
    "flashinfer-cubin",
    "flashinfer-jit-cache",
    "sgl-kernel",
    "sglang-kernel",
    "deep-gemm",
    "sgl-deep-gemm",
    "flash-attn",
    "xformers",
    "transformers",
    "nvidia-cudnn-cu12",
    "nvidia-cudnn-cu13",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "nixl",
    "lmcache",
    "xgrammar",
    "outlines",
    "numpy",
    "vllm-flash-attn",
    "bitsandbytes",
    "compressed-tensors",
    "torchvision",
    "torchaudio",
    "ray",
    "ucx-py",
    "cuda-python",
    "tilelang",
    "quack-kernels",
    "nvidia-cuda-runtime-cu12",
    "nvidia-cuda-nvrtc-cu12",
    "nvidia-cuda-nvrtc",
    "nvidia-cutlass-dsl",
)
"""Python packages that ``applies`` may name. "triton-lang" is PyPI's triton; "triton" is the NVIDIA server."""

ARCHS = (
    "sm60",
    "sm61",
    "sm70",
    "sm75",
    "sm80",
    "sm86",
    "sm87",
    "sm89",
    "sm90",
    "sm100",
    "sm101",
    "sm103",
    "sm110",
    "sm120",
    "sm121",
)
