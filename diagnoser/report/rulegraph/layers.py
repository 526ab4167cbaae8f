"""Where the nodes of a graph stand: columns from cause to effect, few crossings."""

from math import fsum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx

    Graph = networkx.DiGraph[str]

SWEEPS = 6
"""How often the order inside the columns is bettered."""


def columns(graph: "Graph") -> list[list[str]]:
    """The nodes by column. Edges run to the right; of a circle one edge runs back. Equal graphs, equal columns."""
    import networkx

    layers = [sorted(layer) for layer in networkx.topological_generations(_without_circles(graph))]
    layers = _close_to_targets(layers, graph)
    for sweep in range(SWEEPS):
        _sweep(layers, graph, forward=sweep % 2 == 0)
    return layers


def _without_circles(graph: "Graph") -> "Graph":
    import networkx

    ordered: Graph = networkx.DiGraph()
    ordered.add_nodes_from(sorted(graph.nodes))
    ordered.add_edges_from(sorted(graph.edges))
    finished = {name: at for at, name in enumerate(networkx.dfs_postorder_nodes(ordered))}
    ordered.remove_edges_from([(a, b) for a, b in ordered.edges if finished[a] <= finished[b]])
    return ordered


def _close_to_targets(layers: list[list[str]], graph: "Graph") -> list[list[str]]:
    """A node without causes stands one column before the first thing it leads to, not at the far left."""
    column = {name: number for number, layer in enumerate(layers) for name in layer}
    for name in layers[0] if layers else []:
        targets = [column[target] for target in graph.successors(name) if column[target] > 0]
        if targets:
            column[name] = min(targets) - 1
    moved: list[list[str]] = [[] for _ in layers]
    for name in sorted(column):
        moved[column[name]].append(name)
    return [layer for layer in moved if layer]


def _sweep(layers: list[list[str]], graph: "Graph", *, forward: bool) -> None:
    """Every node moves to the mean place of its neighbours in the columns before (or behind) it."""
    places = _places(layers)
    for layer in layers if forward else reversed(layers):
        around = graph.predecessors if forward else graph.successors
        wanted = {
            name: fsum(places[other] for other in near) / len(near) if near else places[name]
            for name in layer
            for near in [list(around(name))]
        }
        layer.sort(key=lambda name: (wanted[name], name))
        places.update(_places([layer]))


def _places(layers: list[list[str]]) -> dict[str, float]:
    """Node -> its height in its column, 0 above and 1 below."""
    return {name: (at + 0.5) / len(layer) for layer in layers for at, name in enumerate(layer)}
