"""What is shown while a benchmark runs: a live table on a terminal, plain lines elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from diagnoser.experiment.load.bench import Plan, Progress, Show
from diagnoser.experiment.load.interval import mean_interval
from diagnoser.experiment.results import Run
from diagnoser.report.benchmark import headline, title, workload
from diagnoser.sources import printable

REFRESH_PER_S = 4
"""Drawing is work of the client's own processor, too."""


@contextmanager
def display(file: IO[str], plan: Plan) -> Iterator[Show]:
    """Gives the function that shows a `Progress`."""
    if not file.isatty():
        yield _Lines(file).show
        return
    from rich.console import Console
    from rich.live import Live

    table = _Table(plan)
    console = Console(file=file, highlight=False)
    with Live(get_renderable=table.draw, console=console, refresh_per_second=REFRESH_PER_S, transient=True):
        yield table.show


class _Lines:
    """A line for each pass that is over."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._told = False

    def show(self, progress: Progress) -> None:
        if progress.result is None:
            self._print(f"{progress.phase} ...")
        elif not self._told:
            self._told = True
            self._print(title(progress.result))
            self._print(workload(progress.result.workload))
        if progress.finished is not None:
            self._print(f"{progress.phase} {progress.number}: {_figures(progress.finished)}")

    def _print(self, line: str) -> None:
        print(printable(line), file=self._file, flush=True)


class _Table:
    """The same, with what is under way and the interval so far."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._last = Progress("starting")
        self._passes: list[str] = []

    def show(self, progress: Progress) -> None:
        self._last = progress
        if progress.finished is not None:
            self._passes.append(f"{progress.phase} {progress.number}: {_figures(progress.finished)}")

    def draw(self) -> Any:
        from rich.text import Text

        last = self._last
        lines = [] if last.result is None else [title(last.result), workload(last.result.workload)]
        lines += self._passes[-12:]
        runs = [] if last.result is None else headline(last.result.launches[0].runs)
        rates = [run.output_tok_s_wall for run in runs if run.output_tok_s_wall is not None]
        if rates:
            mean, half = mean_interval(rates)
            width = "" if half is None else f" +- {half:.2f} (95 %, {half / mean:.2%})"
            lines.append(f"{mean:.2f} tok/s{width} over {len(rates)} of {self._plan.runs} runs")
        count = f" {last.number}: {last.done} of {last.of} requests" if last.of else ""
        lines.append(f"{last.phase}{count} ...")
        return Text("\n".join(printable(line) for line in lines))


def _figures(run: Run) -> str:
    parts = []
    if run.output_tok_s_wall is not None:
        parts.append(f"{run.output_tokens} tokens in {run.wall_s:.2f} s = {run.output_tok_s_wall:.2f} tok/s")
    if run.ttft_ms is not None:
        parts.append(f"TTFT {run.ttft_ms.mean:.1f} ms")
    if run.decode_ms_per_token is not None:
        parts.append(f"decode {run.decode_ms_per_token.mean:.3f} ms/token")
    if run.failed:
        parts.append(f"{run.failed} failed")
    if not run.complete:
        parts.append("interrupted")
    return ", ".join(parts) or "no figures"
