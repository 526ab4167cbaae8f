"""SGLang's statements in composed samples and real captures."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from diagnoser.facts.base import Fact, Found
from diagnoser.facts.engine import Capacity, Engine, Exited, Model, Ready, ServerArg, StartPhase
from diagnoser.parsers.sglang import PARSERS

Read = Callable[[Sequence[Any], str], list[Found]]


@pytest.fixture
def facts(read: Read, fixtures: Path) -> Callable[[str], list[Fact]]:
    def of(name: str) -> list[Fact]:
        return [found.fact for found in read(PARSERS, (fixtures / name).read_text(encoding="utf-8"))]

    return of


def capacities(facts: list[Fact]) -> dict[str, float]:
    return {fact.name: fact.value for fact in facts if isinstance(fact, Capacity)}


def phases(facts: list[Fact]) -> dict[str, float]:
    return {fact.name: fact.duration_s for fact in facts if isinstance(fact, StartPhase)}


def arguments(facts: list[Fact]) -> dict[str, object]:
    return {fact.name: fact.value for fact in facts if isinstance(fact, ServerArg)}


Of = Callable[[str], list[Fact]]


def test_start_up_of_eight_ranks(facts: Of) -> None:
    found = facts("sglang/02_triton_default_sm120_059.log")
    assert phases(found) == {"init_distributed": 4.87, "load_weight": 333.58, "cuda_graph": 28.31}
    sizes = capacities(found)
    assert sizes["kv_tokens"] == 159_744
    assert sizes["kv_size_gb"] == 10.45
    assert sizes["weights_gb"] == 73.10
    assert sizes["free_gb"] == 8.02
    assert sizes["max_running_requests"] == 2048
    assert sizes["context_len"] == 262_144
    assert sizes["cuda_graph_max_bs"] == 128
    assert Ready() in found


def test_resolved_arguments_do_not_say_who_asked(facts: Of) -> None:
    found = facts("sglang/02_triton_default_sm120_059.log")
    assert ServerArg(name="attention_backend", value="triton", asked=None) in found
    told = arguments(found)
    assert told["tp_size"] == 8
    assert told["disable_custom_all_reduce"] is True
    assert told["speculative_algorithm"] is None
    assert "context_length" not in told


def test_the_model_by_path_and_by_class(facts: Of) -> None:
    found = facts("sglang/02_triton_default_sm120_059.log")
    assert Model(path="/shared/kimi-k2.5-int4", attention="mla", moe=True) in found
    by_class = next(fact for fact in found if isinstance(fact, Model) and fact.architecture)
    assert by_class.architecture == "KimiK25ForConditionalGeneration"
    assert (by_class.attention, by_class.moe, by_class.multimodal) == ("mla", True, True)


def test_a_draft_model_is_kept_apart(facts: Of) -> None:
    found = facts("sglang/08_spec_decoding_low_accept_len_059.log")
    assert capacities(found)["weights_gb"] == 73.10
    assert capacities(found)["draft_weights_gb"] == 1.11
    assert phases(found)["load_draft_weight"] == 1.71
    assert phases(found)["draft_cuda_graph"] == 5.23
    assert phases(found)["draft_extend_cuda_graph"] == 3.87
    assert Model(architecture="LlamaForCausalLMEagle3") in found


def test_arguments_as_a_plain_dict(facts: Of) -> None:
    told = arguments(facts("sglang/09_format_0523_same_box.log"))
    assert told["attention_backend"] == "triton"
    assert told["disable_custom_all_reduce"] is False
    assert told["tp_size"] == 8


def test_a_real_start_on_one_h200(facts: Of) -> None:
    found = facts("captures/sglang_h200/triton.log")
    assert Engine(name="sglang") in found
    told = arguments(found)
    assert told["attention_backend"] == "triton"
    assert told["cuda_graph_config.decode.max_bs"] == 16
    took = phases(found)
    assert took["load_weight"] == 0.12
    assert took["init_distributed"] == 0.06
    assert took["prefill_cuda_graph"] == 11.14
    assert took["cuda_graph"] == 3.33
    assert took["tokenizer_e2e"] == 37.29
    sizes = capacities(found)
    assert sizes["kv_tokens"] == 576_804
    assert sizes["kv_size_gb"] == pytest.approx(70.42)
    assert sizes["weights_gb"] == 13.04
    assert sizes["cuda_graph_max_bs"] == 16
    assert Exited(how="sigterm") in found


def test_a_start_without_graphs(facts: Of) -> None:
    found = facts("captures/sglang_h200/nograph.log")
    assert arguments(found)["disable_cuda_graph"] is True
    assert "cuda_graph" not in phases(found)


def test_a_cpu_server_of_059(facts: Of) -> None:
    found = facts("captures/cpu_servers/sglang_cpu_059_retract.log")
    assert capacities(found)["kv_tokens"] == 2048
    assert capacities(found)["max_running_requests"] == 16
    assert arguments(found)["attention_backend"] == "torch_native"
    assert (
        Model(architecture="LlamaForCausalLM", attention="mha", moe=False, multimodal=False, dtype="bfloat16")
        in found
    )


@pytest.mark.parametrize(
    "name",
    [
        "03_cudnn_check_crash_059.log",
        "04_missing_libnvrtc_13_sgl_kernel_0321.log",
        "05_abi_mismatch_c10_cuda_check.log",
    ],
)
def test_a_server_that_dies_before_its_arguments_is_still_sglang(facts: Of, name: str) -> None:
    assert Engine(name="sglang") in facts(f"sglang/{name}")


@pytest.mark.parametrize(
    ("line", "how"),
    [
        (
            "[2026-02-27 15:17:28] Received sigquit from a child process. It usually means the child failed.",
            "sigquit",
        ),
        (
            "[2026-02-27 15:17:28 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
            "hang_watchdog",
        ),
        ("[2026-02-27 15:17:28 TP0] Watchdog timeout (self.watchdog_timeout=300)", "hang_watchdog"),
        (
            "[2026-02-27 15:17:28 TP3] Scheduler hit an exception: Traceback (most recent call last):",
            "exception",
        ),
        ("RuntimeError: Rank 0 scheduler died during initialization (exit code: -9). If", "sigkill"),
        ("[2026-02-27 15:17:28] Exit code: -11", "sigsegv"),
    ],
)
def test_deaths(read: Read, line: str, how: str) -> None:
    assert Exited(how=how) in [found.fact for found in read(PARSERS, line)]


def test_a_soft_watchdog_is_no_death(read: Read) -> None:
    line = "[2026-02-27 15:17:28] Detokenizer watchdog timeout (self.watchdog_timeout=300, self.soft=True)"
    assert not [found for found in read(PARSERS, line) if isinstance(found.fact, Exited)]


@pytest.mark.parametrize("cut", range(60, 2400, 190))
def test_a_cut_argument_line_gives_what_is_whole(read: Read, fixtures: Path, cut: int) -> None:
    text = (fixtures / "sglang/02_triton_default_sm120_059.log").read_text(encoding="utf-8")
    line = next(line for line in text.split("\n") if "server_args=" in line)
    whole = {found.fact for found in read(PARSERS, line)}
    told = [found.fact for found in read(PARSERS, line[:cut] + "...")]
    assert {fact for fact in told if isinstance(fact, ServerArg)} <= whole
