"""Logs of any size: a real start-up, then the server's own running lines with stamps and numbers that move.

The start-up is that of a capture under fixtures/; the shapes of the running lines, and how often each occurs, are
those of the same capture (SGLang: five decode lines to one prefill and one request; vLLM: a line of numbers among
the requests of ten seconds).
"""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
START_UPS = {
    "sglang": ROOT / "fixtures" / "captures" / "sglang_h200" / "triton.log",
    "vllm": ROOT / "fixtures" / "captures" / "cpu_servers" / "vllm_default.log",
}
_RUNNING = (b"] Decode batch", b"] Prefill batch", b"HTTP/1.1", b"Avg prompt throughput", b"hutdown")
_BEGAN = 1_764_556_600  # seconds since the epoch: the day of the captures
_REQUESTS_PER_REPORT = 12


def _sglang(dice: random.Random) -> Iterator[str]:
    at, running, tokens = float(_BEGAN), 8, 4000
    while True:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))
        running = min(64, max(1, running + dice.randint(-2, 2)))
        new = dice.randint(24, 4000)
        yield (
            f"[{stamp}] Prefill batch, #new-seq: 1, #new-token: {new}, #cached-token: {dice.randint(0, 900)}, "
            f"token usage: {tokens / 4e5:.2f}, #running-req: {running}, #queue-req: {dice.randint(0, 3)}, "
            f"#pending-token: 0, cuda graph: True, input throughput (token/s): {dice.uniform(900, 30000):.2f}\n"
            f'[{stamp}] INFO:     127.0.0.1:{dice.randint(32768, 60999)} - "POST /v1/completions HTTP/1.1" 200 OK\n'
        )
        for _ in range(5):
            stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))
            rate = running * dice.uniform(70, 90)
            tokens = 4000 + (tokens + 40 * running) % 300_000
            at += 40 * running / rate
            yield (
                f"[{stamp}] Decode batch, #running-req: {running}, #token: {tokens}, "
                f"token usage: {tokens / 4e5:.2f}, cuda graph: True, gen throughput (token/s): {rate:.2f}, "
                f"#queue-req: {dice.randint(0, 3)}\n"
            )


def _vllm(dice: random.Random) -> Iterator[str]:
    at, running = float(_BEGAN), 8
    while True:
        stamp = time.strftime("%m-%d %H:%M:%S", time.gmtime(at))
        running = min(256, max(0, running + dice.randint(-3, 3)))
        yield (
            f"(APIServer pid=18079) INFO {stamp} [loggers.py:335] Engine 000: "
            f"Avg prompt throughput: {dice.uniform(0, 9000):.1f} tokens/s, "
            f"Avg generation throughput: {running * dice.uniform(25, 35):.1f} tokens/s, Running: {running} reqs, "
            f"Waiting: {dice.randint(0, 4)} reqs, GPU KV cache usage: {running * 0.3:.1f}%, "
            f"Prefix cache hit rate: {dice.uniform(20, 60):.1f}%\n"
        )
        for _ in range(_REQUESTS_PER_REPORT):
            port = dice.randint(32768, 60999)
            yield (
                f'(APIServer pid=18079) INFO:     127.0.0.1:{port} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
            )
        at += 10


_RUNS: dict[str, Callable[[random.Random], Iterator[str]]] = {"sglang": _sglang, "vllm": _vllm}


def make_log(engine: str, megabytes: float, path: Path) -> Path:
    """Write a log of ``engine`` of so many MB (millions of bytes) to ``path``; the same bytes every time."""
    lines = START_UPS[engine].read_bytes().splitlines(keepends=True)
    startup = [line for line in lines if not any(mark in line for mark in _RUNNING)]
    wanted = megabytes * 1e6
    with path.open("wb") as file:
        written = file.write(b"".join(startup))
        for piece in _RUNS[engine](random.Random(7)):
            if written >= wanted:
                break
            written += file.write(piece.encode())
    return path
