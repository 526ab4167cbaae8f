"""The command as its users call it: real processes, real files, a real terminal."""

import gzip
import io
import json
import os
import pty
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

STORY = Path(__file__).resolve().parents[2] / "fixtures" / "story"
TRITON = STORY / "step6-triton-default.log"
CLEAN = STORY / "step4-clean-gpus.txt"


def run(
    *arguments: str | Path, stdin: bytes = b"", cwd: Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "diagnoser.cli.main", *map(str, arguments)]
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env={**os.environ, **env},
        check=False,
        timeout=120,
    )
    assert b"Traceback (most recent call last)" not in done.stderr
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_cause_gives_1_a_clean_state_0_and_nothing_readable_2(tmp_path: Path) -> None:
    assert run(TRITON).returncode == 1
    assert run(CLEAN).returncode == 0
    (tmp_path / "empty.log").touch()
    nothing = run(tmp_path / "empty.log")
    assert nothing.returncode == 2
    assert "nothing could be read" in nothing.stderr


def test_the_answer_names_cause_proof_and_fix() -> None:
    shown = run(TRITON).stdout
    assert "--attention-backend flashinfer" in shown
    assert "step6-triton-default.log:2" in shown
    assert "\x1b" not in shown
    why = shown[shown.index("  why") : shown.index("  costs")]
    assert all(len(line) <= 100 for line in why.splitlines())


def test_stdin_is_read_when_piped_and_lines_count_in_the_whole_paste() -> None:
    paste = TRITON.read_bytes() + CLEAN.read_bytes()
    for arguments in ([], ["-"]):
        answer = json.loads(run("--format", "json", *arguments, stdin=paste).stdout)
        assert answer["schema"] == "diagnoser/diagnosis/1"
        assert [d["document"] for d in answer["coverage"]] == [
            "stdin#1 (sglang log)",
            "stdin#2 (nvidia-smi table)",
        ]
        assert answer["coverage"][1]["last_line"] == paste.count(b"\n")


def test_a_missing_path_is_one_sentence_and_names_a_command_it_resembles(tmp_path: Path) -> None:
    missing = run("no-such.log", cwd=tmp_path)
    assert missing.returncode == 2
    assert missing.stderr == "diagnose: no-such.log: there is no such file or folder\n"
    alike = run("rulse", cwd=tmp_path)
    assert alike.returncode == 2
    assert "did you mean the command `diagnose rules`?" in alike.stderr


def test_a_file_named_like_a_command_is_reached_with_a_dot_or_dashes(tmp_path: Path) -> None:
    (tmp_path / "rules").write_bytes(TRITON.read_bytes())
    assert run("./rules", cwd=tmp_path).returncode == 1
    assert run("--", "rules", cwd=tmp_path).returncode == 1


