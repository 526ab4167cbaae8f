"""A whole benchmark of a running server: who is it, prompts of the right length, warm-ups, measured runs."""

import asyncio
import hashlib
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from diagnoser.experiment.load import guards, record
from diagnoser.experiment.load.answer import Answer
from diagnoser.experiment.load.apis import Api
from diagnoser.experiment.load.client import Client, RefusedError, UnusableError
from diagnoser.experiment.load.gpus import gpus, local
from diagnoser.experiment.load.prompts import Calibrated, calibrate
from diagnoser.experiment.load.schedule import arrivals, closed, open_loop
from diagnoser.experiment.load.server import Server, accepted_drafts, identify
from diagnoser.experiment.results import Benchmark, Finding, Identity, Launch, Run, Workload
from diagnoser.version import __version__

MIN_WARM_UPS, MAX_WARM_UPS = 2, 6
AGREE = 0.01
"""Warm-ups go on until two successive ones differ by at most this (vllm#43078: a "regression" of 5 % was a longer
warm-up)."""
MIN_VALID_RUNS = 3
RATE_RUN_S = 30.0
"""Length of a run at a rate when no number of requests is given."""


@dataclass(frozen=True)
class Plan:
    """What to measure. Raises `UnusableError` for values that make no benchmark."""

    prompt_tokens: int = 128
    output_tokens: int = 256
    concurrency: int = 1
    rate_per_s: float | None = None
    runs: int = 5
    requests: int | None = None  # per run; None: one a stream, or `RATE_RUN_S` seconds of a rate
    api: Api | None = None
    model: str | None = None
    seed: str | None = None  # None: never used before, so that no cache holds the prompts

    def __post_init__(self) -> None:
        for name, low, high in (
            ("prompt_tokens", 1, 10_000_000),
            ("output_tokens", 1, 1_000_000),
            ("concurrency", 1, 4096),
            ("runs", 1, 1000),
            ("requests", 1, 100_000),
        ):
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise UnusableError(f"{name.replace('_', '-')} must be from {low} to {high}, not {value}")
        if self.rate_per_s is not None and not 0.001 <= self.rate_per_s <= 10_000:
            raise UnusableError(
                f"rate must be from 0.001 to 10000 requests a second, not {self.rate_per_s:g}"
            )

    @property
    def requests_per_run(self) -> int:
        """Requests in one run."""
        if self.requests is not None:
            return self.requests
        return self.concurrency if self.rate_per_s is None else math.ceil(self.rate_per_s * RATE_RUN_S)


@dataclass(frozen=True)
class Progress:
    """What is going on, for a display."""

    phase: str  # a few words: "warm-up", "run"
    number: int = 0
    done: int = 0  # requests of this pass
    of: int = 0
    finished: Run | None = None
    result: Benchmark | None = None


Show = Callable[[Progress], None]


async def bench(client: Client, plan: Plan, show: Show = lambda _: None) -> Benchmark:
    """Measure. Cancelled in the midst, it gives what was measured, marked incomplete.

    Raises `UnusableError` when nothing can be measured.
    """
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    plan = replace(plan, seed=plan.seed or secrets.token_hex(8))
    show(Progress("looking at the server"))
    server = await identify(client, plan.model)
    await _choose_api(client, plan.api)
    show(Progress("fitting the prompt length"))
    calibrated = await calibrate(client, str(plan.seed), plan.prompt_tokens)
    result = _frame(client, server, plan, calibrated, started_at)
    show(Progress("warm-up", result=result))
    work = _Work(client, plan, calibrated, result, show)
    try:
        await work.all()
        result.complete = True
    except asyncio.CancelledError:
        if not result.launches[0].runs:
            raise
    work.judge()
    return result


async def _choose_api(client: Client, api: Api | None) -> None:
    client.api = api or "completions"
    if api is not None:
        return
    try:
        await client.ask_leniently("Hello", 1)
    except RefusedError as error:
        if error.status not in (404, 405):
            return  # told, with its words, by the next request
        client.api = "chat"


