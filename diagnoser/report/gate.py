"""The answer of a gate: text for the pipeline's log, JSON, and JUnit."""

import json
from collections.abc import Iterator
from typing import Any

from diagnoser.compare.gate import Gate
from diagnoser.report.outlets.junit import Failure, failure_of, suite
from diagnoser.sources import escaped, label

SCHEMA = "diagnoser/gate/1"
WORDS = {True: "passed", False: "failed", None: "cannot be judged"}


def as_text(gate: Gate, words: str) -> str:
    """What a person reads in the log of a pipeline. words: the answer in one line."""
    return "\n".join(label(line) for line in _lines(gate, words)) + "\n"


def _lines(gate: Gate, words: str) -> Iterator[str]:
    yield f"gate {WORDS[gate.passed]}: {words}"
    yield from (f"  because {reason}" for reason in gate.reasons)
    for one in gate.failed:
        yield f"  {one.severity:<8} {one.rule}  {one.title}  {one.confidence:.0%}"
        yield from (
            f"           {place.document}:{place.line}  {place.text[:160]}" for place in one.evidence[:1]
        )
        yield from (f"           fix: {fix.command}" for fix in one.fixes[:1])
    yield from (
        f"  let pass {one.rule}  {one.title}  {one.confidence:.0%}, {one.severity}" for one in gate.told
    )


def as_json(gate: Gate, words: str) -> str:
    """``{"schema", "word", "headline", "reasons", "failed": [finding], "let_pass": [rule]}``."""
    answer: dict[str, Any] = {
        "schema": SCHEMA,
        "word": WORDS[gate.passed],
        "headline": words,
        "reasons": list(gate.reasons),
        "failed": [one.model_dump(mode="json") for one in gate.failed],
        "let_pass": [one.rule for one in gate.told],
    }
    return escaped(json.dumps(answer, indent=2, ensure_ascii=False)) + "\n"


def as_junit(gate: Gate, words: str) -> str:
    """One suite: what failed, what the policy lets pass, and what could not be judged."""
    failures = [failure_of(one) for one in gate.failed]
    if gate.passed is False:
        failures += [Failure("policy", "gate", reason, f"{words}\n{reason}") for reason in gate.reasons]
    errors = gate.reasons if gate.passed is None else ()
    passed = [one.rule for one in gate.told] or (["no cause"] if gate.passed else [])
    return suite("gate", failures, passed, errors, words)
