"""Every metric against a server whose schedule is known: the expected values are calculated here, by hand."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from diagnoser.experiment.load import guards, record
from diagnoser.experiment.load.answer import Answer
from diagnoser.experiment.load.client import Client
from diagnoser.experiment.load.schedule import arrivals, closed, open_loop
from diagnoser.experiment.results import Run

pytestmark = pytest.mark.slow  # times what is measured: a busy machine is no place for it


TOKENS = 64
ONE_PERCENT = 0.01


async def _pass(url: str, api: Any, streams: int) -> tuple[Run, list[guards.Finding]]:
    async with Client(url) as client:
        client.api, client.model = api, "tiny"
        # The connections are opened by a warm-up of the same concurrency, as in a benchmark.
        await closed(client, lambda _: "warm", 2, requests=streams, concurrency=streams, done=lambda _: None)
        answers: list[Answer] = []
        async with guards.Watch() as watch:
            await closed(
                client,
                lambda n: f"{n} prompt",
                TOKENS,
                requests=streams,
                concurrency=streams,
                done=answers.append,
            )
        run = record.run(1, answers, watch, tokens=TOKENS, complete=True)
        return run, [*guards.client_bound(watch), *guards.answers_guard(answers, TOKENS)]


def _clean_pass(url: str, api: Any, streams: int) -> Run:
    """As the method says: a run that the client's own guards call void is repeated, at most three times."""
    for _ in range(4):
        run, found = asyncio.run(_pass(url, api, streams))
        if not any(finding.level == "void" for finding in found):
            return run
    pytest.fail(f"the client was never fast enough: {found}")


CASES = [
    pytest.param(streams, per_chunk, api, marks=marks)
    for streams, marks in ((1, ()), (8, ()), (64, pytest.mark.slow))
    for per_chunk in (1, 4)
    for api in ("completions", "chat", "generate")
    if streams != 1 or api == "completions" or per_chunk == 4
]


@pytest.mark.parametrize(("streams", "per_chunk", "api"), CASES)
def test_every_metric_is_within_one_percent_of_the_schedule(
    serve: Callable[..., str], streams: int, per_chunk: int, api: str
) -> None:
    slow = streams == 64
    ttft_ms, gap_ms = (3000.0, 60.0 * per_chunk) if slow else (800.0, 20.0 * per_chunk)
    url = serve(ttft_s=ttft_ms / 1e3, gap_s=gap_ms / 1e3, tokens_per_chunk=per_chunk, engine="sglang")
    run = _clean_pass(url, api, streams)

    chunks = TOKENS // per_chunk
    decode_ms = (chunks - 1) * gap_ms
    e2e_ms = ttft_ms + decode_ms
    # The native API says how many tokens the first chunk holds; elsewhere the definition takes one.
    later_tokens = TOKENS - (per_chunk if api == "generate" else 1)
    assert run.failed == 0
    assert run.output_tokens == streams * TOKENS
    assert run.ttft_ms is not None
    assert run.ttft_ms.mean == pytest.approx(ttft_ms, rel=ONE_PERCENT)
    assert run.ttft_ms.p50 == pytest.approx(ttft_ms, rel=ONE_PERCENT)
    assert run.e2e_ms is not None
    assert run.e2e_ms.mean == pytest.approx(e2e_ms, rel=ONE_PERCENT)
    assert run.decode_ms_per_token is not None
    assert run.decode_ms_per_token.mean == pytest.approx(decode_ms / later_tokens, rel=ONE_PERCENT)
    assert run.e2e_ms_per_token is not None
    assert run.e2e_ms_per_token.mean == pytest.approx(e2e_ms / TOKENS, rel=ONE_PERCENT)
    assert run.chunk_gap_ms is not None
    assert run.chunk_gap_ms.mean == pytest.approx(gap_ms, rel=ONE_PERCENT)
    assert run.output_tok_s_request is not None
    assert run.output_tok_s_request.mean == pytest.approx(TOKENS / e2e_ms * 1e3, rel=ONE_PERCENT)
    assert run.output_tok_s_wall == pytest.approx(streams * TOKENS / e2e_ms * 1e3, rel=ONE_PERCENT)
    assert all(request.chunks == chunks for request in run.requests)


