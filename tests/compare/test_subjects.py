"""Two real starts of one server differ in what was changed between them, and in nothing else."""

from pathlib import Path

from diagnoser.agent import session
from diagnoser.compare.subjects import Stated, Subject, Value, folded, same, stated
from diagnoser.facts.factbase import FactBase, merge_all

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
H200 = FIXTURES / "captures/sglang_h200"


def facts(*paths: Path) -> FactBase:
    judged = session.run(list(paths))
    assert not isinstance(judged, list)
    return merge_all([part.case.facts for part in judged.parts])


def differing(left: dict[Subject, Stated], right: dict[Subject, Stated]) -> set[tuple[str, str]]:
    """Area and name of the subjects that both state and that differ."""
    return {
        (subject.area, subject.name)
        for subject in left.keys() & right.keys()
        if not same(subject, (left[subject].value, right[subject].value))
    }


def test_the_changed_flag_and_what_follows_from_it() -> None:
    default, triton = stated(facts(H200 / "default.log")), stated(facts(H200 / "triton.log"))
    found = differing(default, triton)
    assert ("flags", "attention_backend") in found
    noise = {name for area, name in found if area == "flags"} - {"attention_backend"}
    assert noise <= {"random_seed", "port", "mem_fraction_static"}, noise


def test_every_card_is_told_and_several_can_be_folded() -> None:
    said = stated(facts(FIXTURES / "gpu_host/t07_table_580_8x_rtxpro6000_idle.txt"))
    limits = {subject.name: one.value for subject, one in said.items() if subject.field == "power_limit_w"}
    assert limits == {f"gpu {number}": 600 for number in range(8)}
    assert (
        folded(subject for subject in said if subject.field == "power_limit_w").name == "gpu 0 1 2 3 4 5 6 7"
    )


def test_sizes_within_a_percent_are_the_same_and_spellings_do_not_count() -> None:
    memory, flag = Subject("memory", "capacity", "kv_tokens", ""), Subject("flags", "server_arg", "x", "")

    def equal(subject: Subject, *values: Value) -> bool:
        return same(subject, values)

    assert equal(memory, 100_000.0, 101_000.0)
    assert not equal(memory, 100_000.0, 120_000.0)
    assert equal(flag, True, "true")
    assert equal(flag, 1, 1.0)
    assert not equal(flag, "fa3", "triton")
