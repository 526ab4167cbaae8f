"""Every tool's file is read as what it measured: the truth stands beside the files."""

import json
from pathlib import Path

import pytest

from diagnoser.experiment.comparison import NotComparableError, compare
from diagnoser.experiment.importers import NotABenchmarkError, read
from diagnoser.experiment.measured import Measured

BENCH = Path(__file__).resolve().parents[2] / "fixtures" / "bench"
TRUTH = json.loads((BENCH / "truth.json").read_text())
RUN = TRUTH["run"]
WHOLE_RUN = [
    "vllm_serve.json", "vllm_serve_detailed.json", "sglang_bench_serving.jsonl", "sglang_bench_serving_details.jsonl",
    "guidellm_benchmarks.json", "guidellm_benchmarks.csv", "aiperf/profile_export_aiperf.json",
    "aiperf/profile_export_aiperf.csv", "genai_perf/profile_export_genai_perf.json",
    "genai_perf/profile_export_genai_perf.csv", "inference_perf/summary_lifecycle_metrics.json", "llmperf_summary.json",
]  # fmt: skip
CANONICAL = {
    "output_tok_s_wall": RUN["output_tok_s_wall"],
    "ttft_ms": RUN["mean_ttft_ms"],
    "e2e_ms": RUN["mean_e2e_ms"],
    "decode_ms_per_token": RUN["mean_tpot_ms_excl_first"],
    "e2e_ms_per_token": RUN["mean_tpot_ms_incl_first"],
}


def one(name: str) -> Measured:
    (found,) = read(BENCH / name)
    return found


@pytest.mark.parametrize("name", WHOLE_RUN)
def test_one_run_in_twelve_files(name: str) -> None:
    (run,) = one(name).runs
    assert {"output_tok_s_wall", "ttft_ms"} <= run.keys()
    for metric, value in run.items():
        if metric in CANONICAL:
            # Tables print two decimals.
            assert value == pytest.approx(CANONICAL[metric], rel=5e-4 if name.endswith(".csv") else 1e-6), (
                metric
            )


def test_names_that_lie() -> None:
    assert one("llmperf_summary.json").runs[0].keys() >= {"e2e_ms_per_token"}
    assert "decode_ms_per_token" not in one("llmperf_summary.json").runs[0]
    guidellm = one("guidellm_benchmarks.json").runs[0]
    assert guidellm["e2e_ms_per_token"] == pytest.approx(RUN["mean_tpot_ms_incl_first"])
    assert guidellm["decode_ms_per_token"] == pytest.approx(RUN["mean_tpot_ms_excl_first"])


def test_runs_of_one_launch() -> None:
    plain = one("seed_plain.txt")
    rates = TRUTH["seed_plain"]["rates_recomputed"]
    assert [round(run["output_tok_s_request"], 3) for run in plain.runs] == [
        r for i, r in enumerate(rates, 1) if i != 4
    ]
    assert plain.flags == ("run 4 has 1837 of 2048 tokens and is left out",)
    for name in ("llama_bench.json", "llama_bench.jsonl"):
        assert [run["output_tok_s_request"] for run in one(name).runs] == TRUTH["llama_bench.json"][
            "samples_ts"
        ]
    for name in ("llama_bench.csv", "llama_bench.md"):
        assert one(name).runs[0]["output_tok_s_request"] == pytest.approx(
            TRUTH["llama_bench.json"]["mean"], abs=0.005
        )
    assert len(one("vllm_serve_append.jsonl").runs) == 2
    assert [run["e2e_ms"] / 1000 for run in one("vllm_latency.json").runs] == TRUTH["per_request"][
        "latency_s"
    ]


def test_the_first_token_is_counted_in() -> None:
    """SGLang's batch benchmark leaves it out of its throughput."""
    run = one("sglang_bench_one_batch_server.jsonl").runs[0]
    assert run["output_tok_s_wall"] == pytest.approx(2048 / 22.13)
    assert run["decode_ms_per_token"] == pytest.approx(1000 * (22.13 - 0.21) / 2047)
    assert "accept_len" not in run


