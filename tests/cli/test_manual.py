"""The manual page and the completions know every command and option, and the shells and roff take them."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from diagnoser.cli.main import COMMANDS
from diagnoser.cli.manual.grammar import Command, grammar
from diagnoser.cli.manual.page import as_man, as_markdown
from diagnoser.cli.manual.shells import completions

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def main() -> Command:
    return grammar()


def test_every_command_is_known(main: Command) -> None:
    assert [one.words for one in main.commands] == [(name,) for name in COMMANDS]
    # What --help of each says, asked in the way a user does.
    for name in ("", "gate", "rules", "confirm"):
        shown = subprocess.run(
            [sys.executable, "-m", "diagnoser", *filter(None, [name]), "--help"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        command = next(one for one in main.walk() if one.words == tuple(filter(None, [name])))
        for option in command.options:
            assert all(option_name in shown for option_name in option.names)
    rules = next(one for one in main.commands if one.words == ("rules",))
    assert {one.words[-1] for one in rules.commands} >= {
        "list",
        "show",
        "lint",
        "test",
        "graph",
        "docs",
        "new",
    }


def test_pages_hold_every_option(main: Command) -> None:
    page, markdown = as_man(main).replace("\\-", "-"), as_markdown(main)
    for command in main.walk():
        words = " ".join(command.words)
        assert f".SS diagnose {words} " in page or not words
        for option in command.options:
            if "--help" not in option.names:
                assert all(name in page and name in markdown for name in option.names)
    assert "10 refuted" in page  # exit codes stand in the epilogs
    assert not [line for line in as_man(main).split("\n") if line.startswith("'")]


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff on this machine")
def test_roff_has_nothing_to_object(main: Command) -> None:
    told = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8"], input=as_man(main), capture_output=True, text=True, check=True
    )
    assert told.stderr == ""
    assert "--attention-backend=flashinfer" in told.stdout


def complete_in_bash(main: Command, *words: str) -> list[str]:
    script = completions(main, "bash") + (
        'COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _diagnose; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    told = subprocess.run(
        ["bash", "--norc", "-c", script, "x", "diagnose", *words], capture_output=True, text=True, check=True,
        cwd=ROOT / "fixtures",
    )  # fmt: skip
    assert told.stderr == ""
    return told.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ga"], ["gate"]),
        (["--for"], ["--format"]),
        (["--format", "s"], ["slack", "sarif"]),
        (["rules", "gr"], ["graph"]),
        (["rules", "graph", "--format", ""], ["dot", "mermaid", "html"]),
        (["gate", "--ju"], ["--junit"]),
        (["completions", ""], ["bash", "zsh", "fish"]),
        (["server.log", "--rep"], ["--report"]),
        (["sto"], ["story"]),
    ],
)
def test_bash_completes(main: Command, words: list[str], expected: list[str]) -> None:
    assert complete_in_bash(main, *words) == expected


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish on this machine")
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("diagnose gat", {"gate"}),
        ("diagnose --format s", {"slack", "sarif"}),
        ("diagnose rules graph --format ", {"dot", "mermaid", "html"}),
        ("diagnose gate --ju", {"--junit"}),
    ],
)
def test_fish_completes(main: Command, typed: str, expected: set[str], tmp_path: Path) -> None:
    (tmp_path / "c.fish").write_text(completions(main, "fish"))
    told = subprocess.run(
        ["fish", "--no-config", "-c", f"source {tmp_path / 'c.fish'}; complete -C '{typed}'"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert {line.split("\t")[0] for line in told.stdout.splitlines()} == expected


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh on this machine")
def test_zsh_reads_it(main: Command, tmp_path: Path) -> None:
    (tmp_path / "_diagnose").write_text(completions(main, "zsh"))
    load = f"fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -d {tmp_path}/dump; autoload +X _diagnose"
    told = subprocess.run(
        ["zsh", "-f", "-c", f"{load}; print $_comps[diagnose]"], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "_diagnose"
    assert told.stderr == ""


@pytest.mark.slow
def test_the_wheel_brings_them(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), str(ROOT)],
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = {name.partition(".data/data/")[2] for name in zipfile.ZipFile(wheel).namelist()}
    assert {
        "share/man/man1/diagnose.1",
        "share/bash-completion/completions/diagnose",
        "share/zsh/site-functions/_diagnose",
        "share/fish/vendor_completions.d/diagnose.fish",
    } <= names
