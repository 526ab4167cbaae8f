"""Who does the work. An engine gives a result for every job, in any order; what fails is tried again, then told."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from diagnoser.agent.scan.incidents import Settings, failed
from diagnoser.agent.scan.work import Job, Result


class Policy(NamedTuple):
    """attempts: how often an incident is tried before it counts as poisoned. timeout_s: for one attempt."""

    attempts: int = 3
    timeout_s: float = 900.0


class EngineError(Exception):
    """The engine cannot be used; the message is one sentence."""


class Engine(Protocol):
    """Results come as they are done; a job that is given up has the row that says why. Ending the iteration ends the
    work. While jobs run, ``jobs`` is asked again: what they give may be more work."""

    def results(
        self, jobs: Iterable[Job], settings: Settings, policy: Policy
    ) -> Iterator[tuple[Job, Result]]: ...


class Tries:
    """The jobs in line, and how often each has failed: those that failed come first."""

    def __init__(self, jobs: Iterable[Job], policy: Policy) -> None:
        self._waiting = iter(jobs)
        self._policy = policy
        self._again: deque[Job] = deque()
        self._failed: Counter[str] = Counter()

    def next(self) -> Job | None:
        """The job whose turn it is; None where none waits now."""
        return self._again.popleft() if self._again else next(self._waiting, None)

    def ended(self, job: Job, result: Result | None, reason: str | None) -> Result | None:
        """The result of a job; None where it failed, for ``reason``, and is tried again.

        A job that failed too often has the row that says so.
        """
        if reason is None:
            return result
        self._failed[job.name] += 1
        if self._failed[job.name] < self._policy.attempts:
            self._again.append(job)
            return None
        times = "once" if self._policy.attempts == 1 else f"{self._policy.attempts} times"
        return failed(job.incident, f"{reason}, {times}; it is set apart: run `diagnose` on it alone")
