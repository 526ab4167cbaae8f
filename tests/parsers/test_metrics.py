"""/metrics of real servers (captures) and of busy ones (the same names with other values)."""

import re
from pathlib import Path

from diagnoser import diagnose
from diagnoser.facts.base import Fact
from diagnoser.facts.engine import Capacity, Engine, SeriesStat, ServerArg
from diagnoser.parsers.metrics import PARSERS

CAPTURES = Path(__file__).resolve().parents[2] / "fixtures" / "captures" / "cpu_servers"
VLLM = (CAPTURES / "vllm_metrics.txt").read_text()
SGLANG = (CAPTURES / "sglang_metrics.txt").read_text()


def read(text: str) -> list[Fact]:
    return [found.fact for found in PARSERS[0].parse(text.splitlines(), 0)]


def stats(facts: list[Fact]) -> dict[str, float]:
    return {fact.metric: fact.last for fact in facts if isinstance(fact, SeriesStat)}


def busy(text: str, **values: float) -> str:
    for name, value in values.items():
        text, count = re.subn(rf"(?m)^(\w+:{name}(?:\{{.*\}})?) .*$", rf"\1 {value}", text)
        assert count
    return text


def test_vllm_as_captured() -> None:
    facts = read(VLLM)
    assert facts[0] == Engine(name="vllm")
    assert stats(facts) == {"running_reqs": 0, "queue_reqs": 0, "kv_usage": 0, "preemptions_total": 0}
    assert ServerArg(name="enable_prefix_caching", value=True) in facts
    assert ServerArg(name="gpu_memory_utilization", value=0.92) in facts
    assert Capacity(name="kv_tokens", value=131072) in facts


def test_sglang_as_captured() -> None:
    facts = read(SGLANG)
    assert facts[0] == Engine(name="sglang")
    assert stats(facts) == {"running_reqs": 0, "queue_reqs": 0, "kv_usage": 0}
    assert Capacity(name="kv_tokens", value=16384) in facts


def test_counters_become_shares_where_there_is_enough_to_count() -> None:
    text = busy(VLLM, prefix_cache_queries_total=200_000, prefix_cache_hits_total=50_000)
    assert stats(read(text))["cache_hit"] == 0.25
    drafts = 'vllm:spec_decode_num_drafts_total{engine="0"} 1000.0\nvllm:spec_decode_num_accepted_tokens_total{engine="0"} 840.0\n'
    assert stats(read(VLLM + drafts))["accept_len"] == 1.84  # 1 + 840 / 1000


def test_engines_are_summed_and_ranks_are_not() -> None:
    two = VLLM + busy(VLLM, num_requests_waiting=3).replace('engine="0"', 'engine="1"')
    assert stats(read(two))["queue_reqs"] == 3
    ranks = busy(SGLANG, num_running_reqs=5)
    ranks += "".join(line.replace('tp_rank="0"', 'tp_rank="1"') for line in ranks.splitlines(keepends=True))
    assert stats(read(ranks))["running_reqs"] == 5


def test_an_idle_server_is_blamed_for_nothing_and_a_full_one_is_seen() -> None:
    for text in (VLLM, SGLANG):
        diagnosis = diagnose(text)
        assert [one.kind for one in diagnosis.coverage] == ["metrics"]
        assert diagnosis.causes == []
    full = busy(
        VLLM,
        num_preemptions_total=340,
        kv_cache_usage_perc=0.997,
        num_requests_waiting=60,
        num_requests_running=64,
    )
    first = diagnose(full).causes[0]
    assert first.rule == "preemption-kv-full"
    assert any("num_preemptions_total" in place.text for place in first.evidence)


def test_behind_a_log_it_is_a_document_of_its_own() -> None:
    log = (CAPTURES / "vllm_default.log").read_text()
    kinds = [one.kind for one in diagnose(log + "\n" + VLLM).coverage]
    assert kinds == ["vllm log", "metrics"]
