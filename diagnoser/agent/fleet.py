"""Many machines at once: each diagnosed by itself, then the one that differs from its peers."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from diagnoser.agent.investigate import Investigation
from diagnoser.compare.peers import Deviation, deviations
from diagnoser.compare.subjects import Stated, Subject, stated
from diagnoser.facts.factbase import merge_all
from diagnoser.inference.diagnose import Judged
from diagnoser.sources.hosts.channel import ChannelError

AT_ONCE = 32
"""Machines at a time; each has its own connection, and most of the time is spent waiting for them."""


class Fleet(NamedTuple):
    """All machines in the order they were named, and how single ones differ from the rest."""

    machines: list[Investigation]
    deviations: list[Deviation]


def survey(
    targets: Sequence[str],
    look: Callable[[str], Investigation],
    done: Callable[[Investigation], None] | None = None,
    at_once: int = AT_ONCE,
) -> Fleet:
    """Look at every machine; one that cannot be reached is a row, not an end."""

    def one(target: str) -> Investigation:
        try:
            found = look(target)
        except ChannelError as error:
            found = Investigation(target, None, error=str(error).removeprefix(f"{target}: "))
        if done is not None:
            done(found)
        return found

    with ThreadPoolExecutor(min(at_once, max(1, len(targets)))) as pool:
        machines = list(pool.map(one, targets))
    judged = {machine.host: machine.judged for machine in machines if machine.judged is not None}
    said = {host: _stated(answer) for host, answer in judged.items()}
    return Fleet(machines, deviations(said, {host: _fired(answer) for host, answer in judged.items()}))


def _stated(judged: Judged) -> dict[Subject, Stated]:
    return stated(merge_all(part.case.facts for part in judged.parts))


def _fired(judged: Judged) -> dict[str, set[str]]:
    """Rules that fired, with the kinds of the facts that made them fire."""
    return {
        item.candidate.rule: {fact.kind for fact in item.candidate.facts}
        for part in judged.parts
        for item in part.ranked
        if item.role in ("root", "consequence")
    }
