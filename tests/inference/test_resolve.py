"""Roles and order: pure, whatever the order of the input."""

import random
from typing import Any

from diagnoser.facts.factbase import Sighting
from diagnoser.inference.candidates import Candidate
from diagnoser.inference.resolve import resolve


def candidate(rule: str, confidence: float = 0.9, severity: str = "high", line: int = 1) -> Candidate:
    return Candidate(rule, True, confidence, severity, (Sighting("log", line, line, ""),), ())


def cause(
    kind: str = "cause",
    effect: str = "decode_slower",
    explained: tuple[str, ...] = (),
    excludes: tuple[str, ...] = (),
) -> dict[str, Any]:
    return {"kind": kind, "effect": effect, "explained": list(explained), "excludes": list(excludes)}


CAUSES = {
    "triton": cause(explained=("slow-decode",)),
    "slow-decode": cause("symptom"),
    "ue8m0": cause("bystander", "none"),
    "libnvrtc": cause(effect="startup_failure", explained=("died",), excludes=("missing-library",)),
    "missing-library": cause(effect="startup_failure", explained=("died",)),
    "died": cause("symptom", "startup_failure"),
}


def roles(*found: Candidate, started: bool | None = None) -> list[tuple[str, str, str | None]]:
    shuffled = list(found)
    orders = []
    for seed in range(5):
        random.Random(seed).shuffle(shuffled)
        orders.append(
            [
                (one.candidate.rule, one.role, one.because_of)
                for one in resolve(shuffled, CAUSES, started=started)
            ]
        )
    assert all(order == orders[0] for order in orders)
    return orders[0]


def test_a_symptom_is_folded_under_its_cause_and_bystanders_come_last() -> None:
    assert roles(candidate("slow-decode"), candidate("ue8m0"), candidate("triton", 0.8)) == [
        ("triton", "root", None),
        ("slow-decode", "consequence", "triton"),
        ("ue8m0", "bystander", None),
    ]


def test_a_symptom_without_a_cause_is_a_root() -> None:
    assert roles(candidate("slow-decode")) == [("slow-decode", "root", None)]


def test_the_specific_cause_beats_the_generic_one() -> None:
    order = roles(candidate("missing-library", 0.97), candidate("died"), candidate("libnvrtc", 0.95))
    assert order[0] == ("libnvrtc", "root", None)
    assert {(rule, because) for rule, role, because in order[1:]} == {
        ("missing-library", "libnvrtc"),
        ("died", "libnvrtc"),
    }


def test_a_server_that_died_at_start_is_explained_by_what_kills_and_not_by_what_slows() -> None:
    order = roles(candidate("triton", 0.95), candidate("missing-library", 0.6), started=False)
    assert order[0][0] == "missing-library"
    order = roles(candidate("triton", 0.6), candidate("missing-library", 0.6), started=True)
    assert order[0][0] == "triton"


def test_an_unlikely_cause_explains_nothing() -> None:
    assert roles(candidate("triton", 0.2), candidate("slow-decode", 0.9))[0][:2] == ("slow-decode", "root")
