"""`diagnose bench --save`: what was measured goes into the history, and what is void does not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from diagnoser.cli.main import main
from diagnoser.compare.history.store import History

SHORT = ["--output-tokens", "16", "--runs", "3", "--prompt-tokens", "40"]


def test_a_measurement_is_kept_with_its_load_and_held_against_its_past(
    serve: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "history.sqlite3"
    monkeypatch.setenv("DIAGNOSER_HISTORY", str(file))
    url = serve(ttft_s=0.05, gap_s=0.005)
    code = main(["bench", url, *SHORT, "--save-as", "first"])
    told = capsys.readouterr().err
    if code == 13:
        # A testing machine that others load makes the client late; then nothing may be kept.
        assert History(file).all() == []
        return
    assert code == 0
    assert "kept as 1; too few earlier results" in told
    (kept,) = History(file).all()
    entry = kept.entry
    assert (entry.kind, entry.name, entry.workload) == ("benchmark", "first", "1 stream, 40+16 tokens")
    assert entry.metric == "output_tok_s_wall"
    assert len(entry.values) == 3
    # 16 tokens in 0.05 s and fifteen gaps of 5 ms; nothing can be faster than its schedule.
    assert 0 < entry.values[0] <= 16 / (0.05 + 15 * 0.005) * 1.05
    assert entry.host not in (None, "127.0.0.1", "localhost")


def test_void_figures_are_not_kept(
    serve: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "history.sqlite3"
    monkeypatch.setenv("DIAGNOSER_HISTORY", str(file))
    assert main(["bench", serve(fault="500"), *SHORT, "--save"]) in (2, 13)
    assert History(file).all() == []
