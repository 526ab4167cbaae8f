"""The confirming experiment: as found, with the change, in turn, until the verdict stands; then back to what was.

    plan -> A1 -> B1 -> look -> (A2 -> B2 -> look -> (A3 -> B3 -> look)) -> verdict -> as found, or kept

Every step is in the journal before it is taken. A watcher, a process of its own, brings the original server back when
this one dies (`watch`); `roll_back` does the same by hand.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from diagnoser.experiment import journal, servers
from diagnoser.experiment.change import Change, Config
from diagnoser.experiment.journal import Journal, Process
from diagnoser.experiment.load.bench import Plan as Load
from diagnoser.experiment.load.bench import bench
from diagnoser.experiment.load.client import Client, UnusableError
from diagnoser.experiment.results import Benchmark
from diagnoser.experiment.servers import StartError
from diagnoser.experiment.statistics import (
    FLOORS,
    LOOK_LEVELS,
    LOWER_IS_BETTER,
    Arm,
    Launch,
    Look,
    Noise,
    Verdict,
    detectable,
    look,
)

MIN_BUDGET_S, MAX_BUDGET_S = 900.0, 1800.0
MAX_REPEATS = 3
"""How often runs that a guard voided are made again in a launch. They are replaced for that reason only, never for
their value."""

MIN_RUNS = 3
"""Fewer valid runs in a launch make it void."""

WORKLOADS: dict[str, tuple[str, Load]] = {
    "decode_single_stream": ("decode_ms_per_token", Load(prompt_tokens=128, output_tokens=256)),
    "decode_long_context": ("decode_ms_per_token", Load(prompt_tokens=10_000, output_tokens=256)),
    "prefill_long": ("ttft_ms", Load(prompt_tokens=8_000, output_tokens=16)),
    "throughput_many_streams": (
        "output_tok_s_wall",
        Load(prompt_tokens=512, output_tokens=256, concurrency=32, requests=96),
    ),
}
"""What exercises a hypothesis, and the metric that it is scored on. Attention costs nothing at a short context and 40 %
at 10,000 tokens (SGLang on an H200), so a workload that does not exercise the cause refutes nothing."""


class Plan(NamedTuple):
    """An experiment before its first step. gap: the relative loss that the change should explain."""

    url: str
    original: Config
    change: Change
    workload: str
    metric: str
    load: Load
    gap: float | None = None
    running: Process | None = None
    keep_fix: bool = False

    @property
    def changed(self) -> Config:
        return self.change.applied(self.original)


class Outcome(NamedTuple):
    """How it ended. verdict None: it was rolled back before there was one. error: why. restored: whether the original
    server runs again; None: the changed one was kept. results: every launch's benchmark."""

    verdict: Verdict | None
    last: Look | None
    error: str | None
    restored: bool | None
    results: list[tuple[Arm, Benchmark]]


Told = Callable[[str], None]
Diagnose = Callable[[Path], tuple[str, str] | None]


class VoidError(RuntimeError):
    """What was measured says nothing; the message names the guard and why."""


def smallest_seen(plan: Plan, run_cv: float = 0.01) -> list[float]:
    """What can be detected after one, two and three pairs."""
    noise = Noise(FLOORS.get(plan.metric, 0.0075))
    return [detectable(pairs, run_cv, noise, plan.load.runs) for pairs in range(1, len(LOOK_LEVELS) + 1)]


def run(plan: Plan, told: Told, diagnose: Diagnose) -> Outcome:
    """Do it. Raises `journal.BusyError` before anything is touched, OSError where no journal can be kept."""
    if journal.pending():
        raise journal.BusyError(
            "an earlier experiment was not ended; bring its server back with --rollback first"
        )
    file = journal.folder() / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}.jsonl"
    kept = Journal(file)
    original = journal.as_plain(plan.original)
    # The watcher stands by before there is anything to undo.
    _watcher(file)
    kept.note("planned", url=plan.url, original=original, change=str(plan.change), workload=plan.workload)
    work = _Experiment(plan, kept, told, diagnose)
    try:
        return work.all()
    finally:
        kept.close()


