"""The rule graph: effects stand between causes and symptoms."""

import pytest

from diagnoser.rulebook.graph import EFFECT, Node, as_dot, as_mermaid, node_of, rule_graph
from diagnoser.rulebook.pack import Pack


def cause(
    kind: str, effect: str, explains: tuple[str, ...] = (), excludes: tuple[str, ...] = ()
) -> dict[str, object]:
    return {
        "kind": kind,
        "effect": effect,
        "severity": "high",
        "title": f"a {kind}",
        "explains": list(explains),
        "excludes": list(excludes),
        "file": "/rules/some/rule.yaml",
    }


PACK = Pack(
    [],
    [],
    {
        "cut-wire": cause("cause", "hang", ("crash",), ("loose-wire",)),
        "loose-wire": cause("cause", "hang"),
        "heat": cause("cause", "capacity_lower", ("no-answer",)),
        "no-answer": cause("symptom", "hang"),
        "died": cause("symptom", "crash"),
        "hum": cause("bystander", "none"),
    },
    {},
    {},
    [],
)


def test_a_cause_leads_to_its_effect_and_the_effect_to_its_symptoms() -> None:
    graph = rule_graph(PACK)
    assert graph is not None
    assert {(a, b): graph.edges[a, b]["relation"] for a, b in graph.edges} == {
        ("cut-wire", EFFECT + "hang"): "explains",
        ("cut-wire", EFFECT + "crash"): "explains",
        ("cut-wire", "loose-wire"): "excludes",
        ("loose-wire", EFFECT + "hang"): "explains",
        ("heat", "no-answer"): "explains",
        (EFFECT + "hang", "no-answer"): "explains",
        (EFFECT + "crash", "died"): "explains",
    }
    assert node_of(graph, EFFECT + "hang") == Node("effect", "hang", 2)
    assert EFFECT + "capacity_lower" not in graph  # it has no symptom, so nothing is explained by it


def test_around_a_rule_stands_what_it_touches_and_the_symptoms_of_its_effects() -> None:
    graph = rule_graph(PACK, "cut-wire")
    assert graph is not None
    assert set(graph) == {"cut-wire", "loose-wire", "no-answer", "died", EFFECT + "hang", EFFECT + "crash"}
    assert ("loose-wire", EFFECT + "hang") not in graph.edges
    assert node_of(graph, EFFECT + "hang").leads == 2  # also those that are not shown
    alone = rule_graph(PACK, "hum")
    assert alone is not None
    assert set(alone) == {"hum"}


@pytest.mark.parametrize("name", ["no-such-rule", EFFECT + "hang"])
def test_there_is_no_graph_around_what_is_no_rule(name: str) -> None:
    assert rule_graph(PACK, name) is None


def test_dot_and_mermaid_show_nodes_and_relations() -> None:
    graph = rule_graph(PACK, "cut-wire")
    assert graph is not None
    dot = as_dot(graph)
    assert '  "effect:hang" [shape=hexagon, label="hang (2 lead to it)"];' in dot
    assert '  "cut-wire" -> "loose-wire" [style=dashed, arrowhead=tee];' in dot
    assert '  "cut-wire" -> "effect:crash";' in dot
    mermaid = as_mermaid(graph).splitlines()
    assert mermaid[0] == "flowchart LR"
    assert '  n0["cut-wire"]' in mermaid
    assert '  n3{{"hang (2 lead to it)"}}' in mermaid
    assert "  n0 -.->|excludes| n4" in mermaid
