"""The rule graph: causes, what they explain, what they exclude."""

from typing import Any

from diagnoser.rulebook.pack import Pack


def rule_graph(pack: Pack, around: str | None = None) -> Any:
    """A `networkx.DiGraph` of rules with edges ``relation`` = explains or excludes.

    around: only this rule and what touches it; None is returned when it does not exist.
    """
    import networkx

    graph = networkx.DiGraph()
    for identifier, cause in pack.causes.items():
        graph.add_node(identifier, kind=cause["kind"], severity=cause["severity"], title=cause["title"])
    for identifier, cause in pack.causes.items():
        for target in cause["explained"]:
            if target in pack.causes:
                graph.add_edge(identifier, target, relation="explains")
        for target in cause["excludes"]:
            if target in pack.causes:
                graph.add_edge(identifier, target, relation="excludes")
    if around is None:
        return graph
    if around not in graph:
        return None
    near = {around, *graph.successors(around), *graph.predecessors(around)}
    return graph.subgraph(near)


_SHAPES = {"cause": "box", "symptom": "ellipse", "bystander": "note"}


def as_dot(graph: Any) -> str:
    """Graphviz."""
    lines = ["digraph rules {", "  rankdir=LR;"]
    for name in sorted(graph.nodes):
        node = graph.nodes[name]
        lines.append(f'  "{name}" [shape={_SHAPES[node["kind"]]}];')
    for start, end in sorted(graph.edges):
        style = " [style=dashed, arrowhead=tee]" if graph.edges[start, end]["relation"] == "excludes" else ""
        lines.append(f'  "{start}" -> "{end}"{style};')
    return "\n".join([*lines, "}"])


def as_mermaid(graph: Any) -> str:
    """Mermaid flow chart."""
    numbers = {name: f"n{number}" for number, name in enumerate(sorted(graph.nodes))}
    lines = ["flowchart LR"]
    lines += [f'  {number}["{name}"]' for name, number in numbers.items()]
    for start, end in sorted(graph.edges):
        arrow = "-.->|excludes|" if graph.edges[start, end]["relation"] == "excludes" else "-->"
        lines.append(f"  {numbers[start]} {arrow} {numbers[end]}")
    return "\n".join(lines)
