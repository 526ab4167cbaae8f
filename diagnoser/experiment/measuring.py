"""The runs of one launch: made, judged by the guards, and made again where a guard voided them."""

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from diagnoser.experiment.guards.clocks import Ran
from diagnoser.experiment.guards.trend import trending
from diagnoser.experiment.guards.watch import Watch
from diagnoser.experiment.load.bench import Plan as Load
from diagnoser.experiment.load.bench import bench
from diagnoser.experiment.load.client import Client, RefusedError, UnusableError
from diagnoser.experiment.load.guards import Finding
from diagnoser.experiment.load.server import identify
from diagnoser.experiment.results import Benchmark, Identity
from diagnoser.experiment.results import Finding as Recorded

MAX_REPEATS = 3
"""How often runs that a guard voided are made again in a launch. They are replaced for that reason only, never for
their value."""

MIN_RUNS = 3
"""Fewer valid runs in a launch make it void."""


class VoidError(RuntimeError):
    """What was measured says nothing; the message names the guard and why."""


def answers(url: str) -> bool:
    """Whether a server generates: one real completion."""
    return asyncio.run(_answers(url))


async def _answers(url: str) -> bool:
    try:
        async with Client(url, key=os.environ.get("DIAGNOSER_API_KEY"), stall_s=20) as client:
            try:
                answer = await client.ask_leniently("Hello", 1)
            except RefusedError as error:
                if error.status not in (404, 405):
                    return False
                client.api = "chat"
                answer = await client.ask_leniently("Hello", 1)
    except (RefusedError, UnusableError, OSError):
        return False
    return not answer.error


def who(url: str) -> Identity:
    """Which server answers. Raises `UnusableError`."""
    return asyncio.run(_who(url))


async def _who(url: str) -> Identity:
    async with Client(url, key=os.environ.get("DIAGNOSER_API_KEY")) as client:
        found = await identify(client)
    return Identity(url=url, engine=found.engine, version=found.version, model=found.model, flags=found.flags)


class Measured(NamedTuple):
    """What the runs of one launch gave. values: the metric of each valid run. ran: how the GPUs ran, by their id."""

    values: list[float]
    results: list[Benchmark]
    findings: list[Finding]
    ran: dict[str, Ran]

    @property
    def identity(self) -> Identity:
        return self.results[-1].identity


def launch(url: str, load: Load, metric: str, watch: Callable[[], Watch]) -> Measured:
    """All runs of one launch. Raises `VoidError`, `UnusableError`."""
    results: list[Benchmark] = []
    values: list[float] = []
    void: list[str] = []
    findings: list[Finding] = []
    ran: dict[str, Ran] = {}
    for _ in range(1 + MAX_REPEATS):
        missing = load.runs - len(values)
        if missing <= 0:
            break
        with watch() as watched:
            result = asyncio.run(_measure(url, replace(load, runs=missing), watched))
        for number, found in watched.judged():
            result.findings.append(
                Recorded(guard=found.guard, level=found.level, text=found.text, run=number)
            )
        results.append(result)
        ran = ran or watched.ran()
        found_values = _values(result, metric)
        findings += [
            Finding(one.guard, one.level, one.text) for one in result.findings if one.level != "note"
        ]
        void += _void(result)
        trend = trending(found_values)
        if trend is not None:
            # They are a warm-up that was too short; for that reason they are made again, all of them.
            findings.append(trend)
            void.append(f"{trend.guard}: {trend.text}")
            continue
        values += found_values
    if len(values) < min(MIN_RUNS, load.runs):
        raise VoidError(f"only {len(values)} valid runs of {metric}: {'; '.join(dict.fromkeys(void))}")
    return Measured(values, results, list(dict.fromkeys(findings)), ran)


async def _measure(url: str, load: Load, watched: Watch) -> Benchmark:
    async with Client(url, key=os.environ.get("DIAGNOSER_API_KEY")) as client:
        result = await bench(client, load, watched.show)
    if not result.complete:
        raise KeyboardInterrupt  # it gives what it has when it is interrupted; here that ends the experiment
    return result


def _values(result: Benchmark, metric: str) -> list[float]:
    """The metric of each valid run. Raises `VoidError` where a guard voids the whole launch."""
    for finding in result.findings:
        if finding.level == "void" and finding.run is None:
            raise VoidError(f"{finding.guard}: {finding.text}")
    void = {finding.run for finding in result.findings if finding.level == "void"}
    values = []
    for one in result.launches[0].runs:
        found = getattr(one, metric)
        value: float | None = found if isinstance(found, float | int) or found is None else found.mean
        if value and not one.off_length and not one.failed and one.complete and one.number not in void:
            values.append(float(value))
    return values


def _void(result: Benchmark) -> Iterator[str]:
    """Why runs do not count."""
    yield from (f"{one.guard}: {one.text}" for one in result.findings if one.level == "void")
    for one in result.launches[0].runs:
        if one.failed or one.off_length:
            yield (
                f"{one.failed} requests failed" if one.failed else "answers were not of the length asked for"
            )
