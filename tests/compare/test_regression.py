"""Two sides of the story and of composed pairs: what came, what share it has, what is context, what is noise."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from diagnoser.agent.regression import explain
from diagnoser.agent.session import CallError, Options
from diagnoser.compare.attribution import attribute, gain_of
from diagnoser.report import regression as report
from tests.compare.pairs import compose

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
STORY = FIXTURES / "pairs" / "story"
H200 = FIXTURES / "captures" / "sglang_h200"


def sides(before: Path, after: Path) -> tuple[list[str], list[str]]:
    return [str(before)], [str(after)]


def test_the_story_triton_with_its_share_and_the_upgrades_gain_not_claimed() -> None:
    found = explain(*sides(STORY / "before", STORY / "after"), Options())
    assert found.word == "slower"
    assert found.measure is not None
    assert (found.measure.before, found.measure.after) == (89.5, 83.9)
    effect, low, high = found.measure.interval
    assert effect == pytest.approx(83.9 / 89.5 - 1, abs=5e-4)
    assert low < -0.08
    assert -0.04 < high < 0
    assert [one.finding.rule for one in found.came] == ["triton-attn-default-sm120"]
    assert [str(one) for one in found.came[0].differences] == ["attention_backend: flashinfer -> triton"]
    split = found.attribution
    assert split is not None
    shown = report.as_text(found)
    assert "share    -9.4%" in shown  # 1 / 1.104 - 1
    assert "left     +3.5%" in shown
    assert "not claimed" in shown
    assert split.left_is_noise
    assert split.exceeds
    context = {str(one) for one, _ in found.context}
    assert {"torch local: cu128 -> cu130", "sgl-kernel version: 0.3.18 -> 0.3.21"} <= context
    assert "ue8m0" not in shown
    assert "DeepGemm" not in shown


def test_seeded_pairs_give_the_right_set_of_causes_and_blame_nothing_harmless(tmp_path: Path) -> None:
    right = 0
    for seed in range(20):
        pair = compose(seed)
        assert pair.harmless >= 5
        for name, text in (("before.log", pair.before), ("after.log", pair.after)):
            (tmp_path / name).write_text(text)
        found = explain(*sides(tmp_path / "before.log", tmp_path / "after.log"), Options(year=2026))
        named = {one.finding.rule for one in found.came}
        assert named >= pair.causes or named <= pair.causes, (seed, named)
        right += named == pair.causes
        assert found.word == "slower"
        assert found.measure is not None
        _, low, high = found.measure.interval
        assert low < pair.factor - 1 < high
    assert right >= 18


def test_a_server_that_does_not_start_any_more() -> None:
    found = explain(*sides(H200 / "default.log", H200 / "mla-backend.log"), Options())
    assert found.word == "does not start"
    assert found.came[0].finding.rule == "mla-backend-for-other-model"
    assert [str(one) for one in found.came[0].differences] == ["attention_backend: fa3 -> cutlass_mla"]


def test_the_same_log_on_both_sides_differs_in_nothing() -> None:
    found = explain(*sides(H200 / "triton.log", H200 / "triton.log"), Options())
    assert found.word == "no difference seen"
    assert (found.came, found.went, found.context, found.folded) == ((), (), (), ())
    assert (
        found.shared == ("attn-backend-slower-than-default",)
        or "attn-backend-slower-than-default" in found.shared
    )


def test_benchmark_results_decide_where_both_sides_have_them(tmp_path: Path) -> None:
    result = json.loads((FIXTURES / "bench" / "vllm_serve.json").read_text())
    for side, factor in (("before", 1.0), ("after", 0.9)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "server.log").write_text((STORY / side / "server.log").read_text())
        slower = {
            **result,
            "output_throughput": result["output_throughput"] * factor,
            "duration": 108.37 / factor,
        }
        (tmp_path / side / "result.json").write_text(json.dumps(slower))
    found = explain(*sides(tmp_path / "before", tmp_path / "after"), Options())
    assert found.measure is not None
    assert found.measure.metric == "output_tok_s"
    assert found.measure.interval[0] == pytest.approx(-0.1, abs=1e-3)
    assert [one.finding.rule for one in found.came] == ["triton-attn-default-sm120"]


@pytest.mark.parametrize(
    ("gain", "metric", "factor"),
    [
        ({"metric": "decode_tok_s", "change": "+10.4%"}, "decode_tok_s", 1.104),
        ({"metric": "decode_tok_s", "change": "10.7x"}, "decode_tok_s", 10.7),
        ({"metric": "throughput", "change": "+76%"}, "decode_tok_s", 1.76),
        ({"metric": "ttft_ms", "change": "-46%"}, "ttft_ms", 1 / 0.54),
        ({"metric": "ttft_ms", "change": "-46%"}, "decode_tok_s", None),
        ({"metric": "decode_tok_s", "change": "a lot"}, "decode_tok_s", None),
    ],
)
def test_gains_as_rules_write_them(gain: dict[str, str], metric: str, factor: float | None) -> None:
    found = gain_of({"gain": gain}, metric)
    assert found == (None if factor is None else pytest.approx(math.log(factor)))


def test_shares_of_opposite_sign_add_up_to_what_was_seen() -> None:
    causes = {
        "slow": {"gain": {"metric": "decode_tok_s", "change": "+25%", "where": "there"}},
        "cured": {"gain": {"metric": "decode_tok_s", "change": "+10%", "where": "there"}},
        "unmeasured": {},
    }
    split = attribute(math.log(0.9), 0.03, "decode_tok_s", ["slow", "unmeasured"], ["cured"], causes)
    by_rule = {share.rule: share.effect for share in split.shares}
    assert by_rule == {
        "slow": pytest.approx(math.log(0.8)),
        "cured": pytest.approx(math.log(1.1)),
        "unmeasured": None,
    }
    assert math.exp(split.left) == pytest.approx(0.9 / 0.8 / 1.1)
    assert split.left_half == pytest.approx(0.03 * math.sqrt(3))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "diagnoser", *arguments], capture_output=True, text=True, check=False
    )


def test_on_the_command_line() -> None:
    shown = run("--baseline", str(STORY / "before"), str(STORY / "after"))
    assert shown.returncode == 1
    assert shown.stdout.startswith("Slower: 89.5 -> 83.9 tok/s decoded, -6.3%")
    answer = json.loads(run("--baseline", str(STORY / "before"), str(STORY / "after"), "-f", "json").stdout)
    assert answer["schema"] == "diagnoser/regression/1"
    assert [one["finding"]["rule"] for one in answer["came"]] == ["triton-attn-default-sm120"]
    lost = run("--baseline", str(STORY / "gone.log"), str(STORY / "after"))
    assert lost.returncode == 2
    assert "gone.log" in lost.stderr
    assert "Traceback" not in lost.stderr
    alone = run("--baseline", str(STORY / "before"))
    assert alone.returncode == 2
    assert "other side" in alone.stderr


def test_a_side_that_holds_nothing_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CallError, match="nothing could be read"):
        explain([str(tmp_path)], [str(STORY / "after")], Options())