class _Experiment:
    def __init__(self, plan: Plan, kept: Journal, told: Told, diagnose: Diagnose) -> None:
        self.plan = plan
        self.kept = kept
        self.told = told
        self.diagnose = diagnose
        self.current: Process | None = plan.running
        self.results: list[tuple[Arm, Benchmark]] = []
        self.launches: list[Launch] = []
        self.load_s = 0.0

    def all(self) -> Outcome:
        last: Look | None = None
        verdict: Verdict | None = None
        error: str | None = None
        try:
            if self.current is not None:
                self.kept.note("running", pid=self.current.pid, started=self.current.started)
            while last is None or not last.final:
                for arm in (Arm.A, Arm.B):
                    self._launch(arm)
                last = look(
                    self.launches,
                    lower_is_better=self.plan.metric in LOWER_IS_BETTER,
                    noise=Noise(FLOORS.get(self.plan.metric, 0.0075)),
                    gap=self.plan.gap,
                )
                found = last.interval
                self.kept.note("look", verdict=last.verdict.value, **found._asdict())
                words = f"{found.effect:+.1%} [{found.low:+.1%}, {found.high:+.1%}]"
                self.told(f"look {last.pairs}: {last.verdict.value}, {words}")
            verdict = last.verdict
        except VoidError as caught:
            verdict, error = Verdict.VOID, str(caught)
        except (StartError, UnusableError) as caught:
            error = str(caught)
        except KeyboardInterrupt:
            error = "interrupted"
        if verdict is Verdict.CONFIRMED and self.plan.keep_fix:
            self.kept.note("kept", verdict=verdict.value)
            return Outcome(verdict, last, None, None, self.results)
        restored = self._restore()
        return Outcome(verdict, last, error, restored, self.results)

    def _launch(self, arm: Arm) -> None:
        """One start of an arm (the first of A may be running already) and its runs."""
        first = not self.launches
        config = self.plan.original if arm is Arm.A else self.plan.changed
        if not (first and arm is Arm.A and self.current is not None):
            self._stop()
            self._start(arm.value, config)
        self.kept.note("measuring", arm=arm.value)
        self.told(f"{arm.value}{len(self.launches) // 2 + 1}: measuring")
        values: list[float] = []
        void: list[str] = []
        for _ in range(1 + MAX_REPEATS):
            missing = self.plan.load.runs - len(values)
            if missing <= 0:
                break
            result = asyncio.run(_measure(self.plan, missing))
            self.results.append((arm, result))
            values += _values(result, self.plan.metric)
            void += _void(result)
        if len(values) < min(MIN_RUNS, self.plan.load.runs):
            raise VoidError(
                f"only {len(values)} valid runs of {self.plan.metric}: {'; '.join(dict.fromkeys(void))}"
            )
        self.launches.append(Launch(arm, tuple(values)))
        self.kept.note("measured", arm=arm.value, values=list(self.launches[-1].values))

    def _start(self, name: str, config: Config) -> None:
        log = self.kept.file.with_suffix(f".{name}{len(self.launches)}.log")
        self.kept.note("starting", arm=name, log=str(log), **journal.as_plain(config))
        process = servers.start(config, log)
        self.current = process
        self.kept.note("started", arm=name, pid=process.pid, started=process.started)
        budget = min(max(2 * self.load_s, MIN_BUDGET_S), MAX_BUDGET_S)
        took = servers.wait_ready(
            process,
            log,
            lambda: asyncio.run(_answers(self.plan.url)),
            budget_s=budget,
            told=lambda line: self.told(f"{name}: {line}"),
            diagnose=self.diagnose,
        )
        self.load_s = max(self.load_s, took)
        self.kept.note("ready", arm=name, load_s=round(took, 2))

    def _stop(self) -> None:
        if self.current is not None:
            self.kept.note("stopping", pid=self.current.pid)
            servers.stop(self.current)
            self.kept.note("stopped", pid=self.current.pid)
            self.current = None

    def _restore(self) -> bool:
        self.told("bringing the original server back")
        return _restore(self.kept, self.plan.url, self.plan.original, self.current, self.told, self.diagnose)


