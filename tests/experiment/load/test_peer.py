"""Beside a public client (AIPerf, from PyPI, in an environment of its own) on the same server, in the same run."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diagnoser.experiment.load.bench import Plan, bench
from diagnoser.experiment.load.client import Client
from diagnoser.experiment.results import Run

AIPERF = "aiperf==0.13.0"
STREAMS, TOKENS = 8, 64
TOKENIZER = """
import sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
made = Tokenizer(models.BPE())
made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
alphabet = pre_tokenizers.ByteLevel.alphabet()
made.train_from_iterator(["word"], trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=["<s>"]))
PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="<s>").save_pretrained(sys.argv[1])
"""


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of AIPerf's programs; DIAGNOSER_TEST_PEER names an environment that has it already."""
    if "DIAGNOSER_TEST_PEER" in os.environ:
        return Path(os.environ["DIAGNOSER_TEST_PEER"]) / "bin"
    folder = tmp_path_factory.mktemp("peer")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([str(folder / "bin" / "pip"), "install", "--quiet", AIPERF], check=True)
    return folder / "bin"


def _theirs(peer: Path, url: str, folder: Path) -> dict[str, Any]:
    # No hub can be reached: the tokenizer that it shapes its prompts with is made on the spot.
    subprocess.run([str(peer / "python"), "-c", TOKENIZER, str(folder / "tokenizer")], check=True)
    call = [
        str(peer / "aiperf"),
        "profile",
        "-m",
        "tiny",
        "--url",
        url,
        "--endpoint-type",
        "completions",
        "--streaming",
    ]
    call += [
        "--concurrency",
        str(STREAMS),
        "--request-count",
        str(3 * STREAMS),
        "--warmup-request-count",
        str(STREAMS),
    ]
    call += [
        "--isl",
        "40",
        "--isl-stddev",
        "0",
        "--osl",
        str(TOKENS),
        "--osl-stddev",
        "0",
        "--use-server-token-count",
    ]
    call += ["--tokenizer", str(folder / "tokenizer"), "--artifact-dir", str(folder / "out"), "--ui", "none"]
    subprocess.run(call, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    found: dict[str, Any] = json.loads((folder / "out" / "profile_export_aiperf.json").read_text())
    return found


def _ours(url: str) -> list[Run]:
    async def go() -> list[Run]:
        async with Client(url) as client:
            plan = Plan(prompt_tokens=40, output_tokens=TOKENS, concurrency=STREAMS, runs=3)
            return (await bench(client, plan)).launches[0].runs

    return asyncio.run(go())


@pytest.mark.slow
def test_both_clients_see_the_same_server(serve: Callable[..., str], peer: Path, tmp_path: Path) -> None:
    ttft_ms, gap_ms = 800.0, 20.0
    url = serve(ttft_s=ttft_ms / 1e3, gap_s=gap_ms / 1e3)
    theirs = _theirs(peer, url, tmp_path)
    ours = _ours(url)
    e2e_ms = ttft_ms + (TOKENS - 1) * gap_ms
    # Their name, ours, the schedule's truth. Their inter_token_latency is the decode time per token.
    for name, values, truth in (
        ("time_to_first_token", [run.ttft_ms for run in ours], ttft_ms),
        ("inter_token_latency", [run.decode_ms_per_token for run in ours], gap_ms),
        ("request_latency", [run.e2e_ms for run in ours], e2e_ms),
    ):
        mean = sum(value.mean for value in values if value is not None) / len(ours)
        assert mean == pytest.approx(truth, rel=0.01), name
        assert mean == pytest.approx(theirs[name]["avg"], rel=0.03), name
        # Ours is the nearer to the truth, or within 0.2 % of it.
        assert abs(mean - truth) <= max(abs(theirs[name]["avg"] - truth), truth * 0.002), name
