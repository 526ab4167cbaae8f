"""Where the answer goes, and what is said when it cannot go there: in real processes with real files."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
LOG = FIXTURES / "story" / "step6-triton-default.log"


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run with $D as the command and $L as the log."""
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "D": f"{sys.executable} -m diagnoser", "L": str(LOG), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_link_is_written_through_and_rights_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to("real.txt")
    assert shell("$D -q -o link.txt $L", tmp_path).returncode == 1
    assert link.is_symlink()
    assert "--attention-backend flashinfer" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.txt", "real.txt"]


def test_both_names_of_a_file_see_the_answer(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("old")
    os.link(tmp_path / "one", tmp_path / "two")
    assert shell("$D -q -o one $L", tmp_path).returncode == 1
    assert (tmp_path / "one").samefile(tmp_path / "two")
    assert "flashinfer" in (tmp_path / "two").read_text()


def test_standard_output_by_its_file_name(tmp_path: Path) -> None:
    told = shell("$D -q -o /dev/stdout $L > out.txt", tmp_path)
    assert told.returncode == 1
    assert "flashinfer" in (tmp_path / "out.txt").read_text()
    assert Path("/dev/stdout").is_symlink()


def test_a_name_of_full_length(tmp_path: Path) -> None:
    name = "a" * 250
    assert shell(f"$D -q -o {name} $L", tmp_path).returncode == 1
    assert "flashinfer" in (tmp_path / name).read_text()


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("$D $L > /dev/full", "standard output: cannot be written: No space left on device"),
        ("$D rules list > /dev/full", "standard output: No space left on device"),
        ("$D -o /dev/full $L", "--output /dev/full: cannot be written: No space left on device"),
        ("$D -o /no/where.txt $L", "--output /no/where.txt: cannot be written: No such file or directory"),
        ("$D $L >&-", "standard output is closed"),
        ("$D - <&-", "standard input is closed"),
        ("$D <&-", "standard input is closed"),
        ("$D --year 99999999999999999999 $L", "is not a year from 1970 to 9999"),
        ("$D --launch 7 $L", "--launch 7: the input holds 1 start of a server"),
        ("$D rules lint /no/where", "/no/where: there is no such folder"),
        ("$D -f json --explain triton-attn-default-sm120 $L", "it cannot be shown as json"),
        ("$D $'a\\e[31mb'", "a\\x1b[31mb"),
    ],
)
def test_one_sentence_and_exit_code_2(command: str, sentence: str, tmp_path: Path) -> None:
    told = shell(command, tmp_path)
    assert told.returncode == 2
    assert sentence in told.stderr
    assert "fault of the tool" not in told.stderr
    assert list(tmp_path.iterdir()) == []


def test_closed_standard_error_hides_the_words_and_not_the_answer(tmp_path: Path) -> None:
    told = shell("$D -q $L 2>&-", tmp_path)
    assert told.returncode == 1
    assert "flashinfer" in told.stdout


def test_a_reader_that_goes_is_no_error_of_ours(tmp_path: Path) -> None:
    told = shell("$D rules list --json | head -c 1 > /dev/null; echo ${PIPESTATUS[0]}", tmp_path)
    assert told.stdout == "141\n"
    assert told.stderr == ""


@pytest.mark.parametrize("home", ["/nonexistent", "/proc/1/root/x", "/dev/null"])
def test_a_home_that_cannot_be_used(home: str, tmp_path: Path) -> None:
    told = shell(
        "$D -q $L", tmp_path, HOME=home, XDG_CONFIG_HOME=home, XDG_CACHE_HOME=home, DIAGNOSER_CACHE=home
    )
    assert (told.returncode, told.stderr) == (1, "")


def test_the_explanation_goes_to_a_file_too(tmp_path: Path) -> None:
    told = shell("$D --explain triton-attn-default-sm120 -o why.txt $L", tmp_path)
    assert (told.returncode, told.stdout) == (1, "")
    assert "triton-attn-default-sm120" in (tmp_path / "why.txt").read_text()


def test_the_place_of_a_rule_is_told_from_the_rules_folder_on(tmp_path: Path) -> None:
    told = shell("$D rules show triton-attn-default-sm120", tmp_path)
    assert told.stdout.startswith("id: triton-attn-default-sm120\n")