def test_chunks_of_several_tokens_are_told(serve: Callable[..., str]) -> None:
    url = serve(ttft_s=0.1, gap_s=0.02, tokens_per_chunk=4)
    _, found = asyncio.run(_pass(url, "completions", 1))
    assert "multi-token-chunks" in [finding.guard for finding in found]


def test_open_loop_sends_on_schedule_and_measures_from_it(serve: Callable[..., str]) -> None:
    url = serve(ttft_s=0.5, gap_s=0.02)
    times = [0.0, 0.3, 0.4, 1.1]

    async def measure() -> list[Answer]:
        answers: list[Answer] = []
        async with Client(url) as client:
            client.model = "tiny"
            await closed(client, lambda _: "warm", 2, requests=4, concurrency=4, done=lambda _: None)
            await open_loop(client, lambda n: f"{n}", 26, times_s=times, done=answers.append)
        return answers

    answers = sorted(asyncio.run(measure()), key=lambda answer: answer.scheduled_s or 0)
    starts = [
        answer.scheduled_s - (answers[0].scheduled_s or 0)
        for answer in answers
        if answer.scheduled_s is not None
    ]
    assert starts == pytest.approx(times)
    run = record.run(1, answers, guards.Watch(), tokens=26, complete=True)
    # 25 gaps of 20 ms follow the first token at 500 ms; the last request is due at 1.1 s. Its end: 2.1 s.
    assert run.wall_s == pytest.approx(2.1, rel=ONE_PERCENT)
    assert run.e2e_ms is not None
    assert run.e2e_ms.mean == pytest.approx(1000, rel=ONE_PERCENT)


def test_a_client_that_sends_late_cannot_hide_it(serve: Callable[..., str]) -> None:
    import time

    url = serve(ttft_s=0.1, gap_s=0.01)

    def prompt(number: int) -> str:
        if number == 1:
            time.sleep(0.4)  # the whole client stands still
        return f"{number}"

    async def measure() -> list[Answer]:
        answers: list[Answer] = []
        async with Client(url) as client:
            client.model = "tiny"
            await open_loop(client, prompt, 4, times_s=[0.0, 0.1, 0.2], done=answers.append)
        return answers

    answers = sorted(asyncio.run(measure()), key=lambda answer: answer.scheduled_s or 0)
    # The third was due at 0.2 s and could not leave before 0.5 s; its time to first token is 0.4 s, not 0.1 s.
    third = record.run(1, answers[2:], guards.Watch(), tokens=4, complete=True).requests[0]
    assert third.late_ms is not None
    assert third.late_ms >= 299
    assert third.ttft_ms is not None
    assert third.ttft_ms >= 399
    assert "late-sends" in [f.guard for f in guards.answers_guard(answers, 4) if f.level == "void"]


def test_arrivals_are_a_poisson_process_of_the_rate_and_the_same_for_a_seed() -> None:
    times = arrivals(20.0, 20_001, "a")
    gaps = [later - earlier for earlier, later in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    # Mean 1/20 s and, for exponential gaps, the same standard deviation: 20,000 of them know both within 3 %.
    assert mean == pytest.approx(0.05, rel=0.03)
    assert (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5 == pytest.approx(0.05, rel=0.03)
    assert times == arrivals(20.0, 20_001, "a")
    assert times != arrivals(20.0, 20_001, "b")


def test_a_busy_client_is_found_out(serve: Callable[..., str]) -> None:
    import threading

    url = serve(ttft_s=0.2, gap_s=0.01)
    stop = threading.Event()

    def burn() -> None:
        while not stop.is_set():
            sum(range(10_000))

    burners = [threading.Thread(target=burn) for _ in range(2)]
    for thread in burners:
        thread.start()
    try:
        _, found = asyncio.run(_pass(url, "completions", 8))
    finally:
        stop.set()
        for thread in burners:
            thread.join()
    assert {"client-cpu", "client-lag"} <= {finding.guard for finding in found if finding.level == "void"}
