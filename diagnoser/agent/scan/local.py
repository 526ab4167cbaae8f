"""The engine of one machine: a process a worker, each with one job at a time, so that a dead one costs one try."""

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from diagnoser.agent.scan.engines import Policy, Tries
from diagnoser.agent.scan.incidents import Settings
from diagnoser.agent.scan.work import Job, Result, work
from diagnoser.agent.session import catalog_of

_LOOK_S = 1.0


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    job: Job | None = None
    deadline: float = 0.0

    def give(self, job: Job, timeout_s: float) -> None:
        self.job, self.deadline = job, time.monotonic() + timeout_s
        self.pipe.send(job)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


class LocalEngine:
    """``workers`` processes of this machine."""

    def __init__(self, workers: int) -> None:
        self._count = workers
        # A forked worker has the compiled rules already.
        self._context = get_context("fork" if sys.platform == "linux" else None)

    def results(
        self, jobs: Iterable[Job], settings: Settings, policy: Policy
    ) -> Iterator[tuple[Job, Result]]:
        catalog_of(settings.options)
        tries = Tries(jobs, policy)
        team: list[_Worker] = []
        try:
            while True:
                while len(team) < self._count or any(one.job is None for one in team):
                    job = tries.next()
                    if job is None:
                        break
                    free = next((one for one in team if one.job is None), None)
                    if free is None:
                        team.append(free := self._start(settings))
                    free.give(job, policy.timeout_s)
                busy = [one for one in team if one.job is not None]
                if not busy:
                    return
                for worker in self._done(busy):
                    job = worker.job
                    assert job is not None
                    result, reason = self._answer(worker)
                    if reason is not None:
                        team.remove(worker)
                        worker.end()
                    final = tries.ended(job, result, reason)
                    if final is not None:
                        yield job, final
        finally:
            for worker in team:
                worker.end()

    def close(self) -> None:
        """Nothing outlives `rows`."""

    def _start(self, settings: Settings) -> _Worker:
        mine, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, settings), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, mine)

    def _done(self, busy: list[_Worker]) -> list[_Worker]:
        """Workers that have answered, died, or run out of time."""
        ready = wait([one.pipe for one in busy], _LOOK_S)
        now = time.monotonic()
        return [one for one in busy if one.pipe in ready or now > one.deadline]

    @staticmethod
    def _answer(worker: _Worker) -> tuple[Result | None, str | None]:
        """The row; or None and what went wrong."""
        if not worker.pipe.poll():
            return None, "reading it took too long"
        try:
            row, reason = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join(1)
            code = worker.process.exitcode
            return None, f"the process that read it was ended ({_how(code)})"
        worker.job = None
        return row, reason


def _how(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _work(pipe: Connection, settings: Settings) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver ends its workers itself
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer: tuple[Result | None, str | None] = (work(job, settings), None)
        except Exception as error:  # whatever it is, it is this job's
            answer = (None, f"reading it failed: {type(error).__name__}: {str(error)[:200]}")
        pipe.send(answer)
