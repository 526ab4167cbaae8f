"""The confirming experiment: as found, with the change, in turn, until the verdict stands; then back to what was.

    plan -> A1 -> B1 -> look -> (A2 -> B2 -> look -> (A3 -> B3 -> look)) -> verdict -> as found, or kept

Every step is in the journal before it is taken. `diagnoser.experiment.recovery` undoes or goes on with an experiment
that was cut.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from diagnoser.compare.effects import effect_text
from diagnoser.experiment import history, journal, measuring, starting
from diagnoser.experiment.change import Changes, told
from diagnoser.experiment.guards.gpus import Smi
from diagnoser.experiment.guards.launch import LaunchGuard, Record
from diagnoser.experiment.hands import Hands, HandsError
from diagnoser.experiment.journal import BusyError, Journal
from diagnoser.experiment.launchers.process import adopt
from diagnoser.experiment.load.client import UnusableError
from diagnoser.experiment.measuring import Measured, VoidError
from diagnoser.experiment.outpost import Heart, Outpost, settle
from diagnoser.experiment.plan import Plan
from diagnoser.experiment.results import Benchmark
from diagnoser.experiment.starting import Log, Reader, StartError, Told
from diagnoser.experiment.statistics import LOWER_IS_BETTER, Arm, Launch, Look, Verdict, look
from diagnoser.experiment.tunnel import Tunnel
from diagnoser.sources.hosts.channel import ChannelError

MAX_CHAINED = 4
"""How many fixes of failed starts are tried one after another."""

MIN_BUDGET_S, MAX_BUDGET_S = 900.0, 1800.0


class Outcome(NamedTuple):
    """How it ended. verdict None: it was rolled back before there was one. error: why. restored: whether the original
    server runs again; None: the changed one was kept. results: the benchmarks of every launch. journal: where all of
    it is written. notes: what the guards said that made nothing void. plan: as it was in the end."""

    verdict: Verdict | None
    last: Look | None
    error: str | None
    restored: bool | None
    results: list[tuple[Arm, Benchmark]]
    journal: Path
    notes: list[str]
    plan: Plan


def run(plan: Plan, hands: Hands, told: Told, reader: Reader) -> Outcome:
    """Do it.

    Raises `BusyError` before anything is touched, OSError where no journal can be kept, `ChannelError` or `HandsError`
    where the machine cannot be prepared.
    """
    if journal.pending(plan.host):
        raise BusyError("an earlier experiment was not ended; bring its server back with --rollback first")
    outpost = settle(hands, plan.launcher)
    kept = Journal(journal.new_file())
    try:
        return Experiment(plan, outpost, kept, told, reader).begin()
    finally:
        kept.close()


class StartedError(RuntimeError):
    """Not an error of the server: it came up with the fix of its failed start, and its log asks for nothing more."""


class Experiment:
    """One experiment, from its beginning or from where its journal ends."""

    def __init__(self, plan: Plan, outpost: Outpost, kept: Journal, told: Told, reader: Reader) -> None:
        self.plan = plan
        self.outpost = outpost
        self.kept = kept
        self.told = told
        self.reader = reader
        self.results: list[tuple[Arm, Benchmark]] = []
        self.launches: list[Launch] = []
        self.load_s = 0.0
        self.starts = 0
        self.running = False
        self.chained = 0
        self.log: Log | None = None
        self.noise = history.noise(plan.host)
        self.url = plan.url
        self.guard = LaunchGuard(Smi(outpost.hands), plan.load, told)

    def begin(self) -> Outcome:
        """From the beginning."""
        from diagnoser.experiment.recovery import watcher

        plan = self.plan
        if not plan.remote:
            watcher(self.kept.file)  # stands by before there is anything to undo
        self.kept.note(
            "planned", plan=plan.plain(), folder=self.outpost.folder, controller=list(journal.ourselves())
        )
        try:
            self.outpost.equip(dead_man_s=plan.dead_man_s if plan.remote else None)
            self.kept.note("prepared")
            self._adopt()
        except (BusyError, ChannelError, HandsError):
            self.kept.note("restored", why="nothing was touched")
            raise
        return self.all()

    def go_on(self, events: Sequence[dict[str, Any]]) -> Outcome:
        """From where the journal ends: launches that were measured count, one that was cut is made again."""
        for event in events:
            if event["event"] == "measured":
                self.launches.append(Launch(Arm(event["arm"]), tuple(event["values"])))
                self.guard.records.append(Record.from_plain(event["record"]))
            elif event["event"] == "ready":
                self.load_s = max(self.load_s, event["load_s"])
            elif event["event"] == "starting":
                self.starts += 1
        touched = any(event["event"] in ("stopping", "starting") for event in events)
        self.kept.note("resumed", launches=len(self.launches), controller=list(journal.ourselves()))
        self.outpost.equip(
            dead_man_s=self.plan.dead_man_s if self.plan.remote else None, down=self.plan.ends_down
        )
        if not touched:
            self._adopt()
        return self.all()

    def _adopt(self) -> None:
        """Take over the server that runs already."""
        if self.plan.running is not None:
            self.kept.note("running", pid=self.plan.running[0], started=self.plan.running[1])
            self.outpost.hands.do(adopt(self.outpost.folder, *self.plan.running), "note the running server")
        self.running = self.plan.was_up

    def all(self) -> Outcome:
        """Launches and looks until the verdict stands, then the end."""
        plan = self.plan
        with ExitStack() as stack:
            self.open(stack)
            last: Look | None = None
            verdict: Verdict | None = None
            error: str | None = None
            cut = False
            try:
                verdict, last = self._decide()
            except StartedError:
                # It did not start as found, and with the fix it does: both were seen.
                verdict = Verdict.CONFIRMED
                self.plan = plan = self.plan._replace(changes=self.plan.base)
            except VoidError as caught:
                verdict, error = Verdict.VOID, str(caught)
            except (StartError, UnusableError, HandsError) as caught:
                error = str(caught)
            except ChannelError as caught:
                error, cut = str(caught), True
            except KeyboardInterrupt:
                error, cut = "interrupted", True
            if error and not cut and (lost := self._lost()):
                # Requests that failed because the way to the server was cut say nothing of the server.
                verdict, error, cut = None, lost, True
            if verdict is not None:
                self.kept.note("verdict", verdict=verdict.value, why=error)
            elif not cut:
                self.kept.note("gave-up", why=error)
            if verdict is Verdict.CONFIRMED and plan.keep_fix:
                self.kept.note("kept", verdict=verdict.value)
                self.outpost.end()
                return Outcome(
                    verdict, last, None, None, self.results, self.kept.file, self.guard.notes, self.plan
                )
            restored = self._restore()
            return Outcome(
                verdict, last, error, restored, self.results, self.kept.file, self.guard.notes, self.plan
            )

    def _lost(self) -> str | None:
        """The sentence why the machine cannot be reached any more, or None."""
        try:
            self.outpost.hands.run("true", "see whether the machine is there", timeout_s=10, often=True)
        except ChannelError as error:
            return str(error)
        return None

    def _decide(self) -> tuple[Verdict, Look | None]:
        """Launches in turn, with a look after each pair, until the verdict stands."""
        while True:
            if self.launches and len(self.launches) % 2 == 0:
                last = self._look()
                if last.final:
                    return last.verdict, last
            self._launch(Arm.B if len(self.launches) % 2 else Arm.A)

    def _look(self) -> Look:
        plan = self.plan
        lower = plan.metric in LOWER_IS_BETTER
        last = look(self.launches, lower_is_better=lower, noise=plan.noise, gap=plan.gap)
        found = last.interval
        self.kept.note("look", verdict=last.verdict.value, **found._asdict())
        by = effect_text(found.effect, found.low, found.high)
        self.told(f"look {last.pairs}: {last.verdict.value}, {by}")
        return last

    def _launch(self, arm: Arm) -> None:
        """One start of an arm (the first of A may be running already) and its runs."""
        name = f"{arm.value}{len(self.launches) // 2 + 1}"
        if not (self.running and not self.launches):
            self._stop()
            self._start_chained(name, arm)
            if self.starts == 1 + self.chained and arm is Arm.A:
                self._not_the_first(name)
        else:
            self._look_at_running()
        measured = self._measure(name, arm, self.plan.changes)
        self.launches.append(Launch(arm, tuple(measured.values)))

    def _measure(self, name: str, arm: Arm, changes: Changes) -> Measured:
        """The runs of the server that is up. changes: between this arm and the other."""
        self.kept.note("measuring", arm=arm.value)
        self.told(f"{name}: measuring")
        measured = measuring.launch(self.url, self.plan.load, self.plan.metric, self.guard.watch)
        self.results += [(arm, one) for one in measured.results]
        record = self.guard.judge(name, arm, measured, changes)
        self.kept.note("measured", arm=arm.value, values=measured.values, record=record.plain())
        history.add(self.plan.host, measured.identity, self.plan.load, self.plan.metric, measured.values)
        return measured

    def _look_at_running(self) -> None:
        """What is known of a server that ran before us; its log from here on, where that is a file."""
        log = None
        if self.plan.running_log or self.plan.running is None:
            log = Log(self.outpost, "running", self.kept.log("running"), self.plan.running_log)
            log.skip()
        self.guard.found_running(log)

    def changes(self, arm: Arm) -> Changes:
        """What an arm is started with."""
        return self.plan.base if arm is Arm.A else (*self.plan.base, *self.plan.changes)

    def _start_chained(self, name: str, arm: Arm) -> None:
        """Start an arm; in a chain a start that fails gets the fix of its own cause, until it comes up."""
        while True:
            try:
                self._start(name, self.changes(arm))
                break
            except StartError as error:
                fix = error.diagnosed.fix if error.diagnosed else ()
                known = set(self.changes(Arm.B))
                first = len(self.launches) < 2
                if not (self.plan.chain and fix and first) or known & set(fix) or self.chained >= MAX_CHAINED:
                    raise
                self.chained += 1
                self.told(f"{name}: {error}; tried next: {told(fix)}")
                self._stop()
                if arm is Arm.A:
                    self._replan(self.plan._replace(base=(*self.plan.base, *fix)))
                else:
                    self._replan(self.plan._replace(changes=(*self.plan.changes, *fix)))
        if not self.plan.changes:
            self._choose(name)

    def _not_the_first(self, name: str) -> None:
        """The first start of a version on a machine fills caches and is no arm: start once more."""
        who = measuring.who(self.url)
        if who.engine is None or history.started_before(self.plan.host, who):
            return
        history.add(self.plan.host, who, self.plan.load, self.plan.metric, [])
        version = f"{who.engine} {who.version}" if who.version else who.engine
        self.told(f"{name}: the first start of {version} here fills caches and does not count; once more")
        self._stop()
        self._start(name, self.changes(Arm.A))

    def _choose(self, name: str) -> None:
        """The server is up and nothing is to be tested yet: what its log says is. Raises `StartedError`."""
        found = self.reader.slow(self.log.copy) if self.log else None
        if found is None or set(found.changes) & set(self.plan.base):
            raise StartedError
        self.told(f"{name}: {found.rule}; put to the test: {told(found.changes)}")
        self._replan(self.plan.testing(found.changes, found.workload, self.noise))
        self.guard.streams(self.plan.load)

    def _replan(self, plan: Plan) -> None:
        self.plan = plan
        self.kept.note("replanned", plan=plan.plain())

    def _start(self, name: str, changes: Changes) -> None:
        self.starts += 1
        log = Log(self.outpost, f"{name}-{self.starts}", self.kept.log(f"{name}-{self.starts}"))
        self.kept.note("starting", arm=name, changes=[list(one) for one in changes], log=str(log.copy))
        self.log = log
        self.guard.before_start(name)
        self.told(f"{name}: starting, {told(changes)}")
        starting.start(self.outpost, changes, log)
        self.kept.note("started", arm=name)
        took = self._ready(log, min(max(2 * self.load_s, MIN_BUDGET_S), MAX_BUDGET_S), name)
        self.guard.ready(name, log)
        self.load_s = max(self.load_s, took)
        self.kept.note("ready", arm=name, load_s=round(took, 2))

    def _ready(self, log: Log, budget_s: float, name: str) -> float:
        return starting.wait_ready(
            self.outpost,
            log,
            lambda: measuring.answers(self.url),
            budget_s=budget_s,
            told=lambda line: self.told(f"{name}: {line}"),
            fatal=self.reader.fatal,
        )

    def _stop(self) -> None:
        self.kept.note("stopping")
        self.guard.stopping()
        starting.stop(self.outpost)
        self.running = False
        self.kept.note("stopped")
        starting.wait_free(self.outpost, self.plan.port)

    def open(self, stack: ExitStack) -> None:
        """Give signs of life, and find the way to a server of another machine."""
        if self.plan.remote:
            stack.enter_context(Heart(self.outpost, self.plan.dead_man_s / 6))
            self.url = self._reached(stack)

    def _reached(self, stack: ExitStack) -> str:
        """The URL under which a server of another machine is reached from here."""
        from urllib.parse import urlsplit

        parts = urlsplit(self.plan.url)
        if parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            return self.plan.url
        tunnel = Tunnel(self.outpost.hands.dial_port, self.plan.port)
        stack.callback(tunnel.close)
        return f"{parts.scheme}://127.0.0.1:{tunnel.local}{parts.path}"

    def _restore(self) -> bool:
        self.told("bringing the original server back")
        return self.restore()

    def restore(self) -> bool:
        """Bring the server back as found and see that it answers; False where that fails, which is said loudly."""
        try:
            self.kept.note("restoring")
            self.outpost.hands.again()
            self.outpost.undo()
            if not self.plan.ends_down:
                log = Log(self.outpost, "restored", self.kept.log("restored"))
                self._ready(log, MAX_BUDGET_S, "original")
            self.outpost.end()
        except (StartError, HandsError, ChannelError) as error:
            self.kept.note("rollback-failed", error=str(error))
            self.told(str(error))
            return False
        self.kept.note("restored")
        return True
