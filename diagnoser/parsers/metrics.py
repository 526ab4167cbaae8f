"""The text of /metrics (Prometheus exposition format) of vLLM, SGLang and llama.cpp: what a server says of itself now.

    vllm:num_requests_waiting{engine="0",model_name="m"} 12.0     -> SeriesStat("queue_reqs", 12)
    vllm:num_preemptions_total{engine="0",model_name="m"} 340.0   -> SeriesStat("preemptions_total", 340)
    vllm:cache_config_info{gpu_memory_utilization="0.92",...} 1.0 -> ServerArg("gpu_memory_utilization", 0.92), ...

A gauge is one sample; a counter counts from the start of the server. Names: vLLM 0.6 to 0.33 (v1/metrics/loggers.py),
SGLang 0.5.17 (captured), llama.cpp b5000 and later (tools/server).
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from diagnoser.facts.base import Found
from diagnoser.facts.engine import Capacity, Engine, SeriesStat, ServerArg
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.fields import read_value

_SAMPLE = lazy(
    r"(?P<engine>vllm|sglang|llamacpp):(?P<name>[a-z0-9_]{1,80})(?:\{(?P<labels>[^\n]{0,4000})\})? "
    r"(?P<value>[-+]?[0-9.]{1,30}(?:[eE][-+]?\d{1,3})?|NaN|[+-]Inf)(?: \d{1,20})?\s{0,4}\Z"
)
_LABEL = lazy(r'([a-zA-Z_][a-zA-Z0-9_]{0,80})="((?:[^"\\]|\\.){0,500})"')
_EXPOSITION = re.compile(r"# (?:HELP|TYPE) |[a-zA-Z_:][a-zA-Z0-9_:]{0,120}(?:\{| [-+0-9NI])")
MAX_LINES = 50_000

ENGINES = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llama.cpp"}

KNOWN_TOKENS = 10_000
"""A share of cached prompt tokens says little of fewer tokens."""


class Sample(NamedTuple):
    """A value with its labels and its line."""

    value: float
    labels: dict[str, str]
    line: int


Samples = dict[str, list[Sample]]

_GAUGES: dict[str, tuple[tuple[str, ...], Callable[[list[float]], float]]] = {
    "running_reqs": (("num_requests_running", "num_running_reqs", "requests_processing"), sum),
    "queue_reqs": (("num_requests_waiting", "num_queue_reqs", "requests_deferred"), sum),
    "kv_usage": (("kv_cache_usage_perc", "gpu_cache_usage_perc", "token_usage", "kv_cache_usage_ratio"), max),
    "accept_len": (("spec_accept_length",), min),
    "preemptions_total": (("num_preemptions_total",), sum),
}
"""Metric -> its names, and how the values of several engines become one."""


def _extent(lines: Lines, i: int) -> range:
    first = last = i
    while first > 0 and i - first < MAX_LINES and _EXPOSITION.match(lines[first - 1]):
        first -= 1
    while last + 1 < len(lines) and last - i < MAX_LINES and _EXPOSITION.match(lines[last + 1]):
        last += 1
    return range(first, last + 1)


def _parse(lines: Lines, _i: int) -> Iterator[Found]:
    samples: Samples = {}
    engine: tuple[str, int] | None = None
    for number, line in enumerate(lines):
        found = _SAMPLE.match(line)
        if found is None:
            continue
        value = float(found["value"])
        if not math.isfinite(value):
            continue
        engine = engine or (ENGINES[found["engine"]], number)
        labels = dict(_LABEL.findall(found["labels"] or ""))
        if labels.get("tp_rank", "0") == "0" and labels.get("pp_rank", "0") == "0":
            samples.setdefault(found["name"], []).append(Sample(value, labels, number))
    if engine is None:
        return
    name, line_of = engine
    yield Found(Engine.model_validate({"name": name}), line_of, line_of)
    yield from _gauges(samples)
    yield from _cached(samples)
    yield from _accepted(samples)
    yield from _configuration(samples)


def _gauges(samples: Samples) -> Iterator[Found]:
    for metric, (names, joined) in _GAUGES.items():
        told = next((samples[name] for name in names if name in samples), None)
        if told is None or (metric == "accept_len" and not any(one.value for one in told)):
            continue
        yield _stat(metric, joined([one.value for one in told]), told[0].line)
    for name in ("max_total_num_tokens",):
        for one in samples.get(name, ())[:1]:
            yield Found(Capacity(name="kv_tokens", value=one.value), one.line, one.line)


def _cached(samples: Samples) -> Iterator[Found]:
    """The share of prompt tokens that came from the prefix cache since the start."""
    asked, hit = samples.get("prefix_cache_queries_total"), samples.get("prefix_cache_hits_total")
    if asked and hit:
        tokens = sum(one.value for one in asked)
        if tokens >= KNOWN_TOKENS:
            yield _stat("cache_hit", sum(one.value for one in hit) / tokens, hit[0].line)


def _accepted(samples: Samples) -> Iterator[Found]:
    """vLLM: tokens a step, the one that needs no draft among them."""
    drafts, accepted = (
        samples.get("spec_decode_num_drafts_total"),
        samples.get("spec_decode_num_accepted_tokens_total"),
    )
    if drafts and accepted and (count := sum(one.value for one in drafts)):
        yield _stat("accept_len", 1 + sum(one.value for one in accepted) / count, accepted[0].line)


def _configuration(samples: Samples) -> Iterator[Found]:
    for one in samples.get("cache_config_info", ())[:1]:
        for name in ("enable_prefix_caching", "gpu_memory_utilization", "block_size"):
            if name in one.labels:
                yield Found(ServerArg(name=name, value=read_value(one.labels[name])), one.line, one.line)
        if "cache_dtype" in one.labels:
            yield Found(ServerArg(name="kv_cache_dtype", value=one.labels["cache_dtype"]), one.line, one.line)
        tokens = one.labels.get("kv_cache_size_tokens", "")
        if tokens.isdigit():
            yield Found(Capacity(name="kv_tokens", value=float(tokens)), one.line, one.line)


def _stat(metric: str, value: float, line: int) -> Found:
    value = round(value, 4)
    stat = SeriesStat(
        metric=metric,
        count=1,
        min=value,
        p05=value,
        median=value,
        p95=value,
        max=value,
        first=value,
        last=value,
    )
    return Found(stat, line, line)


PARSERS = (
    Parser(
        "metrics",
        ("vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing"),
        _parse,
        _extent,
        "metrics",
    ),
)
