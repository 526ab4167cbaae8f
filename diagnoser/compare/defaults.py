"""What an engine does when nobody says otherwise, by release: so that "not set" on one side can be held against a
value on the other, and an upgrade that moves a default is a difference.

Read from the sources of SGLang 0.4.6.post5 to 0.5.23 (server_args.py) and vLLM 0.8.5 to 0.33.0 (envs.py,
config/, engine/arg_utils.py). Where a default moved between two releases that were read, the releases between them
belong to neither range, and nothing is assumed of them.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from diagnoser.compare.subjects import Area, Stated, Subject, Value
from diagnoser.facts.factbase import Sighting
from diagnoser.inference import versions
from diagnoser.inference.truth import Truth


class Default(NamedTuple):
    """One default. ranges: (versions, value). archs, attention: the GPUs and model classes that it is the default
    for; None: for all. moves: what changes with it."""

    engine: str
    area: Area
    kind: str
    name: str
    ranges: tuple[tuple[str, Value], ...]
    moves: str
    archs: frozenset[str] | None = None
    attention: str | None = None

    @property
    def subject(self) -> Subject:
        field = "name" if self.kind == "attention_backend" else ""
        return Subject(self.area, self.kind, self.name, field)

    def __str__(self) -> str:
        return "attention backend" if self.kind == "attention_backend" else self.name

    def at(self, version: str) -> Value:
        """The value in a release; None where it was not read."""
        for spec, value in self.ranges:
            if versions.within(version, spec) is Truth.YES:
                return value
        return None


def _flag(engine: str, name: str, moves: str, *ranges: tuple[str, Value]) -> Default:
    return Default(engine, "flags", "server_arg", name, ranges, moves)


def _env(engine: str, name: str, moves: str, *ranges: tuple[str, Value]) -> Default:
    return Default(engine, "environment", "env", name, ranges, moves)


def _attention(
    engine: str, moves: str, archs: str, attention: str | None, *ranges: tuple[str, Value]
) -> Default:
    return Default(
        engine, "backends", "attention_backend", "all", ranges, moves, frozenset(archs.split()), attention
    )


DEFAULTS: tuple[Default, ...] = (
    _flag("vllm", "gpu_memory_utilization", "KV blocks; the memory of CUDA graphs is counted from 0.20.2 on",
          ("<=0.18.1", 0.9), (">=0.20.2", 0.92)),
    _flag("vllm", "compilation_config.cudagraph_mode", "decode speed of small batches",
          (">=0.10.2,<0.11", "piecewise"), (">=0.11", "full_and_piecewise")),
    _flag("vllm", "async_scheduling", "the gap between two steps", ("<=0.11.0", False), (">=0.14", True)),
    _flag("vllm", "engine_generation", "the engine", ("<0.8", "V0"), (">=0.11", "V1")),
    _flag("vllm", "enforce_eager", "decode speed", (">=0.8", False)),
    _flag("vllm", "enable_prefix_caching", "time to the first token", (">=0.11", True)),
    _flag("vllm", "kv_cache_dtype", "KV tokens", (">=0.8", "auto")),
    _flag("vllm", "disable_custom_all_reduce", "latency of small all-reduces", (">=0.8", False)),
    _flag("vllm", "tensor_parallel_size", "everything", (">=0.8", 1)),
    _flag("vllm", "pipeline_parallel_size", "everything", (">=0.8", 1)),
    _env("vllm", "VLLM_USE_FLASHINFER_SAMPLER", "sampling", ("<=0.20", "0"), (">=0.22", "1")),
    _env("vllm", "VLLM_USE_DEEP_GEMM", "FP8 matrix products", ("<=0.8.5", "0"), (">=0.11", "1")),
    _env("vllm", "VLLM_ALLREDUCE_USE_FLASHINFER", "all-reduce", (">=0.18,<=0.26", "0"), (">=0.33", "1")),
    _env("vllm", "VLLM_ALLREDUCE_USE_SYMM_MEM", "all-reduce on NVSwitch", (">=0.11", "1")),
    _env("sglang", "SGLANG_ENABLE_SPEC_V2", "overlap of speculative steps; always on from 0.5.15",
         (">=0.5.7,<=0.5.10", "False"), (">=0.5.11,<0.5.13", "True")),
    _attention("sglang", "attention kernels", "sm90", None, (">=0.4.6.post5,<=0.5.23", "fa3")),
    _attention("sglang", "attention kernels", "sm100 sm103", "mha",
               (">=0.4.9,<=0.5.5", "flashinfer"), (">=0.5.7,<=0.5.23", "trtllm_mha")),
    _attention("sglang", "attention kernels", "sm120 sm121", "mha", (">=0.5.9,<=0.5.23", "flashinfer")),
    _attention("sglang", "attention kernels", "sm120 sm121", "mla", (">=0.4.6.post5,<=0.5.23", "triton")),
    _attention("vllm", "attention kernels", "sm80 sm86 sm89 sm90 sm120 sm121", "mha", (">=0.8.5,<=0.33", "flash_attn")),
    _attention("vllm", "attention kernels", "sm100 sm103", "mha", (">=0.8.5,<=0.33", "flashinfer")),
)  # fmt: skip


Statements = Mapping[Subject, Stated]
Releases = Mapping[str, str | None]
"""Engine name -> its release, None where it is not known."""


def filled(
    before: Statements, after: Statements, was: Releases, now: Releases
) -> tuple[Statements, Statements]:
    """Both sides with the defaults of their releases: for what one side leaves open and the other tells, and for what
    both leave open where the default moved. was, now: the engines of the sides.

    Attention kernels are never assumed: what was chosen depends on more than the release, and a log tells it.
    """
    one, other = dict(before), dict(after)
    for default in DEFAULTS:
        subject = default.subject
        if default.kind == "attention_backend" or (subject in before and subject in after):
            continue
        old, new = _default(default, was), _default(default, now)
        if subject in after:
            new = after[subject]
        elif subject in before:
            old = before[subject]
        elif old is None or new is None or old.value == new.value:
            continue
        if old is not None and new is not None:
            one[subject], other[subject] = old, new
    return one, other


def _default(default: Default, engines: Releases) -> Stated | None:
    version = engines.get(default.engine)
    value = default.at(version) if version is not None else None
    if value is None:
        return None
    words = f"default of {default.engine} {version}"
    return Stated(value, Sighting("", 0, 0, words), words)


def moved(
    before: Releases,
    after: Releases,
    archs: frozenset[str] = frozenset(),
    attention: str | None = None,
) -> Iterator[tuple[Default, Value, Value]]:
    """The defaults that differ between two releases of one engine: (default, value before, value after).

    archs, attention: of the GPUs and the model, where they are known; a default for others is left out.
    """
    for default in DEFAULTS:
        one, other = before.get(default.engine), after.get(default.engine)
        if one is None or other is None:
            continue
        if default.archs is not None and archs and not archs & default.archs:
            continue
        if default.attention is not None and attention not in (None, default.attention):
            continue
        old, new = default.at(one), default.at(other)
        if old is not None and new is not None and old != new:
            yield default, old, new