@pytest.mark.parametrize("packed", ["gz", "tar.gz"])
def test_packed_logs_are_read(packed: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{packed}"
    if packed == "gz":
        path.write_bytes(gzip.compress(TRITON.read_bytes()))
    else:
        with tarfile.open(path, "w:gz") as archive:
            info = tarfile.TarInfo("logs/server.log")
            info.size = TRITON.stat().st_size
            archive.addfile(info, io.BytesIO(TRITON.read_bytes()))
    answer = json.loads(run("-f", "json", path).stdout)
    assert answer["findings"][0]["rule"] == "triton-attn-default-sm120"


def test_what_could_not_be_read_is_listed_and_changes_no_exit_code(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(TRITON.read_bytes())
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(TRITON.read_bytes())[:200])
    os.mkfifo(tmp_path / "pipe")
    answer = run("-f", "json", tmp_path)
    assert answer.returncode == 1
    read = json.loads(answer.stdout)
    told = " ".join(
        read["unreadable"] + read["notes"] + [note for d in read["coverage"] for note in d["notes"]]
    )
    assert "pipe" in told
    assert "ends early" in told


def test_output_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "answer.json"
    assert run("-f", "json", "-o", target, TRITON).returncode == 1
    assert json.loads(target.read_text())["findings"]
    refused = run("-o", tmp_path / "no" / "such" / "folder.txt", TRITON)
    assert refused.returncode == 2
    assert "--output" in refused.stderr
    assert os.listdir(tmp_path) == ["answer.json"]


def test_quiet_shows_the_leading_cause_only() -> None:
    quiet, full = run("-q", TRITON).stdout, run(TRITON).stdout
    assert "--attention-backend flashinfer" in quiet
    assert len(quiet.splitlines()) < len(full.splitlines())
    assert "not it" not in quiet


def test_explain_shows_every_condition() -> None:
    shown = run("--explain", "triton-attn-default-sm120", TRITON).stdout
    assert "found: root" in shown
    assert "yes" in shown
    wrong = run("--explain", "triton-attn-defualt-sm120", TRITON)
    assert wrong.returncode == 2
    assert "did you mean triton-attn-default-sm120" in wrong.stderr


def test_windows_of_time_and_tail(tmp_path: Path) -> None:
    late = json.loads(run("-f", "json", "--since", "2026-02-27T15:38:00", TRITON).stdout)
    assert "triton-attn-default-sm120" not in [finding["rule"] for finding in late["findings"]]
    tail = json.loads(run("-f", "json", "--tail", "8", TRITON).stdout)
    lines = TRITON.read_text().count("\n")
    assert tail["coverage"][0]["first_line"] == lines - 7
    assert run("--since", "soon", TRITON).returncode == 2


def test_the_last_of_several_launches_is_diagnosed_and_said(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(TRITON.read_bytes() + (STORY / "step7-flashinfer.log").read_bytes())
    last = run("-f", "json", log)
    assert last.returncode == 0
    assert "started 2 times; the last start is diagnosed" in " ".join(json.loads(last.stdout)["notes"])
    first = json.loads(run("-f", "json", "--launch", "1", log).stdout)
    assert first["findings"][0]["rule"] == "triton-attn-default-sm120"


def test_a_config_file_holds_defaults_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('format = "json"\n')
    assert json.loads(run(TRITON, DIAGNOSER_CONFIG=str(config)).stdout)
    config.write_text('fromat = "json"\n')
    wrong = run(TRITON, DIAGNOSER_CONFIG=str(config))
    assert wrong.returncode == 2
    assert "unknown setting 'fromat'" in wrong.stderr


def test_a_folder_of_rules_is_added(tmp_path: Path) -> None:
    draft = run(
        "rules", "new", "--from", "[2026-02-27 15:31:04] The flux capacitor lost 12 jigawatts", "--id", "flux"
    )
    assert draft.returncode == 0
    (tmp_path / "flux.yaml").write_text(draft.stdout.replace("severity: info", "severity: high"))
    log = tmp_path / "server.log"
    log.write_text("[2026-02-27 16:00:00] The flux capacitor lost 99 jigawatts\n")
    answer = run("--rules", tmp_path, "-f", "json", log)
    assert json.loads(answer.stdout)["findings"][0]["rule"] == "flux"
    assert answer.returncode == 1
    assert run("--rules", tmp_path / "none", log).returncode == 2


@pytest.mark.parametrize("spoil", ["cut", "garbage", "unwritable"])
def test_a_spoilt_cache_is_ignored(spoil: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    good = run("-f", "json", TRITON, DIAGNOSER_CACHE=str(cache)).stdout
    for file in cache.iterdir():
        file.write_bytes(file.read_bytes()[:100] if spoil == "cut" else b"garbage" * 50)
    folder = tmp_path / "file"
    folder.touch()
    where = folder / "below-a-file" if spoil == "unwritable" else cache
    assert run("-f", "json", TRITON, DIAGNOSER_CACHE=str(where)).stdout == good


def test_version_imports_nothing_heavy() -> None:
    code = (
        "import sys; from diagnoser.cli.main import main; main(['--version']);"
        "print(sorted({'paramiko','networkx','httpx','rich','pydantic','yaml','regex'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1] == "[]"


def test_a_paste_to_a_pipe_imports_neither_networkx_nor_rich_nor_yaml() -> None:
    run(TRITON)
    code = (
        f"import sys; from diagnoser.cli.main import main; main([{str(TRITON)!r}]);"
        "print(sorted({'paramiko','networkx','httpx','rich','yaml'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def on_terminal(*arguments: str, typed: bytes = b"", columns: int = 80, **env: str) -> str:
    """What a real terminal of so many columns shows."""
    import fcntl
    import struct
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "diagnoser.cli.main", *arguments],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm-256color", **env},
    )
    os.close(follower)
    if typed:
        os.write(leader, typed)
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    process.wait(timeout=60)
    os.close(leader)
    return shown.decode()


def test_a_terminal_gets_colours_and_no_color_none() -> None:
    assert "\x1b[" in on_terminal(str(TRITON))
    plain = on_terminal(str(TRITON), NO_COLOR="1")
    assert "\x1b[3" not in plain
    assert "--attention-backend flashinfer" in plain


def test_without_arguments_a_terminal_is_asked_to_paste() -> None:
    shown = on_terminal(
        typed=b"[2026-02-27 15:31:04] Attention backend not specified. Use triton backend by default.\n\x04"
    )
    assert "press Ctrl-D" in shown
    assert "triton" in shown


def test_an_escape_in_the_log_never_reaches_the_terminal(tmp_path: Path) -> None:
    log = tmp_path / "evil.log"
    line = b"[2026-02-27 15:31:04] ERROR \x1b]0;owned\x07\x1b[31mRuntimeError: \xc2\x9b31m bad \xe2\x80\xae thing\n"
    log.write_bytes(line + TRITON.read_bytes())
    for shown in (run(log).stdout, run("-f", "json", log).stdout, run("-f", "markdown", log).stdout):
        assert "\x1b" not in shown
        assert "\x9b" not in shown
        assert "\u202e" not in shown
    assert "\x1b]0" not in on_terminal(str(log))
