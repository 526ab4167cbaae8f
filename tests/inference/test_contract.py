"""The JSON output keeps its contract: the committed schema, every key, and nothing a terminal obeys."""

import json
from pathlib import Path
from typing import Any

import pytest

from diagnoser import Diagnosis, diagnose
from diagnoser.cli.schema import schema

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = json.loads((ROOT / "docs" / "schema" / "diagnosis-1.json").read_text("utf-8"))
LOGS = sorted((ROOT / "fixtures" / "story").glob("*.log"))


def test_the_schema_is_the_committed_one() -> None:
    """A change here is a new version of the contract, or a mistake."""
    assert schema("diagnosis") == COMMITTED


def keys(node: Any, shape: dict[str, Any], where: str = "") -> None:
    """Asserts that every object has exactly the keys of its schema."""
    if "$ref" in shape:
        shape = COMMITTED["$defs"][shape["$ref"].rpartition("/")[2]]
    for option in shape.get("anyOf", ()):
        if "$ref" in option and node is not None:
            keys(node, option, where)
    if isinstance(node, dict) and "properties" in shape:
        assert set(node) == set(shape["properties"]), where
        for key, value in node.items():
            keys(value, shape["properties"][key], f"{where}.{key}")
    if isinstance(node, list):
        for item in node:
            keys(item, shape["items"], where + "[]")


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_real_answers_have_every_key_and_can_be_read_back(log: Path) -> None:
    text = diagnose(log).to_json()
    answer = json.loads(text)
    keys(answer, COMMITTED)
    assert answer["schema"] == "diagnoser/diagnosis/1"
    assert Diagnosis.model_validate_json(text).to_json() == text


def test_what_moves_a_terminal_is_spelled_out() -> None:
    evil = "\x1b]0;x\x07 \x9b31m \u202egnp.exe \u2066x\u2069 \U000e0041"
    text = diagnose(
        f"INFO 02-27 15:17:28 [config.py:1] Error: model '{evil}' is odd\nModel: {evil}\n" * 2
    ).to_json()
    assert not set(text) & set("\x07\x1b\x9b\u202e\u2066\u2069\U000e0041")
    json.loads(text)
