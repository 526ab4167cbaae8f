"""The rule graph: causes, what they explain, what they exclude.

A cause explains every symptom of its effect. Drawn one by one these would be thousands of edges, so an effect that
has symptoms is a node of its own between them.
"""

from typing import TYPE_CHECKING, NamedTuple

from diagnoser.rulebook.pack import Pack
from diagnoser.rulebook.words import EFFECTS

if TYPE_CHECKING:
    import networkx

    Graph = networkx.DiGraph[str]

EFFECT = "effect:"
"""What the name of an effect's node begins with."""


class Node(NamedTuple):
    """kind: cause, symptom, bystander or effect. title: what it means. leads: how many rules lead to an effect."""

    kind: str
    title: str
    leads: int = 0

    @property
    def note(self) -> str:
        return f" ({self.leads} lead to it)" if self.kind == "effect" else ""


def rule_graph(pack: Pack, around: str | None = None) -> "Graph | None":
    """Nodes with a `Node` as ``node``; edges with ``relation`` = explains or excludes.

    around: only this rule, what touches it, and the symptoms of its effects; None when there is no such rule.
    """
    import networkx

    graph: Graph = networkx.DiGraph()
    symptoms = _symptoms(pack)
    for identifier, cause in sorted(pack.causes.items()):
        graph.add_node(identifier, node=Node(cause["kind"], cause["title"]))
        direct = [target for target in cause["explains"] if target in pack.causes]
        effects = [word for word in cause["explains"] if word in symptoms]
        if cause["kind"] == "cause" and cause["effect"] in symptoms:
            effects.append(cause["effect"])
        for target in [*direct, *(EFFECT + effect for effect in effects)]:
            graph.add_edge(identifier, target, relation="explains")
        for target in cause["excludes"]:
            if target in pack.causes:
                graph.add_edge(identifier, target, relation="excludes")
    for effect, shown in symptoms.items():
        name = EFFECT + effect
        leads = graph.in_degree(name) if name in graph else 0
        graph.add_node(name, node=Node("effect", effect.replace("_", " "), leads))
        graph.add_edges_from(((name, symptom) for symptom in shown), relation="explains")
    return graph if around is None else _near(graph, around)


def node_of(graph: "Graph", name: str) -> Node:
    node = graph.nodes[name]["node"]
    assert isinstance(node, Node)
    return node


def _symptoms(pack: Pack) -> dict[str, list[str]]:
    """Effect -> its symptoms, for effects that have any."""
    found: dict[str, list[str]] = {effect: [] for effect in EFFECTS if effect != "none"}
    for identifier, cause in sorted(pack.causes.items()):
        if cause["kind"] == "symptom" and cause["effect"] in found:
            found[cause["effect"]].append(identifier)
    return {effect: shown for effect, shown in found.items() if shown}


def _near(graph: "Graph", around: str) -> "Graph | None":
    if around not in graph or around.startswith(EFFECT):
        return None
    near = {around, *graph.predecessors(around), *graph.successors(around)}
    for effect in graph.successors(around):
        if effect.startswith(EFFECT):
            near.update(graph.successors(effect))
    touching = graph.subgraph(near).copy()
    far = [(a, b) for a, b in touching.edges if around not in (a, b) and not a.startswith(EFFECT)]
    touching.remove_edges_from(far)
    return touching


_SHAPES = {"cause": "box", "symptom": "ellipse", "bystander": "note", "effect": "hexagon"}


def as_dot(graph: "Graph") -> str:
    """Graphviz."""
    lines = ["digraph rules {", "  rankdir=LR;"]
    for name in sorted(graph.nodes):
        node = node_of(graph, name)
        label = f', label="{node.title}{node.note}"' if node.kind == "effect" else ""
        lines.append(f'  "{name}" [shape={_SHAPES[node.kind]}{label}];')
    for start, end in sorted(graph.edges):
        style = " [style=dashed, arrowhead=tee]" if graph.edges[start, end]["relation"] == "excludes" else ""
        lines.append(f'  "{start}" -> "{end}"{style};')
    return "\n".join([*lines, "}"])


def as_mermaid(graph: "Graph") -> str:
    """Mermaid flow chart."""
    numbers = {name: f"n{number}" for number, name in enumerate(sorted(graph.nodes))}
    lines = ["flowchart LR"]
    for name, number in numbers.items():
        node = node_of(graph, name)
        label = f'{{{{"{node.title}{node.note}"}}}}' if node.kind == "effect" else f'["{name}"]'
        lines.append(f"  {number}{label}")
    for start, end in sorted(graph.edges):
        arrow = "-.->|excludes|" if graph.edges[start, end]["relation"] == "excludes" else "-->"
        lines.append(f"  {numbers[start]} {arrow} {numbers[end]}")
    return "\n".join(lines)
