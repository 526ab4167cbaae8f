"""Seeded experiments through the whole code path: plan, journal, launches, load, guards, looks, verdict, roll-back.

Only what lies outside is simulated: the machine's shell, and the server's answers, whose times are drawn and not waited
for. A launch has a luck of its own, a run scatters within it.
"""

import asyncio
import math
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from diagnoser.experiment import confirm, history, measuring, recovery
from diagnoser.experiment.change import Change, Config
from diagnoser.experiment.confirm import Outcome
from diagnoser.experiment.hands import Hands
from diagnoser.experiment.launchers.process import ProcessLauncher
from diagnoser.experiment.load import bench
from diagnoser.experiment.load.answer import Answer
from diagnoser.experiment.load.bench import Plan as Load
from diagnoser.experiment.load.client import Client
from diagnoser.experiment.plan import Plan
from diagnoser.experiment.starting import Reader
from diagnoser.experiment.statistics import Noise, Verdict
from diagnoser.sources.hosts.channel import Output, Reply, now

RATE = 100.0


@dataclass
class World:
    """What is true: the gain of the change, and how launches and runs scatter (standard deviations of logarithms)."""

    gain: float
    launch_sd: float
    run_sd: float
    seed: int
    rate: float = RATE
    changed: bool = False
    luck: float = 0.0
    starts: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)

    def start(self, changed: bool) -> None:
        self.changed, self.luck = changed, self.dice.gauss(0, self.launch_sd)
        self.starts.append(changed)

    def rate_now(self) -> float:
        """Tokens per second of one run."""
        gain = math.log1p(self.gain) if self.changed else 0.0
        return self.rate * math.exp(gain + self.luck + self.dice.gauss(0, self.run_sd))


class Machine:
    """A machine whose shell does what the scripts ask, at once."""

    name = "simulated"

    def __init__(self, world: World) -> None:
        self._world = world

    def execute(
        self, line: str, *, timeout_s: float = 20.0, limit_bytes: int = 0, stdin: bytes = b""
    ) -> Output:
        out, code = b"", 0
        if stdin.startswith(b"umask 077\nf=") and b"start.sh" in stdin:
            self._world.start(b"--fast" in stdin)
            out = b"1 1\n"
        elif b"undo.sh" in stdin and stdin.startswith(b"sh "):
            self._world.start(False)
        elif b"mkdir -p" in stdin and b"experiments" in stdin:
            out = b"/experiment\n"
        elif b"nvidia-smi" in stdin:
            code = 127
        return Output(out, b"", code, 0.0, now())

    def fetch(self, port: int, path: str, *, timeout_s: float = 5.0, limit_bytes: int = 0) -> Reply:
        return Reply(404, b"")

    def close(self) -> None:
        """Nothing is held."""


def client_of(world: World) -> type[Client]:
    """A client whose answers are drawn: all tokens of a run come at its rate."""

    class Drawn(Client):
        async def get(self, path: str) -> tuple[int, str]:
            return (200, '{"data": [{"id": "tiny"}]}') if path == "/v1/models" else (404, "")

        async def ask(self, prompt: str, tokens: int) -> Answer:
            await asyncio.sleep(0)
            sent = time.perf_counter()
            whole = tokens / world.rate_now()
            times = [sent + whole * (at + 1) / tokens for at in range(tokens)]
            return Answer(
                sent_s=sent, first_s=times[0], last_s=times[-1], prompt_tokens=len(prompt.split()), output_tokens=tokens,
                cached_tokens=0, counted_by="usage", arrivals_s=times, text_sha256="x",
            )  # fmt: skip

    return Drawn


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIAGNOSER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("DIAGNOSER_AUDIT", str(tmp_path / "audit.jsonl"))
    monkeypatch.setattr(recovery, "watcher", lambda file: None)
    # Simulated time has no client that could be too slow, and no second to wait for.
    monkeypatch.setattr(bench.guards, "client_bound", lambda watch: [])
    monkeypatch.setattr(history, "noise", lambda host: lambda metric: Noise())


def experiment(world: World, monkeypatch: pytest.MonkeyPatch, gap: float | None = None) -> Outcome:
    monkeypatch.setattr(measuring, "Client", client_of(world))
    world.start(False)
    plan = Plan(
        host="simulated", url="http://127.0.0.1:1", launcher=ProcessLauncher(Config(("serve",), "/")),
        changes=(Change("set_flag", "--fast"),), workload="decode_single_stream", metric="output_tok_s_wall",
        load=Load(prompt_tokens=8, output_tokens=16), gap=gap, running=(1, 1), was_up=True,
    )  # fmt: skip
    hands = Hands(lambda: Machine(world), "simulated", local=True)
    return confirm.run(plan, hands, lambda words: None, Reader(lambda log: None, lambda log: None))


def test_an_experiment_that_is_drawn_goes_the_whole_way(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(gain=0.10, launch_sd=0.001, run_sd=0.001, seed=1)
    outcome = experiment(world, monkeypatch)
    assert outcome.verdict is Verdict.CONFIRMED
    assert outcome.last is not None
    assert outcome.last.interval.effect == pytest.approx(0.10, abs=0.01)
    assert outcome.restored
    assert world.starts == [False, True, False]  # as it ran, with the change, as it was


@pytest.mark.parametrize(
    ("before", "after", "first"), [(83.9, 92.6, Verdict.CONFIRMED), (89.5, 92.6, Verdict.INCONCLUSIVE)]
)
def test_the_story_is_judged_again(
    monkeypatch: pytest.MonkeyPatch, before: float, after: float, first: Verdict
) -> None:
    """83.9 to 92.6 tok/s is confirmed after one restart; 89.5 to 92.6 is not, after one launch each."""
    world = World(gain=after / before - 1, launch_sd=0.0, run_sd=0.00126, seed=5, rate=before)
    outcome = experiment(world, monkeypatch)
    (look, *_) = [one for one in confirm.journal.read(outcome.journal) if one["event"] == "look"]
    assert look["verdict"] == first.value
    assert look["effect"] == pytest.approx(after / before - 1, abs=0.005)
    assert outcome.last is not None
    assert (outcome.last.pairs == 1) is (first is Verdict.CONFIRMED)


def share(wanted: Verdict, gain: float, trials: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """The percentage of experiments that end in a verdict, at launch noise 0.5 % and runs that scatter by 0.5 %."""
    ended = 0
    for seed in range(trials):
        outcome = experiment(World(gain, launch_sd=0.005, run_sd=0.005, seed=seed), monkeypatch, gap=0.067)
        assert outcome.restored
        ended += outcome.verdict is wanted
    return 100 * ended / trials


@pytest.mark.slow
def test_no_more_than_two_percent_are_confirmed_where_nothing_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert share(Verdict.CONFIRMED, 0.0, 200, monkeypatch) <= 2


@pytest.mark.slow
def test_at_least_95_percent_of_effects_of_ten_percent_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert share(Verdict.CONFIRMED, 0.10, 200, monkeypatch) >= 95
