"""What a benchmark file tells, in one vocabulary (see `importers`), whatever tool wrote it."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from diagnoser.experiment.results import Benchmark

OFF_LENGTH = 0.02
"""By how much of the usual length an answer may be off and still count."""

Metrics = Mapping[str, float]


class Measured(NamedTuple):
    """One launch of a server as a file tells it. runs: the canonical metrics of each run.

    tool: who wrote the file. identity, workload: what it says of the server and of the load. flags: what is wrong.
    """

    file: str
    tool: str
    runs: tuple[Metrics, ...]
    identity: Mapping[str, Any]
    workload: Mapping[str, Any]
    flags: tuple[str, ...] = ()


def metrics(**values: float | None) -> Metrics:
    """Without what is absent: None, NaN, and a time of zero, which tools print for "not measured"."""
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and math.isfinite(value) and value > 0
    }


def ms(seconds: float | None) -> float | None:
    """Milliseconds of seconds."""
    return None if seconds is None else 1000 * seconds


def short(lengths: Sequence[int]) -> tuple[str, ...]:
    """A sentence for each run whose output tokens are off the median."""
    usual = statistics.median(lengths)
    return tuple(
        f"run {number} has {length} of {usual:.0f} tokens and is left out"
        for number, length in enumerate(lengths, 1)
        if abs(length - usual) > OFF_LENGTH * usual
    )


def once(flags: Sequence[str]) -> tuple[str, ...]:
    """Each sentence once, in order."""
    return tuple(dict.fromkeys(flags))


def measured_of(name: str, said: "Benchmark") -> Measured:
    """The first launch of a result of our own."""
    runs = []
    for launch in said.launches[:1]:
        for run in launch.runs:
            if run.complete and not run.off_length and not run.failed:
                spreads = (
                    "ttft_ms",
                    "decode_ms_per_token",
                    "e2e_ms",
                    "e2e_ms_per_token",
                    "chunk_gap_ms",
                    "output_tok_s_request",
                )
                means = {key: spread.mean for key in spreads if (spread := getattr(run, key)) is not None}
                runs.append(
                    metrics(**means, output_tok_s_wall=run.output_tok_s_wall, accept_len=run.accept_len)
                )
    identity = said.identity
    server = {
        "engine": identity.engine,
        "version": identity.version,
        "model": identity.model,
        **identity.flags,
    }
    if identity.gpus:
        server["gpu"] = f"{len(identity.gpus)} x {identity.gpus[0].name}"
        server["driver"] = identity.gpus[0].driver
    load = {
        "api": said.workload.api,
        "concurrency": said.workload.concurrency,
        "rate_per_s": said.workload.rate_per_s,
        "prompt_tokens": said.workload.prompt_tokens,
        "output_tokens": said.workload.output_tokens,
    }
    flags = tuple(f"{one.guard}: {one.text}" for one in said.findings if one.level == "void")
    return Measured(name, "diagnoser", tuple(runs), server, load, flags)


def load_of(one: Mapping[str, Any]) -> dict[str, Any]:
    """Mean lengths and the concurrency, as vLLM and SGLang write them."""
    done = one.get("completed") or 0
    rate = one.get("request_rate")
    return {
        "concurrency": one.get("max_concurrency"),
        "rate_per_s": rate if isinstance(rate, int | float) and math.isfinite(rate) else None,
        "prompt_tokens": one["total_input_tokens"] / done if done else None,
        "output_tokens": one["total_output_tokens"] / done if done else None,
    }


def failed(failed: float | None, done: float | None) -> list[str]:
    """A sentence where requests failed."""
    return [f"{failed:.0f} of {failed + (done or 0):.0f} requests failed"] if failed else []


def chunks(gap: float | None, decode: float | None) -> list[str]:
    """The gap between chunks is no time per token where a chunk holds several."""
    if gap and decode and gap / decode > 1.3:
        return [f"a chunk holds about {gap / decode:.1f} tokens: its inter-token latency is that of chunks"]
    return []