def _frame(client: Client, server: Server, plan: Plan, calibrated: Calibrated, started_at: str) -> Benchmark:
    texts = "\0".join(calibrated.prompts.one("1", index) for index in range(plan.requests_per_run))
    notes = []
    if calibrated.note:
        notes.append(Finding(guard="prompt-length", level="warn", text=calibrated.note))
    if client.refused:
        text = f"the server refuses {', '.join(sorted(client.refused))}: left out"
        notes.append(Finding(guard="options", level="note", text=text))
    return Benchmark(
        tool="diagnoser",
        tool_version=__version__,
        started_at=started_at,
        complete=False,
        identity=Identity(
            url=client.url,
            engine=server.engine,
            version=server.version,
            model=server.model,
            flags=server.flags,
            gpus=gpus() if local(client.url) else [],
        ),
        workload=Workload(
            api=client.api,
            concurrency=plan.concurrency if plan.rate_per_s is None else None,
            rate_per_s=plan.rate_per_s,
            requests_per_run=plan.requests_per_run,
            prompt_tokens=plan.prompt_tokens,
            prompt_tokens_counted=calibrated.counted_tokens,
            output_tokens=plan.output_tokens,
            seed=str(plan.seed),
            options_refused=sorted(client.refused),
            prompts_sha256=hashlib.sha256(texts.encode()).hexdigest(),
        ),
        launches=[Launch()],
        findings=notes,
    )


class _Work:
    """Warm-ups and runs of one launch."""

    def __init__(
        self, client: Client, plan: Plan, calibrated: Calibrated, result: Benchmark, show: Show
    ) -> None:
        self._client = client
        self._plan = plan
        self._prompts = calibrated.prompts
        self._result = result
        self._launch = result.launches[0]
        self._show = show

    async def all(self) -> None:
        """Everything, in order."""
        launch = self._launch
        while len(launch.warm_ups) < MAX_WARM_UPS and not launch.warm_ups_agree:
            await self._pass("warm-up", len(launch.warm_ups) + 1, launch.warm_ups)
            if all(answer.error for answer in launch.warm_ups[-1].requests):
                error = launch.warm_ups[-1].requests[0].error
                raise UnusableError(f"{self._client.url}: every request of the warm-up failed: {error}")
            rates = [warm.output_tok_s_wall for warm in launch.warm_ups]
            # Without token counts there is nothing to agree on.
            counted = rates[-1] is not None
            launch.warm_ups_agree = record.agree(rates, AGREE) if counted else None
            if not counted and len(rates) >= MIN_WARM_UPS:
                break
        for number in range(1, self._plan.runs + 1):
            await self._pass("run", number, launch.runs)

    async def _pass(self, phase: str, number: int, into: list[Run]) -> None:
        plan, answers = self._plan, list[Answer]()
        of = plan.requests_per_run

        def done(answer: Answer) -> None:
            answers.append(answer)
            self._show(Progress(phase, number, len(answers), of, result=self._result))

        def prompt(index: int) -> str:
            return self._prompts.one(str(number) if phase == "run" else f"{phase} {number}", index)

        self._show(Progress(phase, number, 0, of, result=self._result))
        before = await accepted_drafts(self._client)
        watch, whole = guards.Watch(), False
        try:
            async with watch:
                await self._send(prompt, done)
            whole = True
        finally:
            # Kept when interrupted, too.
            after = await accepted_drafts(self._client) if whole and before else None
            if answers:
                made = record.run(
                    number, answers, watch, tokens=plan.output_tokens, complete=whole, drafts=(before, after)
                )
                into.append(made)
                if phase == "run":
                    self._find(number, [*guards.client_bound(watch), *self._answers(answers)])
                self._show(Progress(phase, number, len(answers), of, made, self._result))

    async def _send(self, prompt: Callable[[int], str], done: Callable[[Answer], None]) -> None:
        plan = self._plan
        if plan.rate_per_s is not None:
            # The same arrivals in every run: a burst must not be mistaken for a change of the server.
            times = arrivals(plan.rate_per_s, plan.requests_per_run, str(plan.seed))
            await open_loop(self._client, prompt, plan.output_tokens, times_s=times, done=done)
        else:
            requests, streams = plan.requests_per_run, plan.concurrency
            await closed(
                self._client, prompt, plan.output_tokens, requests=requests, concurrency=streams, done=done
            )

    def _answers(self, answers: list[Answer]) -> list[guards.Finding]:
        return guards.answers_guard(answers, self._plan.output_tokens, self._plan.prompt_tokens)

    def _find(self, number: int, found: list[guards.Finding]) -> None:
        self._result.findings += [
            Finding(guard=one.guard, level=one.level, text=one.text, run=number) for one in found
        ]

    def judge(self) -> None:
        """What only the whole shows."""
        launch, findings = self._launch, self._result.findings
        if launch.warm_ups_agree is False and launch.runs:
            text = f"no two successive warm-ups of {len(launch.warm_ups)} agree within {AGREE:.0%}"
            findings.append(Finding(guard="warm-up", level="warn", text=text))
        valid = [run for run in launch.runs if run.complete and not run.off_length]
        if len(valid) < min(MIN_VALID_RUNS, self._plan.runs):
            text = f"only {len(valid)} of {len(launch.runs)} runs are whole and of the asked length"
            findings.append(Finding(guard="valid-runs", level="void", text=text))
