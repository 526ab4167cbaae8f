"""Answers of one run as a `Run` of the result file."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from diagnoser.experiment.load.answer import Answer
from diagnoser.experiment.load.guards import Watch, off_length
from diagnoser.experiment.load.measure import (
    Figures,
    chunk_gaps_ms,
    figures,
    output_tokens,
    percentile,
    wall_s,
)
from diagnoser.experiment.results import Request, Run, Spread

_DIGITS = 4  # 0.1 microseconds in a millisecond figure


def run(
    number: int,
    answers: Sequence[Answer],
    watch: Watch,
    *,
    tokens: int,
    complete: bool,
    drafts: tuple[tuple[float, float] | None, tuple[float, float] | None] = (None, None),
) -> Run:
    """One pass. ``drafts``: the server's counters (drafts, accepted) before and after it."""
    each = [figures(answer) for answer in answers]
    took_s, made = wall_s(answers), output_tokens(answers)
    return Run(
        number=number,
        complete=complete,
        off_length=off_length(answers, tokens),
        wall_s=_round(took_s),
        failed=sum(not answer.ok for answer in answers),
        output_tokens=made,
        output_tok_s_wall=_round(made / took_s) if made and took_s else None,
        output_tok_s_request=spread(one.output_tok_s_request for one in each),
        ttft_ms=spread(one.ttft_ms for one in each),
        decode_ms_per_token=spread(one.decode_ms_per_token for one in each),
        e2e_ms=spread(one.e2e_ms for one in each),
        e2e_ms_per_token=spread(one.e2e_ms_per_token for one in each),
        chunk_gap_ms=spread(chunk_gaps_ms(answers)),
        accept_len=_round(accept_len(answers, drafts)),
        client_cpu_share=round(watch.cpu_share, _DIGITS),
        client_lag_p99_ms=round(watch.lag_p99_ms, _DIGITS),
        requests=[_request(answer, found) for answer, found in zip(answers, each, strict=True)],
    )


def accept_len(
    answers: Sequence[Answer], drafts: tuple[tuple[float, float] | None, tuple[float, float] | None]
) -> float | None:
    """Tokens per verification step: 1 + accepted / drafts over the run (vLLM's own formula), or, where each answer
    tells its own, weighted by tokens. None without speculation."""
    told = [(a.output_tokens, a.accept_len) for a in answers if a.ok and a.output_tokens and a.accept_len]
    if told:
        # Steps add up, not lengths.
        return sum(count for count, _ in told) / sum(count / length for count, length in told)
    before, after = drafts
    if before is None or after is None or after[0] <= before[0]:
        return None
    return 1 + (after[1] - before[1]) / (after[0] - before[0])


def spread(values: Iterable[float | None]) -> Spread | None:
    """None when no value is known."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    p50, p95, p99 = (round(percentile(known, percent), _DIGITS) for percent in (50, 95, 99))
    return Spread(
        mean=round(sum(known) / len(known), _DIGITS),
        p50=p50,
        p95=p95,
        p99=p99,
        max=round(max(known), _DIGITS),
    )


def agree(rates: Sequence[float | None], within: float) -> bool:
    """Whether the last two differ by at most ``within`` of the earlier; False when one is unknown."""
    last = list(pairwise(rates))[-1:]
    return any(a is not None and b is not None and abs(b - a) <= within * a for a, b in last)


def _request(answer: Answer, found: Figures) -> Request:
    return Request(
        output_tokens=answer.output_tokens,
        prompt_tokens=answer.prompt_tokens,
        cached_tokens=answer.cached_tokens,
        counted_by=answer.counted_by,
        first_chunk_tokens=answer.first_tokens,
        chunks=len(answer.arrivals_s),
        ttft_ms=_round(found.ttft_ms),
        e2e_ms=_round(found.e2e_ms),
        decode_ms_per_token=_round(found.decode_ms_per_token),
        e2e_ms_per_token=_round(found.e2e_ms_per_token),
        output_tok_s_request=_round(found.output_tok_s_request),
        late_ms=_round(found.late_ms),
        accept_len=_round(answer.accept_len),
        collapsed=found.collapsed,
        text_sha256=answer.text_sha256 or None,
        error=answer.error or None,
    )


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
