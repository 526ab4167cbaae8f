"""`diagnose bench URL`: measure a running server."""

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from diagnoser.cli import save
from diagnoser.cli.output import fail, give

if TYPE_CHECKING:
    from diagnoser.experiment.results import Benchmark

PROGRAM = "diagnose bench"
VOID = 13


def run(arguments: list[str]) -> int:
    """Measure and tell; exit code 0: measured, 2: wrong call or nothing measured, 13: measured, but a guard says the
    figures are void, 130: interrupted (what was measured is told, and marked incomplete)."""
    options = _parser().parse_args(arguments)
    if options.output and (sentence := _unwritable(Path(options.output))):
        return fail(sentence, PROGRAM)
    from diagnoser.experiment.load.client import UnusableError

    try:
        return _bench(options)
    except UnusableError as error:
        return fail(str(error), PROGRAM)


def _bench(options: argparse.Namespace) -> int:
    from diagnoser.cli.bench_display import display
    from diagnoser.experiment.load.bench import Plan, bench
    from diagnoser.experiment.load.client import STALL_S, Client
    from diagnoser.experiment.results import Benchmark

    plan = Plan(
        prompt_tokens=options.prompt_tokens,
        output_tokens=options.output_tokens,
        concurrency=options.concurrency,
        rate_per_s=options.rate,
        runs=options.runs,
        requests=options.requests,
        api=options.api,
        model=options.model,
        seed=options.seed,
    )

    async def measure() -> Benchmark:
        key = os.environ.get("DIAGNOSER_API_KEY")
        with display(sys.stderr, plan) as show:
            async with Client(options.url, key=key, stall_s=options.timeout or STALL_S) as client:
                return await bench(client, plan, show)

    result = asyncio.run(measure())
    from diagnoser.report.benchmark import as_text

    text = result.to_json() if options.format == "json" else as_text(result)
    sentences = [give(text, None), give(result.to_json(), options.output) if options.output else None]
    for sentence in filter(None, sentences):
        return fail(sentence, PROGRAM)
    if not result.complete:
        return 130
    void = any(finding.level == "void" for finding in result.findings)
    if save.wanted(options) and not void and (code := _keep(result, options.save_as)):
        return code
    return VOID if void else 0


def _keep(result: "Benchmark", name: str | None) -> int:
    """Into the history; figures that a guard calls void are not kept."""
    from diagnoser.agent.history import Told, judge_server_info, of_benchmark, of_result

    measured, at, host = of_result(result)
    return save.keep(of_benchmark([measured], at, Told(name, host), judge_server_info([measured])), PROGRAM)


def _unwritable(path: Path) -> str | None:
    """Told before the measurement, not after it."""
    if path.is_dir():
        return f"--output {path}: is a folder; give a file"
    if not path.parent.is_dir():
        return f"--output {path}: the folder {path.parent} does not exist"
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        return f"--output {path}: cannot be written"
    return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Measure a running inference server: time to first token, decode time per token, throughput."
        " Prompts are new to every prefix cache, answers have the asked length, warm-ups come first.",
        epilog="A key is taken from DIAGNOSER_API_KEY. Exit code: 0 measured, 2 wrong call or nothing measured,"
        " 13 measured but void, 130 interrupted.",
    )
    parser.add_argument("url", metavar="URL", help="of the server, as http://127.0.0.1:30000")
    parser.add_argument(
        "-c", "--concurrency", type=int, default=1, metavar="N", help="streams at a time (default: 1)"
    )
    parser.add_argument(
        "--rate", type=float, metavar="R", help="requests a second, sent whether or not earlier ones are done"
    )
    parser.add_argument("--prompt-tokens", type=int, default=128, metavar="N", help="default: 128")
    parser.add_argument("--output-tokens", type=int, default=256, metavar="N", help="default: 256")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="measured runs (default: 5)")
    parser.add_argument(
        "--requests", type=int, metavar="N", help="in a run (default: one a stream; 30 s of a rate)"
    )
    parser.add_argument(
        "--api", choices=("completions", "chat", "generate"), help="default: completions, else chat"
    )
    parser.add_argument("--model", metavar="NAME", help="default: the first that the server lists")
    parser.add_argument(
        "--seed",
        metavar="TEXT",
        help="gives the same prompts again; the server must be fresh (default: a new one)",
    )
    parser.add_argument(
        "--timeout", type=_seconds, metavar="S", help="longest silence inside an answer (default: 120)"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the result as JSON (diagnoser/benchmark/1)"
    )
    save.add(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of what is printed")
    return parser


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.1 <= value <= 86_400:
        raise argparse.ArgumentTypeError(f"must be from 0.1 to 86400 seconds, not {text}")
    return value
