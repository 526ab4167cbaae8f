"""Two sides of the story and of composed pairs: what came, what share it has, what is context, what is noise."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from diagnoser.agent.regression import explain
from diagnoser.agent.session import CallError, Options
from diagnoser.cli.schema import schema
from diagnoser.compare.attribution import attribute, gain_of
from diagnoser.report import regression as report
from diagnoser.report.regression_json import RegressionFound, as_json
from diagnoser.sources.hosts import bundle
from diagnoser.sources.hosts.collect import Item
from diagnoser.sources.hosts.remote_log import Part
from tests.compare.pairs import COMPOSED, SEEDS, compose

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
    assert "share    -9.4% [-12.0%, -6.7%]" in shown  # 1 / 1.104 - 1, as uncertain as the change itself
    assert "left     +3.5%" in shown
    assert "not claimed" in shown
    assert split.left_is_noise
    assert split.exceeds
    assert split.carries_over
    context = {str(one) for one, _ in found.context}
    assert {"torch local: cu128 -> cu130", "sgl-kernel version: 0.3.18 -> 0.3.21"} <= context
    assert "ue8m0" not in shown
    assert "DeepGemm" not in shown
    assert "known not to be (--all shows them)" in shown
    assert "not it: The DeepGemm scale_fmt warning" in report.as_text(found, everything=True)


def test_twenty_pairs_give_the_right_set_of_causes_and_blame_nothing_harmless() -> None:
    right = 0
    folders = sorted(COMPOSED.iterdir())
    assert len(folders) == 20
    for folder in folders:
        truth = json.loads((folder / "truth.json").read_text())
        assert 1 <= len(truth["causes"]) <= 3
        assert 5 <= truth["harmless"] <= 40
        found = explain(*sides(folder / "before.log.zst", folder / "after.log.zst"), Options(year=2026))
        named = {one.finding.rule for one in found.came}
        assert named <= set(truth["causes"]), (folder.name, named)
        right += named == set(truth["causes"])
        assert found.measure is not None
        _, low, high = found.measure.interval
        assert low < truth["factor"] - 1 < high
        # A loss of three percent is at the edge of what one launch on a side can show.
        assert found.word == "slower" or truth["factor"] > 0.96
    assert right >= 18


def test_the_committed_pairs_are_those_of_their_seeds() -> None:
    for seed in SEEDS:
        pair, folder = compose(seed), COMPOSED / f"{seed:02d}"
        for name, text in (("before", pair.before), ("after", pair.after)):
            packed = (folder / f"{name}.log.zst").read_bytes()
            assert zstandard.ZstdDecompressor().decompress(packed).decode() == text
        truth = json.loads((folder / "truth.json").read_text())
        assert (set(truth["causes"]), truth["harmless"]) == (pair.causes, pair.harmless)


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


def test_the_options_that_benchmark_results_hold_are_judged_too(tmp_path: Path) -> None:
    """SGLang's bench_serving copies its server's options into the result."""
    result = json.loads((FIXTURES / "bench" / "sglang_bench_serving.jsonl").read_text().splitlines()[0])
    (tmp_path / "before.jsonl").write_text(json.dumps(result))
    result["server_info"]["disable_radix_cache"] = True
    for name, factor in (("output_throughput", 0.9), ("mean_tpot_ms", 1 / 0.9), ("mean_itl_ms", 1 / 0.9)):
        result[name] *= factor
    (tmp_path / "after.jsonl").write_text(json.dumps(result))
    found = explain(*sides(tmp_path / "before.jsonl", tmp_path / "after.jsonl"), Options())
    assert found.word == "slower"
    assert [one.finding.rule for one in found.came] == ["radix-cache-off-by-flag"]
    assert [str(one) for one in found.came[0].differences] == ["disable_radix_cache: False -> True"]


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


def test_the_json_keeps_its_contract() -> None:
    committed = json.loads((FIXTURES.parent / "docs" / "schema" / "regression-1.json").read_text())
    assert schema("regression") == committed
    answer = as_json(explain(*sides(STORY / "before", STORY / "after"), Options()))
    assert RegressionFound.model_validate_json(answer).shares[0].rule == "triton-attn-default-sm120"


def test_speeds_are_held_beside_each_other_at_like_contexts() -> None:
    """Triton costs 40 % behind a prompt of 10,000 tokens and nothing behind 39: both are in one log of this H200."""
    found = explain(*sides(H200 / "default.log", H200 / "triton.log"), Options())
    assert found.word == "slower"
    assert found.measure is not None
    assert found.measure.at is not None
    assert (found.measure.at.running, found.measure.at.context) == (1, 4096)
    assert found.measure.interval[0] == pytest.approx(122.24 / 205.08 - 1, abs=1e-3)
    by_context = {speed.context: speed.better for speed in found.speeds[0].speeds}
    assert abs(by_context[0]) < 0.02
    assert found.attribution is not None
    assert found.attribution.shares[0].rule == "attn-backend-slower-than-default"
    assert found.attribution.left_is_noise
    assert not found.attribution.exceeds
    assert "at 1 running with 4k to 16k tokens, -40.4%" in report.as_text(found)


def test_speeds_under_other_traffic_are_not_compared() -> None:
    """One stream on the one side, ten clients on a small pool on the other: they share the speed of prompts alone."""
    found = explain(*sides(H200 / "healthy-0.5.17.log", H200 / "small-pool.log"), Options())
    assert found.word == "cannot be compared"
    assert {moved.metric for moved in found.load} >= {"running_reqs", "queue_reqs"}
    assert "kv-pool-limited-by-flag" in [one.finding.rule for one in found.came]
    assert [str(moved.after) for moved in found.behaviour] == ["6.0"]  # retractions


def test_a_share_measured_elsewhere_is_not_forced_upon_what_was_seen() -> None:
    causes = {"slow": {"gain": {"metric": "decode_tok_s", "change": "+68%", "where": "there"}}}
    split = attribute(math.log(0.994), 0.03, "decode_tok_s", ["slow"], [], causes)
    assert split.exceeds
    assert not split.carries_over
    as_seen = attribute(math.log(0.6), 0.03, "decode_tok_s", ["slow"], [], causes)
    assert not as_seen.exceeds
    assert as_seen.left_is_noise


def test_a_bundle_is_a_side(tmp_path: Path) -> None:
    for name, log in (("before", H200 / "default.log"), ("after", H200 / "mla-backend.log")):
        item = Item("server.log", "gpu-07", (Part(1, log.read_bytes()),), None)
        bundle.write(tmp_path / f"{name}.tar.zst", [bundle.Seen("gpu-07", [item], [])])
    found = explain(*sides(tmp_path / "before.tar.zst", tmp_path / "after.tar.zst"), Options())
    assert found.word == "does not start"
    assert found.came[0].finding.rule == "mla-backend-for-other-model"
    two = tmp_path / "two.tar.zst"
    bundle.write(two, [bundle.Seen(name, [], []) for name in ("gpu-07", "gpu-08")])
    with pytest.raises(CallError, match="it holds 2 machines"):
        explain(*sides(two, tmp_path / "after.tar.zst"), Options())


def test_sides_that_are_not_alike_are_told() -> None:
    vllm = FIXTURES / "vllm"
    one, other = vllm / "01_healthy_start_v0.11.0_h100_tp2.log", vllm / "06_enforce_eager_left_on_v0.22.1.log"
    found = explain(*sides(one, other), Options(year=2026))
    assert any("the sides are not alike" in note for note in found.notes)


def test_a_side_that_holds_nothing_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CallError, match="nothing could be read"):
        explain([str(tmp_path)], [str(STORY / "after")], Options())
