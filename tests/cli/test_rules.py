"""The rule author's commands as their users call them: real processes, real files."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BAD = ROOT / "fixtures" / "bad_rules"
STORY = ROOT / "fixtures" / "story"
LINE = "[2026-02-27 15:31:04] The flux capacitor lost 12 jigawatts"


def run(*arguments: str | Path, stdin: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "diagnoser.cli.main", "rules", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        cwd=cwd,
        env=environment,
        check=False,
        timeout=120,
    )
    assert "Traceback (most recent call last)" not in done.stderr
    return done


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with one drafted rule, ``flux``."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "flux.yaml").write_text(run("new", "--from", LINE, "--id", "flux").stdout)
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("frobnicate",),
        ("show",),
        ("list", "--kind", "guess"),
        ("graph", "--format", "png"),
        ("new",),
        ("coverage",),
        ("eval",),
    ],
)
def test_a_wrong_call_gives_2_and_the_usage(arguments: tuple[str, ...]) -> None:
    wrong = run(*arguments)
    assert wrong.returncode == 2
    assert wrong.stdout == ""
    assert "usage: diagnose rules" in wrong.stderr


@pytest.mark.parametrize(
    "command", [("list",), ("lint",), ("test",), ("docs",), ("coverage", "-"), ("graph",)]
)
def test_a_missing_rule_folder_gives_2_and_its_name(command: tuple[str, ...], tmp_path: Path) -> None:
    wrong = run(*command, "--rules", tmp_path / "none", cwd=tmp_path)
    assert wrong.returncode == 2
    assert wrong.stderr == f"diagnose rules: {tmp_path / 'none'}: there is no such folder\n"
    assert list(tmp_path.iterdir()) == []


def test_list_has_every_rule_and_can_be_filtered(own: Path) -> None:
    everything = json.loads(run("list", "--json", "--rules", own).stdout)
    assert [rule["id"] for rule in everything] == sorted(rule["id"] for rule in everything)
    assert {
        "id": "flux",
        "kind": "cause",
        "effect": "none",
        "severity": "info",
        "title": LINE[22:],
    } in everything
    bystanders = run("list", "--kind", "bystander").stdout.splitlines()
    assert len(bystanders) == sum(rule["kind"] == "bystander" for rule in everything)
    assert all(" bystander " in line for line in bystanders)


def test_show_prints_the_file_and_names_what_was_meant() -> None:
    shown = run("show", "triton-attn-default-sm120")
    assert shown.returncode == 0
    assert shown.stdout == (ROOT / "rules/sglang/triton-attn-default-sm120.yaml").read_text()
    wrong = run("show", "triton-attn-defualt-sm120")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "did you mean triton-attn-default-sm120" in wrong.stderr
    assert run("show", "???").stderr == "diagnose rules: there is no rule '???'\n"


def test_lint_gives_0_for_clean_rules_and_1_with_every_problem(own: Path, tmp_path: Path) -> None:
    clean = run("lint", own)
    assert (clean.returncode, clean.stdout, clean.stderr) == (0, "", "all rules are well-formed\n")
    bad = tmp_path / "bad"
    bad.mkdir()
    for name in ("unknown-fact.yaml", "not-yaml.yaml"):
        (bad / name).write_bytes((BAD / name).read_bytes())
    wrong = run("lint", bad)
    assert wrong.returncode == 1
    lines = wrong.stdout.splitlines()
    assert all(line.startswith(str(bad)) for line in lines)
    assert {Path(line.split(":")[0]).name for line in lines} == {"unknown-fact.yaml", "not-yaml.yaml"}
    assert wrong.stderr == f"{len(lines)} problems\n"


def test_a_rule_that_is_wrong_is_left_out_and_the_others_still_serve(own: Path) -> None:
    (own / "broken.yaml").write_text("id: [")
    listed = run("list", "--rules", own)
    assert listed.returncode == 0
    assert "\nflux " in listed.stdout


def test_test_runs_examples_and_gives_1_for_one_that_fails(own: Path) -> None:
    good = run("test", "flux", "--rules", own)
    assert (good.returncode, good.stdout, good.stderr) == (0, "", "2 tests, 0 failed\n")
    rule = own / "flux.yaml"
    rule.write_text(rule.read_text().replace("fires: false", "fires: true"))
    failed = run("test", "flux", "--rules", own)
    assert failed.returncode == 1
    assert failed.stdout.startswith(f"{rule}: flux, test 'another line that begins alike': did not fire")
    assert failed.stderr == "2 tests, 1 failed\n"
    unknown = run("test", "flxu", "--rules", own)
    assert unknown.returncode == 2
    assert "there is no rule 'flxu'" in unknown.stderr


def test_graph_in_all_formats(tmp_path: Path) -> None:
    rule = "triton-attn-default-sm120"
    dot = run("graph", rule)
    assert dot.stdout.startswith("digraph rules {\n")
    assert f'"{rule}" -> "slow-decode";' in dot.stdout
    assert run("graph", "--format", "mermaid", rule).stdout.startswith("flowchart LR\n")
    target = tmp_path / "graph.html"
    whole = run("graph", "--format", "html", "-o", target)
    assert (whole.returncode, whole.stdout) == (0, "")
    text = target.read_text("utf-8")
    assert text.startswith("<!DOCTYPE html>\n")
    assert f'<li id="rule-{rule}"' in text
    assert run("graph", "--format", "html", rule).stdout.startswith("<!DOCTYPE html>\n")


def test_graph_names_an_unknown_rule_and_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    unknown = run("graph", "slow-decod")
    assert unknown.returncode == 2
    assert "did you mean slow-decode" in unknown.stderr
    refused = run("graph", "-o", tmp_path / "no" / "graph.dot", "slow-decode")
    assert refused.returncode == 2
    assert str(tmp_path / "no" / "graph.dot") in refused.stderr


def test_new_writes_a_draft_that_lint_and_test_accept(own: Path) -> None:
    target = own / "second.yaml"
    done = run("new", "--from", LINE.replace("lost", "swallowed"), "-o", target, "--rules", own)
    assert done.returncode == 0
    assert f"{target} written" in done.stderr
    assert run("lint", own).returncode == 0
    identifier = yaml.safe_load(target.read_text())["id"]
    assert run("test", identifier, "--rules", own).stderr == "2 tests, 0 failed\n"


def test_new_overwrites_nothing_and_takes_no_id_twice(own: Path) -> None:
    before = (own / "flux.yaml").read_text()
    refused = run("new", "--from", LINE, "-o", own / "flux.yaml")
    assert refused.returncode == 2
    assert "exists already" in refused.stderr
    assert (own / "flux.yaml").read_text() == before
    first = yaml.safe_load(run("new", "--from", LINE).stdout)["id"]
    (own / "other.yaml").write_text(before.replace("flux\n", f"{first}\n", 1))
    again = run("new", "--from", LINE, "--rules", own)
    assert yaml.safe_load(again.stdout)["id"] == f"{first}-2"


def test_new_says_that_a_line_is_known_and_reads_standard_input() -> None:
    line = "[2026-02-27 15:31:04] Attention backend not specified. Use triton backend by default."
    done = run("new", "--from", "-", stdin=f"\n\n{line}\nsecond line\n")
    assert done.returncode == 0
    assert "sglang.attention-default says this line already" in done.stderr
    assert ">! " + line in done.stdout
    assert "second line" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--from", "12345 67890"), "no fixed text"),
        (("--from", "-"), "the line is empty"),
        (("--from", LINE, "--id", "Not An Id"), "is no id"),
    ],
)
def test_new_gives_2_and_the_reason(arguments: tuple[str, ...], why: str) -> None:
    refused = run("new", *arguments)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert why in refused.stderr


def test_docs_writes_pages_removes_its_own_old_ones_and_touches_nothing_else(
    own: Path, tmp_path: Path
) -> None:
    target = tmp_path / "docs" / "rules"
    done = run("docs", "--rules", own, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    pages = {path.name: path.read_text("utf-8") for path in target.iterdir()}
    assert done.stderr == f"{len(pages)} pages written; start with docs/rules/index.md\n"
    assert '<a id="flux"></a>' in pages["own.md"]
    assert {"index.md", "facts.md", "sglang.md", "vllm.md", "gpu.md"} <= set(pages)
    (target / "mine.md").write_text("my own page")
    again = run("docs", "-o", target)
    assert again.returncode == 0
    after = {path.name: path.read_text("utf-8") for path in target.iterdir()}
    assert set(after) == set(pages) - {"own.md"} | {"mine.md"}
    assert after["vllm.md"] == pages["vllm.md"]


def test_docs_names_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = run("docs", "-o", tmp_path / "file" / "docs")
    assert refused.returncode == 2
    assert str(tmp_path / "file" / "docs") in refused.stderr


def test_coverage_counts_and_lists_what_nothing_knows(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "[2026-02-27 15:31:04] INFO server_args.py:1: all is well\n"
        + "".join(f"WARNING 02-27 15:31:0{n} [a.py:1] flux {n} is odd\n" for n in range(3))
        + "WARNING 02-27 15:31:09 [a.py:1] once only\n"
    )
    shown = run("coverage", log)
    assert shown.returncode == 0
    assert f"{log}: 5 lines, 4 at warning or above, 0 of them known (0.0%)" in shown.stdout
    assert re.findall(r"^ +(\d+)  \S+:(\d+)  ", shown.stdout, re.MULTILINE) == [("1", "5"), ("3", "2")]
    assert "1 more shapes" in run("coverage", "--limit", "1", log).stdout
    read = json.loads(run("coverage", "--json", "-", stdin=log.read_text()).stdout)
    assert read["schema"] == "diagnoser/coverage/1"
    assert read["total"] == {"lines": 5, "raised": 4, "known": 0, "share": 0.0}
    assert [shape["times"] for shape in read["unknown"]] == [1, 3]


def test_coverage_knows_more_with_the_rules_that_were_drafted(own: Path, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("WARNING 02-27 15:31:04 [a.py:1] The flux capacitor lost 99 jigawatts\n")
    assert json.loads(run("coverage", "--json", log).stdout)["total"]["known"] == 0
    assert json.loads(run("coverage", "--json", "--rules", own, log).stdout)["total"]["known"] == 1


def test_coverage_masks_secrets(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "WARNING 02-27 15:31:04 [a.py:1] gateway refused HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz1234\n"
    )
    assert "abcdefghij" not in run("coverage", log).stdout + run("coverage", "--json", log).stdout


def test_coverage_of_nothing_gives_2(tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    for path in (tmp_path / "empty.log", tmp_path / "none.log"):
        wrong = run("coverage", path)
        assert (wrong.returncode, wrong.stdout) == (2, "")
        assert "nothing could be read" in wrong.stderr
        assert path.name in wrong.stderr


def test_eval_judges_labelled_cases(tmp_path: Path) -> None:
    (tmp_path / "inputs").mkdir()
    names = {
        "step6-triton-default.log": ("incident", ["triton-attn-default-sm120"]),
        "step4-clean-gpus.txt": ("healthy", []),
    }
    cases = tmp_path / "cases.jsonl"
    with cases.open("w") as file:
        for name, (kind, causes) in names.items():
            (tmp_path / "inputs" / name).write_bytes((STORY / name).read_bytes())
            file.write(json.dumps({"id": name, "kind": kind, "causes": causes, "input": name}) + "\n")
    text = run("eval", cases)
    assert text.returncode == 0
    assert "top-1  1/1" in text.stdout
    assert "healthy logs without an alarm     1/1" in text.stdout
    assert json.loads(run("eval", "--json", cases).stdout)["schema"] == "diagnoser/evaluation/1"


def test_eval_names_the_line_that_is_no_case(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text('\n{"id": "one"}\n')
    wrong = run("eval", cases)
    assert wrong.returncode == 2
    assert f"{cases}:2: not a case" in wrong.stderr
    assert run("eval", tmp_path / "none.jsonl").returncode == 2
