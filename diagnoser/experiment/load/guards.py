"""What makes a measurement worth less than it looks, or nothing: the client, the schedule, the answers.

The limits are those of the benchmarking method: "clean" below the first number, a warning up to the second, void above.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from diagnoser.experiment.load.answer import Answer
from diagnoser.experiment.load.measure import chunk_gaps_ms, figures, percentile

Level = Literal["note", "warn", "void"]

CPU_WARN, CPU_VOID = 0.60, 0.80
"""Shares of one core: a client near its limit measures itself (vllm#39963: a tenth of the true rate)."""
LAG_WARN_MS, LAG_VOID_MS = 2.0, 5.0
"""99th percentile of the event loop's delay, and of sending after the scheduled time in an open loop."""
CACHED_VOID = 0.01
"""Share of prompt tokens from a prefix cache (vllm#52884: +86 % from cache hits; vLLM's own bench warns at 1 %)."""
LENGTH_OFF = 0.02
"""An answer further than this from the asked length was not the asked work."""
MULTI_TOKEN = 1.3
"""Chunk gap over decode time per token from which a chunk holds several tokens (sglang#12064)."""
LAG_PERIOD_S = 0.01


@dataclass(frozen=True)
class Finding:
    """``guard`` spoke; the text is one sentence."""

    guard: str
    level: Level
    text: str


@dataclass
class Watch:
    """Watches this process while a run lasts; use as an async context manager."""

    cpu_share: float = 0.0  # of one core, all threads
    lag_p99_ms: float = 0.0
    _lags_ms: list[float] = field(default_factory=list)

    async def __aenter__(self) -> "Watch":
        self._began = (time.perf_counter(), time.process_time())
        self._task = asyncio.create_task(self._measure())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        wall_s = time.perf_counter() - self._began[0]
        self.cpu_share = (time.process_time() - self._began[1]) / wall_s if wall_s > 0 else 0.0
        if self._lags_ms:
            self.lag_p99_ms = percentile(self._lags_ms, 99)

    async def _measure(self) -> None:
        while True:
            due = time.perf_counter() + LAG_PERIOD_S
            await asyncio.sleep(LAG_PERIOD_S)
            self._lags_ms.append((time.perf_counter() - due) * 1e3)


def client_bound(watch: Watch) -> list[Finding]:
    """Whether this process was the bottleneck."""
    out = []
    if level := _level(watch.cpu_share, CPU_WARN, CPU_VOID):
        out.append(Finding("client-cpu", level, f"the client used {watch.cpu_share:.0%} of a core"))
    if level := _level(watch.lag_p99_ms, LAG_WARN_MS, LAG_VOID_MS):
        text = f"the client's event loop ran up to {watch.lag_p99_ms:.1f} ms late (99th percentile)"
        out.append(Finding("client-lag", level, text))
    return out


def answers_guard(answers: Sequence[Answer], tokens: int, prompt_tokens: int | None = None) -> list[Finding]:
    """What the answers of one run show; ``tokens`` were asked for in each, and prompts of ``prompt_tokens``."""
    good = [answer for answer in answers if answer.ok]
    out = _failed(answers)
    if good:
        out += [*_late(good), *_collapsed(good), *_cached(good), *_lengths(good, tokens), *_chunks(good)]
        out += _prompts(good, prompt_tokens)
    return out


def off_length(answers: Sequence[Answer], tokens: int) -> bool:
    """Whether an answer's length is off by more than `LENGTH_OFF`: such a run leaves the headline."""
    counts = [answer.output_tokens for answer in answers if answer.ok and answer.output_tokens is not None]
    return any(abs(count - tokens) > LENGTH_OFF * tokens for count in counts)


def _level(value: float, warn: float, void: float) -> Level | None:
    return "void" if value > void else "warn" if value > warn else None


def _failed(answers: Sequence[Answer]) -> list[Finding]:
    errors = [answer.error for answer in answers if answer.error]
    if not errors:
        return []
    return [
        Finding("failed", "void", f"{len(errors)} of {len(answers)} requests failed; the first: {errors[0]}")
    ]


def _late(answers: Sequence[Answer]) -> list[Finding]:
    late_ms = [found.late_ms for found in map(figures, answers) if found.late_ms is not None]
    worst = percentile(late_ms, 99) if late_ms else 0.0
    level = _level(worst, LAG_WARN_MS, LAG_VOID_MS)
    text = f"requests left up to {worst:.1f} ms after their time (99th percentile)"
    return [Finding("late-sends", level, text)] if level else []


def _collapsed(answers: Sequence[Answer]) -> list[Finding]:
    count = sum(figures(answer).collapsed for answer in answers)
    text = (
        f"{count} of {len(answers)} answers came all at once at their end: no time to first token and no decode time"
        " can be told from them, the total time holds"
    )
    return [Finding("collapsed", "warn", text)] if count else []


def _cached(answers: Sequence[Answer]) -> list[Finding]:
    known = [a for a in answers if a.cached_tokens is not None and a.prompt_tokens]
    if not known:
        return [
            Finding("cache-unknown", "note", "the server does not tell how much came from its prefix cache")
        ]
    share = sum(a.cached_tokens or 0 for a in known) / sum(a.prompt_tokens or 0 for a in known)
    text = f"{share:.1%} of the prompt tokens came from the prefix cache"
    return [Finding("cache", "void", text)] if share > CACHED_VOID else []


def _lengths(answers: Sequence[Answer], tokens: int) -> list[Finding]:
    counts = [answer.output_tokens for answer in answers]
    if None in counts:
        return [Finding("no-counts", "warn", "the server counts no output tokens: no rates can be told")]
    off = [count for count in counts if count != tokens]
    if not off:
        return []
    text = f"{len(off)} of {len(counts)} answers are not {tokens} tokens long (the first: {off[0]})"
    return [Finding("length", "warn", text)]


def _prompts(answers: Sequence[Answer], wanted: int | None) -> list[Finding]:
    counts = [answer.prompt_tokens for answer in answers if answer.prompt_tokens is not None]
    if wanted is None or not counts:
        return []
    mean = sum(counts) / len(counts)
    text = f"the prompts are {mean:.0f} tokens long on average, not {wanted}"
    return (
        [Finding("prompt-length", "note", text)] if abs(mean - wanted) > max(1, LENGTH_OFF * wanted) else []
    )


def _chunks(answers: Sequence[Answer]) -> list[Finding]:
    gaps = chunk_gaps_ms(answers)
    decode = [found.decode_ms_per_token for found in map(figures, answers) if found.decode_ms_per_token]
    if not gaps or not decode:
        return []
    ratio = (sum(gaps) / len(gaps)) / (sum(decode) / len(decode))
    text = f"a chunk holds {ratio:.1f} tokens on average: the gap between chunks is no time per token"
    return [Finding("multi-token-chunks", "note", text)] if ratio > MULTI_TOKEN else []