def test_traps_are_named_and_not_read() -> None:
    trap = one("sglang_bench_serving_trap_requested_len.jsonl")
    assert "output_tok_s_wall" not in trap.runs[0]
    assert trap.flags == (
        "10240 output tokens were counted and 10021 were generated: the requested length was counted",
    )
    spec = one("vllm_serve_spec.json")
    assert spec.runs[0]["accept_len"] == TRUTH["vllm_serve_spec.json"]["acceptance_length"]
    assert spec.runs[0]["decode_ms_per_token"] == pytest.approx(TRUTH["vllm_serve_spec.json"]["per_token_ms"])
    assert "a chunk holds about 3.0 tokens" in spec.flags[0]
    assert one("vllm_throughput.json").runs[0].keys() == {"total_tok_s_wall"}


def test_only_like_is_held_against_like(tmp_path: Path) -> None:
    with pytest.raises(NotComparableError, match="measure different things"):
        compare([one("vllm_serve.json")], [one("vllm_throughput.json")])
    with pytest.raises(NotComparableError, match=r"output tokens 2005\.8 and 2048"):
        compare([one("vllm_serve.json")], [one("sglang_bench_serving_trap_requested_len.jsonl")])
    metrics = {
        row.metric for row in compare([one("guidellm_benchmarks.json")], [one("llmperf_summary.json")]).rows
    }
    assert metrics == {"output_tok_s_wall", "ttft_ms", "e2e_ms", "e2e_ms_per_token"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no benchmark result that is known"),
        ("hello\n", "no benchmark result that is known"),
        ('{"a": 1}', "no benchmark result that is known"),
        ('{"completed": 1, "request_throughput": 1}', "is damaged"),
        ("[]", "no benchmark result that is known"),
    ],
)
def test_what_is_no_result(text: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(NotABenchmarkError, match=sentence):
        read(file)


def plain(folder: Path, name: str, rates: list[float]) -> None:
    folder.mkdir(exist_ok=True)
    lines = [
        f"Run {i}: 2048 tokens in {2048 / rate:.6f}s = {rate:.4f} tok/s" for i, rate in enumerate(rates, 1)
    ]
    (folder / name).write_text("\n".join(lines) + "\n")


def test_more_launches_see_more(tmp_path: Path) -> None:
    """By hand: +4 % over one launch each is within the noise of launches; over four each it is not."""
    for number in range(4):
        plain(tmp_path / "a", f"{number}.txt", [100.0 + 0.1 * number] * 5)
        plain(tmp_path / "b", f"{number}.txt", [104.0 + 0.1 * number] * 5)
    single = compare(read(tmp_path / "a" / "0.txt"), read(tmp_path / "b" / "0.txt"))
    several = compare(read(tmp_path / "a"), read(tmp_path / "b"))
    assert single.rows[0].better.effect == pytest.approx(0.04, abs=1e-4)
    assert single.detectable > 0.04 > several.detectable
    assert any("one launch on a side" in limit for limit in single.limits)
    assert several.word == "faster"
    assert several.limits == ()
    assert compare(read(tmp_path / "b"), read(tmp_path / "a")).word == "slower"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from diagnoser.cli.compare import run

    plain(tmp_path, "a.txt", [100.0] * 5)
    plain(tmp_path, "b.txt", [80.0] * 5)
    assert run([str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]) == 1
    assert capsys.readouterr().out.startswith("B is slower: -20.0%")
    assert run([str(tmp_path / "b.txt"), str(tmp_path / "a.txt"), "-f", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["word"] == "faster"
    assert run([str(tmp_path / "a.txt"), str(tmp_path / "none.txt")]) == 2
    assert "cannot be read" in capsys.readouterr().err
