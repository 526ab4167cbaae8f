"""From answers to figures, under the names of the benchmark vocabulary.

With E end-to-end time, F time to first token, N output tokens as the server counts them (chunks are never counted as
tokens: speculative decoding puts several into one):

* ``ttft_ms`` = F; from the scheduled time in an open loop, else from the first byte sent.
* ``decode_ms_per_token`` = (E - F) / (N - tokens of the first chunk), these being 1 unless the server says otherwise;
  called TPOT by vLLM and SGLang, inter-token latency by guidellm and AIPerf.
* ``e2e_ms_per_token`` = E / N.
* ``output_tok_s_wall`` = sum of N / time from the first request sent to the last token of all;
  ``output_tok_s_request`` = N / E of one request.
* ``chunk_gap_ms``: time between two chunks of one stream; vLLM's ITL.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from diagnoser.experiment.load.answer import Answer

COLLAPSED_MS_PER_TOKEN = 0.5
"""A stream whose whole decode is shorter than the mean time of one token (E / N) was held back and came at once, as
vLLM does on a busy machine. Long prompts with short answers look the same from afar, so it must also be faster than any
stream measured for this tool (24M parameters under llama.cpp: 660 tokens a second, 1.5 ms) by a factor of three."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One request; None where the server or the stream does not tell."""

    ttft_ms: float | None = None
    e2e_ms: float | None = None
    decode_ms_per_token: float | None = None
    e2e_ms_per_token: float | None = None
    output_tok_s_request: float | None = None
    late_ms: float | None = None  # sent after its scheduled time
    collapsed: bool = False


def figures(answer: Answer) -> Figures:
    """The figures of one request; empty for a failed one."""
    if not answer.ok or answer.sent_s is None or answer.first_s is None or answer.last_s is None:
        return Figures()
    began_s = answer.sent_s if answer.scheduled_s is None else answer.scheduled_s
    late_ms = None if answer.scheduled_s is None else (answer.sent_s - answer.scheduled_s) * 1e3
    e2e_ms = (answer.last_s - began_s) * 1e3
    tokens = answer.output_tokens
    later = tokens - (answer.first_tokens or 1) if tokens else 0
    decode_ms = (answer.last_s - answer.first_s) * 1e3 / later if later > 0 else None
    collapsed = (
        decode_ms is not None
        and decode_ms < COLLAPSED_MS_PER_TOKEN
        and decode_ms * later < e2e_ms / (later + 1)
    )
    if tokens and tokens > 1 and len(answer.arrivals_s) == 1 and answer.first_tokens in (None, tokens):
        collapsed = True
    return Figures(
        ttft_ms=None if collapsed else (answer.first_s - began_s) * 1e3,
        e2e_ms=e2e_ms,
        decode_ms_per_token=None if collapsed else decode_ms,
        e2e_ms_per_token=e2e_ms / tokens if tokens else None,
        output_tok_s_request=tokens / e2e_ms * 1e3 if tokens else None,
        late_ms=late_ms,
        collapsed=collapsed,
    )


def chunk_gaps_ms(answers: Sequence[Answer]) -> list[float]:
    """The times between successive chunks of each stream, all together."""
    return [
        (later - earlier) * 1e3
        for answer in answers
        if answer.ok
        for earlier, later in pairwise(answer.arrivals_s)
    ]


def wall_s(answers: Sequence[Answer]) -> float | None:
    """From the first request sent (or due) to the last token of all."""
    whole = [
        answer for answer in answers if answer.ok and answer.sent_s is not None and answer.last_s is not None
    ]
    if not whole:
        return None
    starts = [answer.sent_s if answer.scheduled_s is None else answer.scheduled_s for answer in whole]
    return max(answer.last_s or 0.0 for answer in whole) - min(start or 0.0 for start in starts)


def output_tokens(answers: Sequence[Answer]) -> int | None:
    """All tokens of complete answers; None where the server counts none."""
    counts = [answer.output_tokens for answer in answers if answer.ok]
    return sum(count or 0 for count in counts) if counts and None not in counts else None


def percentile(values: Sequence[float], percent: float) -> float:
    """With linear interpolation, as numpy's default. ``values`` must not be empty."""
    ordered = sorted(values)
    at = (len(ordered) - 1) * percent / 100
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
