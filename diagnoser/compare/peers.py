"""The host that differs from its peers, and whether a rule says that the difference matters."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from diagnoser.compare.subjects import Stated, Subject, Value, alike, same

MIN_PEERS = 3
"""Of two hosts nobody can say which one is odd."""

MAJORITY = 0.6
"""How many of the hosts that tell must agree before one that does not is called odd."""


class Deviation(NamedTuple):
    """One host says something else than most. rules: the fired rules whose signs read such facts."""

    host: str
    subject: Subject
    stated: Stated
    usual: Value
    agree: int
    told: int
    rules: tuple[str, ...]


def deviations(
    hosts: Mapping[str, Mapping[Subject, Stated]], fired: Mapping[str, Mapping[str, Collection[str]]]
) -> list[Deviation]:
    """What sets single hosts apart: those that a rule ties to a cause first, then the rarest.

    hosts: host -> what it stated (`compare.subjects.stated`). fired: host -> rule id -> the fact kinds it read.
    """
    found: list[Deviation] = []
    for subject in {subject: None for said in hosts.values() for subject in said}:
        told = {host: said[subject] for host, said in hosts.items() if subject in said}
        if len(told) < MIN_PEERS:
            continue
        usual, agree = _usual(subject, [one.value for one in told.values()])
        if agree < MAJORITY * len(told):
            continue
        for host, one in told.items():
            if not same(subject, (one.value, usual)):
                rules = tuple(
                    sorted(rule for rule, kinds in fired.get(host, {}).items() if subject.kind in kinds)
                )
                found.append(Deviation(host, subject, one, usual, agree, len(told), rules))
    found = alike(found, lambda one: (one.host, one.stated.value, one.usual))
    found.sort(key=lambda one: (not one.rules, -one.agree / one.told, one.host, one.subject))
    return found


def _usual(subject: Subject, values: list[Value]) -> tuple[Value, int]:
    """The value that most agree with, and how many do."""
    agree = Counter({value: sum(same(subject, (value, other)) for other in values) for value in values})
    most = max(agree.values())
    return min((value for value in agree if agree[value] == most), key=str), most
