"""A benchmark as text."""

from collections.abc import Callable, Iterator, Sequence

from diagnoser.experiment.load.interval import mean_interval
from diagnoser.experiment.results import Benchmark, Run, Spread, Workload
from diagnoser.sources import printable


def _mean(over: Spread | None) -> float | None:
    return None if over is None else over.mean


_COLUMNS: tuple[tuple[str, int, Callable[[Run], float | None]], ...] = (
    ("output tok/s", 2, lambda run: run.output_tok_s_wall),
    ("TTFT ms", 1, lambda run: _mean(run.ttft_ms)),
    ("decode ms/token", 3, lambda run: _mean(run.decode_ms_per_token)),
    ("E2E ms", 1, lambda run: _mean(run.e2e_ms)),
    ("chunk gap p99 ms", 2, lambda run: run.chunk_gap_ms.p99 if run.chunk_gap_ms else None),
    ("accept length", 2, lambda run: run.accept_len),
)
_NAME = 10


def as_text(result: Benchmark) -> str:
    """The page after a benchmark."""
    return "\n".join(printable(line).rstrip() for line in _lines(result)) + "\n"


def _lines(result: Benchmark) -> Iterator[str]:
    yield title(result)
    yield f"  {workload(result.workload)}"
    for gpu in result.identity.gpus:
        yield f"  GPU {gpu.name}, driver {gpu.driver}"
    for launch in result.launches:
        columns = _used([*launch.warm_ups, *launch.runs])
        yield ""
        yield " " * _NAME + "".join(f"  {name:>{_width(name)}}" for name, _, _ in columns)
        for warm in launch.warm_ups:
            yield _row(f"warm-up {warm.number}", warm, columns)
        for run in launch.runs:
            yield _row(f"run {run.number}", run, columns)
        yield from _means(headline(launch.runs), columns)
    yield ""
    yield from findings(result)
    if not result.complete:
        yield "INCOMPLETE: interrupted before the last run."


def title(result: Benchmark) -> str:
    """Which server."""
    who = result.identity
    engine = " ".join(part for part in (who.engine, who.version) if part) or "unknown engine"
    return f"{who.url}: {engine}, model {who.model or 'not told'}"


def workload(asked: Workload) -> str:
    """What is asked of it."""
    if asked.rate_per_s is not None:
        load = f"{asked.rate_per_s:g} requests/s (Poisson), {asked.requests_per_run} a run"
    else:
        load = f"{asked.concurrency} at a time, {asked.requests_per_run} requests a run"
    counted = f" (counted: {asked.prompt_tokens_counted})" if asked.prompt_tokens_counted else ""
    return (
        f"{asked.api}, {load}, prompts of {asked.prompt_tokens} tokens{counted},"
        f" {asked.output_tokens} output tokens, temperature 0, seed {asked.seed}"
    )


def headline(runs: Sequence[Run]) -> list[Run]:
    """The runs that count: whole, and of the asked length."""
    return [run for run in runs if run.complete and not run.off_length]


def _used(runs: Sequence[Run]) -> list[tuple[str, int, Callable[[Run], float | None]]]:
    return [column for column in _COLUMNS if any(column[2](run) is not None for run in runs)]


def _width(name: str) -> int:
    return max(len(name), 12)


def _row(name: str, run: Run, columns: Sequence[tuple[str, int, Callable[[Run], float | None]]]) -> str:
    cells = "".join(f"  {_cell(value(run), digits):>{_width(head)}}" for head, digits, value in columns)
    marks = [
        text for text, holds in (("incomplete", not run.complete), ("off length", run.off_length)) if holds
    ]
    if run.failed:
        marks.append(f"{run.failed} failed")
    return f"{name:<{_NAME}}{cells}  {', '.join(marks)}"


def _cell(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _means(
    runs: Sequence[Run], columns: Sequence[tuple[str, int, Callable[[Run], float | None]]]
) -> Iterator[str]:
    found = [[v for run in runs if (v := value(run)) is not None] for _, _, value in columns]
    if not any(found):
        return
    means = [mean_interval(values) if values else (None, None) for values in found]
    cells = [
        (_cell(mean, column[1]), half, column) for (mean, half), column in zip(means, columns, strict=True)
    ]
    yield f"{'mean':<{_NAME}}" + "".join(f"  {cell:>{_width(column[0])}}" for cell, _, column in cells)
    if any(half is not None for _, half, _ in cells):
        yield f"{'+-':<{_NAME}}" + "".join(
            f"  {_cell(half, column[1] + 1):>{_width(column[0])}}" for _, half, column in cells
        )
        yield "  (95 % interval over the runs of this launch; another launch of the server may differ by more)"


def findings(result: Benchmark) -> Iterator[str]:
    """What the guards say, a sentence for each kind, with the runs it was seen in."""
    kinds = dict.fromkeys((one.level, one.guard) for one in result.findings)
    order = {"void": 0, "warn": 1, "note": 2}
    words = {"void": "VOID", "warn": "warning", "note": "note"}
    for level, guard in sorted(kinds, key=lambda kind: order[kind[0]]):
        same = [one for one in result.findings if (one.level, one.guard) == (level, guard)]
        runs = [str(one.run) for one in same if one.run is not None]
        where = f" (run {', '.join(runs)})" if runs else ""
        yield f"{words[level]}: {same[0].text}{where}"
