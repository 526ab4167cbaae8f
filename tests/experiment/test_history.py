"""What earlier launches on a machine teach the next experiment."""

import json
import math
from pathlib import Path

import pytest

from diagnoser.experiment import history
from diagnoser.experiment.load.bench import Plan as Load
from diagnoser.experiment.results import Identity
from diagnoser.experiment.statistics import Noise

LOAD = Load()
SERVER = Identity(
    url="u", engine="sglang", version="0.5.17", model="tiny", flags={"tp_size": 1, "random_seed": 1}
)
# Decode ms per token and tokens per second of eight launches on an H200.
STEADY = [4.865, 4.868, 4.870, 4.872, 4.874, 4.876, 4.869, 4.871]
RATES = [219.8, 220.5, 220.1, 219.9, 220.4, 220.0, 220.2, 220.3]


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIAGNOSER_STATE", str(tmp_path / "state"))


def test_the_floor_sinks_as_launches_of_one_configuration_agree() -> None:
    assert history.noise("gpu-07")("output_tok_s_wall") == Noise(0.0075)
    for rate in RATES:
        again = SERVER.model_copy(update={"flags": {"tp_size": 1, "random_seed": rate}})
        history.add("gpu-07", again, LOAD, "output_tok_s_wall", [rate] * 5)
    known = history.noise("gpu-07")("output_tok_s_wall")
    # Pooled by hand: 4 degrees of 0.75 %, 7 of what the launches show (0.11 %).
    logs = [math.log(rate) for rate in RATES]
    mean = sum(logs) / 8
    squares = sum((one - mean) ** 2 for one in logs)
    assert known.floor == pytest.approx(math.sqrt((4 * 0.0075**2 + squares) / 11))
    assert known.df == 11
    assert history.noise("gpu-08")("output_tok_s_wall") == Noise(0.0075)
    assert history.noise("gpu-07")("ttft_ms") == Noise(0.0075)


def test_other_configurations_and_loads_are_no_scatter() -> None:
    for at, ms in enumerate(STEADY):
        other = SERVER.model_copy(update={"flags": {"tp_size": 1 + at % 2}})
        history.add("gpu-07", other, LOAD, "decode_ms_per_token", [ms * (2 if at % 2 else 1)])
    assert history.noise("gpu-07")("decode_ms_per_token").floor == pytest.approx(0.002)
    assert history.key(SERVER, LOAD) != history.key(SERVER, Load(prompt_tokens=10_000))


def test_the_first_start_of_a_version_is_known_as_such() -> None:
    assert not history.started_before("gpu-07", SERVER)
    history.add("gpu-07", SERVER, LOAD, "ttft_ms", [])
    assert history.started_before("gpu-07", SERVER)
    assert not history.started_before("gpu-07", SERVER.model_copy(update={"version": "0.5.18"}))
    assert history.noise("gpu-07")("ttft_ms") == Noise(0.0075)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "other/1", "hosts": {"a": [1]}}'])
def test_a_file_of_another_kind_is_no_history(text: str) -> None:
    history.file().parent.mkdir(parents=True)
    history.file().write_text(text)
    assert history.noise("a")("ttft_ms") == Noise(0.0075)
    history.add("a", SERVER, LOAD, "ttft_ms", [1.0])
    assert json.loads(history.file().read_text())["schema"] == "diagnoser/history/1"


def test_a_history_that_cannot_be_written_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DIAGNOSER_STATE", str(tmp_path / "file"))
    history.add("a", SERVER, LOAD, "ttft_ms", [1.0])
