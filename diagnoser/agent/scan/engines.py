"""Who does the work. An engine gives a result for every job, in any order; what fails is tried again, then told."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from diagnoser.agent.scan.incidents import Settings
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
    """How often each job has failed, and how."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._failed: dict[str, int] = {}

    def again(self, job: Job) -> bool:
        """Note a failure; whether another attempt is due."""
        self._failed[job.name] = self._failed.get(job.name, 0) + 1
        return self._failed[job.name] < self._policy.attempts

    def told(self, reason: str) -> str:
        """The sentence for the row of an incident that is given up."""
        times = "once" if self._policy.attempts == 1 else f"{self._policy.attempts} times"
        return f"{reason}, {times}; it is set apart: run `diagnose` on it alone"
