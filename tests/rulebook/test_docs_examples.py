"""Every example of the documentation loads, is clean and does what it says."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from diagnoser.facts.registry import kinds
from diagnoser.inference.resolve import SEVERITY_WEIGHT, SHOWN_FROM
from diagnoser.inference.ruletest import run_tests
from diagnoser.inference.weights import WEIGHTS, probability
from diagnoser.rulebook.lint import lint
from diagnoser.rulebook.signs import OPERATORS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "writing-a-rule.md"
TEXT = PAGE.read_text("utf-8")
BLOCKS: list[dict[str, Any]] = [
    yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
]
WHOLE = BLOCKS[0]


def rule(number: int) -> dict[str, Any]:
    """A block, completed from the whole rule; only the whole rule brings its messages along by itself."""
    block = BLOCKS[number]
    if number == 0:
        return block
    return {**WHOLE, "id": f"flux-example-{number}", **{"messages": []}, **block}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("examples")
    for number in range(len(BLOCKS)):
        written = yaml.safe_dump(rule(number), sort_keys=False, allow_unicode=True)
        (target / f"example-{number}.yaml").write_text(written, "utf-8")
    return target


def test_all_examples_are_well_formed(folder: Path) -> None:
    assert len(BLOCKS) >= 10
    assert [str(problem) for problem in lint([folder], kinds())] == []


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_an_example_does_what_it_says(number: int, folder: Path) -> None:
    result = run_tests([folder], rule(number)["id"])
    assert result.ran == len(rule(number)["tests"]) >= 2
    assert [str(failure) for failure in result.failures] == []


def test_every_operator_is_written_down() -> None:
    table = TEXT[TEXT.index("### Constraints") : TEXT.index("### How often")]
    assert [name for name in OPERATORS if not re.search(rf"\b{name}\b", table)] == []


RANKING = (PAGE.parent / "how-ranking-works.md").read_text("utf-8")

WRITTEN = {
    "`strength: strong`": "strong",
    "`strength: medium`": "medium",
    "`strength: weak`": "weak",
    "each sign of `supports` that is yes": "supported",
    "each sign of `supports` that is no": "not_supported",
    "each sign of `weakens` that is yes": "weakened",
    "each unknown of `applies`, two at most": "applies_unknown",
    "some sign of `none` is unknown": "none_unknown",
    "each further sign of `any` that is yes, two at most": "more_signs",
}


def rows(text: str) -> dict[str, float]:
    """The rows of all tables with a number in the last column."""
    return {
        name: float(number)
        for name, number in re.findall(r"^\| (.+?) \| ([+-]?[\d.]+) \|$", text, re.MULTILINE)
    }


def test_the_page_on_ranking_has_the_numbers_in_use() -> None:
    table = rows(RANKING)
    assert {WRITTEN[name]: table[name] for name in WRITTEN} == WEIGHTS
    assert {name: table[name] for name in SEVERITY_WEIGHT} == SEVERITY_WEIGHT
    assert f"below {SHOWN_FROM:.0%}".replace("%", " %") in RANKING.replace("\n", " ")
    for word in ("strong", "medium", "weak"):
        assert f"{probability(WEIGHTS[word]):.0%}".replace("%", " %") in RANKING


def test_pages_link_to_pages_that_are_there_and_name_facts_that_exist() -> None:
    for page in sorted(PAGE.parent.glob("*.md")):
        text = page.read_text("utf-8")
        for target in re.findall(r"\]\(([\w./-]+\.md)\)", text):
            assert (page.parent / target).is_file(), target
        for name in re.findall(r"\(fact (\w+)\)", text):
            assert name in kinds(), name


def test_the_commands_on_the_pages_exist() -> None:
    from diagnoser.cli.rules import parser

    for page in (PAGE, PAGE.parent / "how-ranking-works.md", PAGE.parent / "rules.md"):
        for name in re.findall(r"diagnose rules (\w+)", page.read_text("utf-8")):
            assert name in parser().format_usage(), name
