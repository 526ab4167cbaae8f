"""What was not read is known for every kind of fact."""

from diagnoser.facts.registry import kinds
from diagnoser.inference.lacks import LACKS, not_shown
from diagnoser.parsers import registry


def test_every_kind_of_fact_has_its_document() -> None:
    assert set(LACKS) == set(kinds())


def test_the_documents_named_are_documents_that_parsers_make() -> None:
    made = {entry.document for entry in registry.entries() if entry.document} | {"kernel log"}
    for kind, lack in LACKS.items():
        for beginning in lack.documents:
            assert any(document.startswith(beginning) for document in made), (kind, beginning)


def test_a_kernel_log_is_no_log_of_a_server() -> None:
    assert not_shown("message", ["kernel log"], []) is not None
    assert not_shown("xid", ["kernel log"], []) is None
    assert not_shown("message", ["sglang log"], []) is None
    assert not_shown("xid", ["sglang log"], []) is not None


def test_the_topology_does_not_show_the_state_of_the_cards() -> None:
    missing = not_shown("xid", ["nvidia-smi table"], [])
    assert missing is not None
    assert missing.what == "the kernel log"
    assert not_shown("topology", ["nvidia-smi table"], []) is not None


def test_one_variable_read_does_not_mean_that_transports_were() -> None:
    assert not_shown("env", ["sglang log"], ["env"]) is None
    assert not_shown("nccl_transport", ["sglang log"], ["env"]) is not None
