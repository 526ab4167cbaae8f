"""Signs against facts: three-valued, with counts, windows, sequences and absences."""

from typing import Any

import pytest

from diagnoser.facts.base import Fact
from diagnoser.facts.engine import AttentionBackend, Engine, Message, SeriesStat
from diagnoser.facts.factbase import FactBase, Sighting
from diagnoser.facts.registry import kinds
from diagnoser.inference.case import Case
from diagnoser.inference.evaluate import check, evaluate
from diagnoser.inference.truth import Truth
from diagnoser.rulebook.signs import compile_sign


def case_of(
    *facts: tuple[Fact, int, float | None],
    covered: tuple[str, ...] = ("sglang log",),
    end: float | None = None,
) -> Case:
    base = FactBase()
    for fact, line, at in facts:
        base.add(fact, Sighting("log", line, line, f"line {line}", None, at))
    return Case(base, covered, last_at={"log": end} if end is not None else {})


def truth(sign: dict[str, Any], case: Case) -> Truth:
    return evaluate(compile_sign(sign, kinds()), case).truth


TRITON = AttentionBackend(name="triton", chosen_by="default")


def test_a_fact_that_is_there_supports_and_one_that_is_not_refutes_where_its_document_was_read() -> None:
    case = case_of((TRITON, 1, None))
    assert truth({"fact": "attention_backend", "name": "triton"}, case) is Truth.YES
    assert truth({"fact": "attention_backend", "name": "fa3"}, case) is Truth.NO
    assert truth({"fact": "attention_backend", "name": ["fa3", "Triton"]}, case) is Truth.YES
    assert truth({"fact": "gpu", "under_load": True}, case) is Truth.UNKNOWN
    assert truth({"fact": "attention_backend", "name": "fa3"}, case_of(covered=())) is Truth.UNKNOWN


def test_a_value_that_is_not_shown_leaves_the_sign_open() -> None:
    case = case_of((Engine(name="sglang"), 1, None))
    assert truth({"fact": "engine", "name": "sglang", "version": {"spec": ">=0.5"}}, case) is Truth.UNKNOWN
    assert truth({"fact": "engine", "name": "vllm", "version": {"spec": ">=0.5"}}, case) is Truth.NO
    assert truth({"none": [{"fact": "gpu", "under_load": True}]}, case) is Truth.UNKNOWN


@pytest.mark.parametrize(
    ("value", "operator", "operand", "wanted"),
    [
        (0.99, "ge", 0.9, Truth.YES),
        ("0.99", "gt", 1, Truth.NO),
        (None, "ge", 0.9, Truth.UNKNOWN),
        (None, "exists", False, Truth.YES),
        ("2.9.1", "spec", "<2.10", Truth.YES),
        ("/usr/local/cuda-12.8", "contains", "CUDA-12", Truth.YES),
        ("TRITON_ATTN", "matches", "^TRITON", Truth.YES),
        (True, "eq", True, Truth.YES),
        ("True", "eq", True, Truth.YES),
        (1, "eq", True, Truth.NO),
        ("8", "in", [8, 9], Truth.YES),
        ("8", "not_in", [8, 9], Truth.NO),
    ],
)
def test_operators(value: Any, operator: str, operand: Any, wanted: Truth) -> None:
    assert check(value, operator, operand) is wanted


def test_counts_and_windows() -> None:
    said = [(Message(id="retracted"), line, 60.0 * line) for line in range(1, 11)]
    case = case_of(*said)
    assert truth({"message": "retracted", "count": ">=10"}, case) is Truth.YES
    assert truth({"message": "retracted", "count": ">10"}, case) is Truth.NO
    assert truth({"message": "retracted", "count": ">=5", "within": "5m"}, case) is Truth.YES
    assert truth({"message": "retracted", "count": ">=6", "within": "5m"}, case) is Truth.NO


def test_a_sequence_needs_the_order_and_the_time() -> None:
    first, second = (Message(id="a"), 1, 100.0), (Message(id="b"), 2, 130.0)
    sign = {"sequence": [{"message": "a"}, {"message": "b"}], "within": "60s"}
    assert truth(sign, case_of(first, second)) is Truth.YES
    assert truth({**sign, "within": "10s"}, case_of(first, second)) is Truth.NO
    swapped = {"sequence": [{"message": "b"}, {"message": "a"}], "within": "60s"}
    assert truth(swapped, case_of(first, second)) is Truth.NO


def test_an_absence_needs_a_log_that_goes_on_long_enough() -> None:
    sign = {"after": {"message": "begin"}, "absent": {"message": "end"}, "within": "60s"}
    begin, end = (Message(id="begin"), 1, 0.0), (Message(id="end"), 2, 30.0)
    assert truth(sign, case_of(begin, end, end=500.0)) is Truth.NO
    assert truth(sign, case_of(begin, end=500.0)) is Truth.YES
    assert truth(sign, case_of(begin, end=20.0)) is Truth.UNKNOWN


def test_fields_can_be_compared_with_each_other() -> None:
    stat = SeriesStat(
        metric="decode_tok_s", count=9, min=1, p05=2, median=50, p95=90, max=99, first=90, last=10
    )
    case = case_of((stat, 1, None))
    assert truth({"fact": "series", "metric": "decode_tok_s", "last": {"below": "first"}}, case) is Truth.YES
    assert truth({"fact": "series", "metric": "decode_tok_s", "last": {"above": "first"}}, case) is Truth.NO