def _restore(
    kept: Journal, url: str, original: Config, current: Process | None, told: Told, diagnose: Diagnose
) -> bool:
    """Stop what runs and start the original; False where that fails, which is said loudly."""
    try:
        kept.note("restoring")
        if current is not None:
            servers.stop(current)
        log = kept.file.with_suffix(".restored.log")
        kept.note("starting", arm="original", log=str(log))
        process = servers.start(original, log)
        kept.note("started", arm="original", pid=process.pid, started=process.started)
        servers.wait_ready(
            process,
            log,
            lambda: asyncio.run(_answers(url)),
            budget_s=MAX_BUDGET_S,
            told=told,
            diagnose=diagnose,
        )
    except StartError as error:
        kept.note("rollback-failed", error=str(error))
        return False
    kept.note("restored", pid=process.pid)
    return True


def roll_back(file: Path, told: Told, diagnose: Diagnose) -> bool:
    """Undo a pending experiment. Raises `BusyError` while it is under way."""
    kept = Journal(file)
    try:
        events = kept.events()
        if events and events[-1]["event"] in journal.ENDINGS:
            return bool(events[-1]["event"] != "rollback-failed")
        planned = events[0]
        original = journal.config_of(planned["original"])
        current, arm = _last_process(events)
        if arm == "A" and current is not None and current.alive() and asyncio.run(_answers(planned["url"])):
            kept.note("restored", pid=current.pid)
            return True
        return _restore(kept, planned["url"], original, current, told, diagnose)
    finally:
        kept.close()


def _last_process(events: Sequence[dict[str, object]]) -> tuple[Process | None, str | None]:
    """The process that ran last, and of which arm; "A" and "original" are the configuration as found."""
    for event in reversed(events):
        if event["event"] == "starting":
            # We died between the start and the note of it: the process is known by its log.
            found = servers.find(Path(str(event["log"])))
            if found is not None:
                return found, "A" if event["arm"] == "original" else str(event["arm"])
        if event["event"] in ("started", "running"):
            arm = str(event.get("arm", "A"))
            return Process(
                int(str(event["pid"])), int(str(event["started"]))
            ), "A" if arm == "original" else arm
    return None, None


def _watcher(file: Path) -> None:
    """A process that waits for the end of this one and undoes the experiment if nobody else did."""
    with (file.parent / "watcher.log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "diagnoser", "confirm", "--watch", str(file), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def watch(file: Path, process: Process, told: Told, diagnose: Diagnose) -> bool:
    """Wait for the end of a process; then undo its experiment, if it is still to be undone."""
    while process.alive():
        time.sleep(0.5)
    events = journal.read(file)
    if not events or events[-1]["event"] in journal.ENDINGS:
        return True
    try:
        return roll_back(file, told, diagnose)
    except journal.BusyError:
        return True  # somebody does it by hand


async def _measure(plan: Plan, runs: int) -> Benchmark:
    async with Client(plan.url, key=os.environ.get("DIAGNOSER_API_KEY")) as client:
        result = await bench(client, replace(plan.load, runs=runs))
    if not result.complete:
        raise KeyboardInterrupt  # it gives what it has when it is interrupted; here that ends the experiment
    return result


async def _answers(url: str) -> bool:
    """Whether a server generates."""
    try:
        async with Client(url, key=os.environ.get("DIAGNOSER_API_KEY"), stall_s=20) as client:
            answer = await client.ask_leniently("Hello", 1)
    except (UnusableError, OSError):
        return False
    failed: str = answer.error
    return not failed


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
