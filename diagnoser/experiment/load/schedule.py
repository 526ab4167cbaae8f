"""When requests are sent: closed loop with a fixed number of streams, or open loop at a rate."""

import asyncio
import random
import time
from collections.abc import Callable

from diagnoser.experiment.load.answer import Answer
from diagnoser.experiment.load.client import Client, RefusedError

Prompt = Callable[[int], str]
Done = Callable[[Answer], None]


async def closed(
    client: Client, prompt: Prompt, tokens: int, *, requests: int, concurrency: int, done: Done
) -> None:
    """``requests`` requests, ``concurrency`` at a time: the next goes out when one comes back.

    ``done`` gets every answer as it is complete, whatever stops the rest.
    """
    numbers = iter(range(requests))

    async def stream() -> None:
        for number in numbers:
            done(await _ask(client, prompt(number), tokens))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, requests)):
            group.create_task(stream())


def arrivals(rate: float, requests: int, seed: str) -> list[float]:
    """Seconds from the start at which a Poisson process of ``rate`` requests a second sends; the same for a seed."""
    chance = random.Random(f"arrivals/{seed}")
    at, out = 0.0, []
    for _ in range(requests):
        out.append(at)
        at += chance.expovariate(rate)
    return out


async def open_loop(client: Client, prompt: Prompt, tokens: int, *, times_s: list[float], done: Done) -> None:
    """One request at each of ``times_s``, however many are still running.

    Answers carry the scheduled time: a server (or client) that falls behind cannot hide it by delaying the next request
    (coordinated omission).
    """
    began = time.perf_counter()

    async def one(number: int, at: float) -> None:
        answer = await _ask(client, prompt(number), tokens)
        answer.scheduled_s = at
        done(answer)

    async with asyncio.TaskGroup() as group:
        for number, offset in enumerate(times_s):
            await asyncio.sleep(max(began + offset - time.perf_counter(), 0))
            group.create_task(one(number, began + offset))


async def _ask(client: Client, prompt: str, tokens: int) -> Answer:
    try:
        return await client.ask(prompt, tokens)
    except RefusedError as error:
        return Answer(error=str(error))
