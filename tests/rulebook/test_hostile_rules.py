"""A folder of broken rules costs a sentence, never the answer: real files of every broken kind."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from diagnoser.facts.registry import kinds
from diagnoser.rulebook.book import builtin_folder, compiled
from diagnoser.rulebook.lint import lint

GOOD = (builtin_folder() / "sglang" / "triton-attn-default-sm120.yaml").read_text("utf-8")
MINE = GOOD.replace("triton-attn-default-sm120", "my-rule")


def bomb() -> str:
    """Nine levels of nine aliases each: 9^9 items once it is written out."""
    lines = ["a: &a [" + ",".join(["lol"] * 9) + "]"]
    lines += [f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]" for i in range(9)]
    return "\n".join(lines)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (os.mkfifo, "it is no file"),
    "a folder": (Path.mkdir, "it is no file"),
    "a link to nothing": (lambda path: path.symlink_to("nowhere.yaml"), "it is a link to nothing"),
    "a bomb of aliases": (lambda path: path.write_text(bomb()), "id: Field required"),
    "deep nesting": (lambda path: path.write_text("a: " + "[" * 5000 + "]" * 5000), ""),
    "too large": (lambda path: path.write_text("a: " + "x" * (5 << 20)), "larger than 4 MiB"),
    "bytes": (lambda path: path.write_bytes(bytes(range(256))), "not readable as YAML"),
    "a date for a title": (lambda path: path.write_text(MINE.replace("title: ", "title: 2024-01-01 #")), "title"),
    "no id": (lambda path: path.write_text(GOOD.replace("id: triton", "id: #", 1)), "id"),
    "thousands of keys": (
        lambda path: path.write_text(MINE + "".join(f"unknown{i}: 1\n" for i in range(3000))),
        "unknown0",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "sentence"), BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_named_and_the_rest_is_used(
    make: Callable[[Path], object], sentence: str, tmp_path: Path
) -> None:
    make(tmp_path / "broken.yaml")
    (tmp_path / "good.yaml").write_text(MINE)
    pack = compiled((tmp_path,))
    assert "my-rule" in pack.causes
    problems = [problem for problem in pack.problems if "broken.yaml" in problem]
    assert problems
    assert len(problems) <= 20
    assert sentence in problems[0]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_encodings_that_yaml_knows(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(MINE.encode(encoding))
    assert lint([tmp_path], kinds(), beside=[builtin_folder()]) == []


def test_own_rules_may_name_built_in_ones(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(MINE.replace("explains: [", "explains: [no-such-rule, "))
    told = [problem.what for problem in lint([tmp_path], kinds(), beside=[builtin_folder()])]
    assert told == ["explains names an unknown rule 'no-such-rule'"]
