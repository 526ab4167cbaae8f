"""Every wrong rule is refused with its place, what is wrong and the cure."""

from pathlib import Path

import pytest

from diagnoser.facts.registry import kinds
from diagnoser.rulebook.lint import lint

BAD = Path(__file__).resolve().parents[2] / "fixtures" / "bad_rules"
CASES = sorted(path for path in BAD.iterdir() if path.is_dir() or path.suffix == ".yaml")


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_a_wrong_rule_is_named(case: Path, tmp_path: Path) -> None:
    files = sorted(case.glob("*.yaml")) if case.is_dir() else [case]
    for file in files:
        (tmp_path / file.name).write_bytes(file.read_bytes())
    wanted = files[0].read_text().splitlines()[0].removeprefix("# expect: ")
    problems = [str(problem) for problem in lint([tmp_path], kinds())]
    assert any(wanted in problem for problem in problems), problems
    assert all(problem.startswith(str(tmp_path)) for problem in problems)


def test_a_problem_names_the_line(tmp_path: Path) -> None:
    source = (BAD / "unknown-package.yaml").read_text()
    (tmp_path / "rule.yaml").write_text(source)
    number = source.splitlines().index('applies: {sglan: ">=0.5"}') + 1
    assert any(f"rule.yaml:{number}: applies names" in str(problem) for problem in lint([tmp_path], kinds()))


def test_the_built_in_rules_are_well_formed() -> None:
    from diagnoser.rulebook.book import builtin_folder

    assert lint([builtin_folder()], kinds()) == []
