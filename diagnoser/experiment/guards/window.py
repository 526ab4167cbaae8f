"""What the server's log says while a run is measured."""

import re
from collections.abc import Iterator

from diagnoser.experiment.load.guards import Finding, Level

_VOID = (
    ("jit", "a kernel was compiled", re.compile(
        r"JIT compilation during inference|DeepGEMM JIT (?:Pre-Comp|Single Kernel)|Try DeepGEMM JIT Compiling"
        r"|DeepGEMM JIT code generation|flashinfer\.jit: |[Aa]utotuning process starts")),
    ("graph-capture", "a CUDA graph was captured", re.compile(r"Capture cuda graph begin|Capturing CUDA graphs")),
    ("log-error", "the server had an error", re.compile(
        r"Traceback \(most recent call last\)|OutOfMemoryError|CUDA out of memory|NCCL WARN|NCCL error|CUDA error:")),
)  # fmt: skip
"""Messages of vLLM (utils/jit_monitor.py), SGLang (deep_gemm_wrapper/compile_utils.py, model_runner.py), FlashInfer
(jit/core.py, autotuner.py), PyTorch and NCCL."""

_RETRACT = re.compile(r"KV cache pool is full\. Retract requests|Retract requests\. #retracted_reqs")
_RUNNING = re.compile(r"#running-req: (\d+)|Running: (\d+) reqs")
"""SGLang's decode and vLLM's statistics lines."""


def judged(text: str, streams: int | None) -> Iterator[Finding]:
    """What a piece of log says about the run during which it was written. streams: how many of ours were open."""
    lines = text.splitlines()
    for guard, what, pattern in _VOID:
        hits = [line for line in lines if pattern.search(line)]
        if hits:
            yield Finding(guard, "void", f"{what} during the run: {hits[0].strip()[:160]}")
    retracted = sum(bool(_RETRACT.search(line)) for line in lines)
    if retracted:
        level: Level = "warn" if retracted == 1 else "void"
        text = f"the server ran out of KV cache and took {retracted} times requests back"
        yield Finding("retract", level, text)
    if streams is not None:
        most = max(
            (int(found[1] or found[2]) for line in lines for found in _RUNNING.finditer(line)), default=0
        )
        if most > streams:
            text = f"the server worked on {most} requests at a time, of which {streams} were ours"
            yield Finding("foreign-traffic", "void", text)
