"""Several servers in one call: told apart for judging, put together for the answer."""

from collections.abc import Sequence
from typing import NamedTuple

from diagnoser.facts.base import Evidence
from diagnoser.inference.diagnosis import Finding
from diagnoser.inference.launches import Launch
from diagnoser.inference.reading import Reading
from diagnoser.inference.resolve import ROLE_ORDER

MAX_EVIDENCE = 6

_SERVES = ("opens", "progress", "ready")
_PROCESS = frozenset(["exception", "loader_error", "cuda_error", "cuda_oom", "engine", "exited"])
"""Kinds of facts that only a server's own process states; the rest may be of the host and is shared."""


class Chosen(NamedTuple):
    """A reading and the launch of it that is diagnosed."""

    reading: Reading
    launch: Launch | None


class Scored(NamedTuple):
    """A finding and its weight against findings of other servers."""

    finding: Finding
    score: float


def servers(chosen: Sequence[Chosen]) -> list[list[Chosen]]:
    """One group for each server's log, each with all that is no server's log; one group where there is at most one."""
    own = [one for one in chosen if one.launch is not None and _is_server(one.launch)]
    if len(own) < 2:
        return [list(chosen)]
    shared = [one for one in chosen if one not in own]
    return [[*shared, one] for one in own]


def _is_server(launch: Launch) -> bool:
    return any(launch.marks[mark] for mark in _SERVES) or not _PROCESS.isdisjoint(launch.facts.kinds)


def combine(parts: Sequence[Sequence[Scored]]) -> list[Finding]:
    """The findings of all servers by rank; a rule that holds for several is said once, with the places of all."""
    if len(parts) == 1:
        return [scored.finding for scored in parts[0]]
    every = sorted((scored for part in parts for scored in part), key=_rank)
    combined: dict[tuple[str, str], Finding] = {}
    for finding, _ in every:
        # The same exception behind two failures is two echoes; a rule is one finding.
        key = (finding.rule, finding.title if finding.role == "echo" else "")
        known = combined.get(key)
        if known is None:
            combined[key] = finding
        elif known.role == finding.role:
            combined[key] = known.model_copy(update={"evidence": _both(known.evidence, finding.evidence)})
    return list(combined.values())


def _rank(scored: Scored) -> tuple[int, bool, float, str]:
    finding = scored.finding
    return (ROLE_ORDER[finding.role], finding.severity == "info", -scored.score, finding.rule)


def _both(first: list[Evidence], more: list[Evidence]) -> list[Evidence]:
    places = {(place.document, place.line) for place in first}
    return (first + [place for place in more if (place.document, place.line) not in places])[:MAX_EVIDENCE]
