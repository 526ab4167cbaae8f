"""Who does the work. An engine gives a row for every incident, in any order; what fails is tried again, then told."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from diagnoser.agent.scan.incidents import Incident, Row, Settings


class Policy(NamedTuple):
    """attempts: how often an incident is tried before it counts as poisoned. timeout_s: for one attempt."""

    attempts: int = 3
    timeout_s: float = 900.0


class EngineError(Exception):
    """The engine cannot be used; the message is one sentence."""


class Engine(Protocol):
    """Rows come as they are done. Ending the iteration ends the work."""

    def rows(
        self, incidents: Iterable[Incident], settings: Settings, policy: Policy
    ) -> Iterator[tuple[Incident, Row]]: ...


class Tries:
    """How often each incident has failed, and how."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._failed: dict[str, int] = {}

    def again(self, incident: Incident) -> bool:
        """Note a failure; whether another attempt is due."""
        self._failed[incident.name] = self._failed.get(incident.name, 0) + 1
        return self._failed[incident.name] < self._policy.attempts

    def told(self, reason: str) -> str:
        """The sentence for the row of an incident that is given up."""
        times = "once" if self._policy.attempts == 1 else f"{self._policy.attempts} times"
        return f"{reason}, {times}; it is set apart: run `diagnose` on it alone"
