"""A graph as inline SVG: every node is a link, so that the keyboard reaches it."""

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from diagnoser.report.rulegraph.layers import columns

if TYPE_CHECKING:
    import networkx

    Graph = networkx.DiGraph[str]

HEIGHT, GAP, BETWEEN, MARGIN = 24, 8, 90, 8
"""Of a node, between nodes, between columns, around all; in pixels."""

LETTER = 7.3
"""Width of one letter of the 12 px monospace font, in pixels."""


class Shape(NamedTuple):
    """How a node is shown. href: where it leads. kind: its style."""

    label: str
    title: str
    href: str
    kind: str


class _Box(NamedTuple):
    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        return self.y + HEIGHT / 2


def drawing(graph: "Graph", shapes: dict[str, Shape], title: str) -> str:
    """SVG of a graph whose nodes all have a shape; edges may carry ``relation`` and ``weight``."""
    return "\n".join(_lines(graph, shapes, title))


def _lines(graph: "Graph", shapes: dict[str, Shape], title: str) -> Iterator[str]:
    boxes, width, height = _boxes(columns(graph), shapes)
    yield f'<div class="drawing" tabindex="0" role="region" aria-label="{escape(title)}">'
    yield f'<svg width="{width:.0f}" height="{height:.0f}" role="group" aria-label="{escape(title)}">'
    for start, end in sorted(graph.edges):
        yield _edge(start, end, graph.edges[start, end], boxes)
    for name, box in boxes.items():
        yield _node(name, shapes[name], box)
    yield "</svg></div>"


def _boxes(layers: list[list[str]], shapes: dict[str, Shape]) -> tuple[dict[str, _Box], float, float]:
    """Node -> box, and the size of the drawing; columns are centred."""
    tallest = max(map(len, layers), default=0) * (HEIGHT + GAP) - GAP
    boxes: dict[str, _Box] = {}
    x = float(MARGIN)
    for layer in layers:
        width = max(len(shapes[name].label) for name in layer) * LETTER + 16
        y = MARGIN + (tallest - (len(layer) * (HEIGHT + GAP) - GAP)) / 2
        for row, name in enumerate(layer):
            boxes[name] = _Box(x, y + row * (HEIGHT + GAP), width)
        x += width + BETWEEN
    return boxes, max(x - BETWEEN + MARGIN, 2 * MARGIN), tallest + 2 * MARGIN


def _edge(start: str, end: str, data: dict[str, object], boxes: dict[str, _Box]) -> str:
    a, b = boxes[start], boxes[end]
    back = b.x <= a.x
    x1, x2 = (a.x + a.width, b.x) if not back else (a.x + a.width, b.x + b.width)
    bend = BETWEEN / 2
    path = (
        f"M{x1:.0f} {a.middle:.0f}C{x1 + bend:.0f} {a.middle:.0f} "
        f"{x2 + (bend if back else -bend):.0f} {b.middle:.0f} {x2:.0f} {b.middle:.0f}"
    )
    width = f' style="stroke-width:{data["weight"]}"' if "weight" in data else ""
    relation = escape(str(data.get("relation", "explains")))
    return f'<path class="{relation}" data-a="{escape(start)}" data-b="{escape(end)}"{width} d="{path}"/>'


def _node(name: str, shape: Shape, box: _Box) -> str:
    corner = {"symptom": HEIGHT / 2, "effect": 0}.get(shape.kind, 4)
    return (
        f'<a href="{escape(shape.href)}" class="node {escape(shape.kind)}" data-node="{escape(name)}">'
        f"<title>{escape(shape.title)}</title>"
        f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{HEIGHT}" rx="{corner:.0f}"/>'
        f'<text x="{box.x + 8:.0f}" y="{box.y + HEIGHT - 8:.0f}">{escape(shape.label)}</text></a>'
    )
