"""The page: a drawing, a filter, and every rule with what it leads to."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diagnoser.report.rulegraph.drawing import Shape, drawing
from diagnoser.report.rulegraph.style import SCRIPT, STYLE
from diagnoser.rulebook.graph import EFFECT, node_of
from diagnoser.rulebook.pack import Pack

if TYPE_CHECKING:
    import networkx

    Graph = networkx.DiGraph[str]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
KINDS = ("cause", "symptom", "bystander")
_LEGEND = "A cause leads to its effect and an effect to its symptoms; dashed: this rule excludes that one."


def page(pack: Pack, graph: "Graph", around: str | None = None) -> str:
    """HTML of `rulebook.graph.rule_graph`: the whole, grouped by pack, or one rule and what touches it."""
    heading = f"Rules around {around}" if around else "Rules"
    body = _one(pack, graph, around) if around else _whole(pack, graph)
    return (
        "\n".join([*_head(heading, len(_rules(graph))), *body, f"<script>{SCRIPT}</script>", "</html>"])
        + "\n"
    )


def _head(heading: str, rules: int) -> Iterator[str]:
    yield '<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield f"<title>{escape(heading)}</title>\n<style>{STYLE}</style>"
    yield f'<header><h1>{escape(heading)}</h1><label>Filter <input id="filter" type="search"></label>'
    yield f'<span id="count" role="status"></span><span class="dim">{rules} rules. {_LEGEND}</span></header>'


def _one(pack: Pack, graph: "Graph", around: str) -> Iterator[str]:
    yield drawing(graph, _shapes(graph), f"{around} and the rules it touches")
    order = sorted(_rules(graph), key=lambda name: (name != around, name))
    yield from _listed(order, pack, graph)
    yield from _effects(graph)


def _whole(pack: Pack, graph: "Graph") -> Iterator[str]:
    packs: dict[str, list[str]] = {}
    for name in sorted(_rules(graph)):
        packs.setdefault(_pack_of(name, pack), []).append(name)
    overview, shapes = _overview(packs, pack, graph)
    yield drawing(overview, shapes, "Packs and the effects of their causes")
    yield "<h2>Packs</h2>"
    for name, rules in sorted(packs.items()):
        counts = Counter(node_of(graph, rule).kind for rule in rules)
        counted = ", ".join(_number(kind, counts[kind]) for kind in KINDS if counts[kind])
        yield f'<details class="group" id="pack-{escape(name)}">{_summary(name, counted)}'
        yield from _between(name, rules, graph)
        yield from _listed(rules, pack, graph)
        yield "</details>"
    yield from _effects(graph)


def _overview(packs: Mapping[str, list[str]], pack: Pack, graph: "Graph") -> tuple["Graph", dict[str, Shape]]:
    """Packs -> effects, as wide as there are causes."""
    import networkx

    small: Graph = networkx.DiGraph()
    shapes: dict[str, Shape] = {}
    for name, rules in packs.items():
        shapes[f"pack:{name}"] = Shape(name, f"{len(rules)} rules", f"#pack-{name}", "pack")
        small.add_node(f"pack:{name}")
        effects = Counter(
            pack.causes[rule]["effect"] for rule in rules if node_of(graph, rule).kind == "cause"
        )
        for effect, count in sorted(effects.items()):
            target = EFFECT + effect
            if target in graph:
                small.add_edge(f"pack:{name}", target, weight=round(0.5 + count**0.5 / 2, 1))
                shapes[target] = _shape(target, graph)
    return small, shapes


def _between(name: str, rules: list[str], graph: "Graph") -> Iterator[str]:
    """What the rules of a pack say of single other rules; effects are left to the lists."""
    inside = set(rules)
    edges = [
        (a, b)
        for a, b in graph.edges
        if (a in inside or b in inside) and not a.startswith(EFFECT) and not b.startswith(EFFECT)
    ]
    if edges:
        part = graph.edge_subgraph(edges)
        yield drawing(part, _shapes(part), f"Rules of {name} that name others")


def _effects(graph: "Graph") -> Iterator[str]:
    names = sorted(name for name in graph if name.startswith(EFFECT))
    if names:
        yield "<h2>Effects</h2>"
    for name in names:
        node = node_of(graph, name)
        yield f'<details id="{_anchor(name)}">{_summary(node.title, node.note)}'
        yield f"<p>Symptoms: {_links(graph.successors(name), graph)}</p>"
        leading = list(graph.predecessors(name))
        if len(leading) == node.leads:
            yield f"<p>Led to by: {_links(leading, graph)}</p>"
        yield "</details>"


def _summary(name: str, note: str) -> str:
    return f'<summary>{escape(name)} <span class="dim">{escape(note)}</span></summary>'


def _number(kind: str, count: int) -> str:
    return f"{count} {kind}{'s' if count != 1 else ''}"


def _listed(names: Iterable[str], pack: Pack, graph: "Graph") -> Iterator[str]:
    yield '<ul class="rules">'
    for name in names:
        yield from _entry(name, pack.causes[name], graph)
    yield "</ul>"


def _entry(name: str, cause: Mapping[str, Any], graph: "Graph") -> Iterator[str]:
    words = f"{name} {cause['title']} {cause['kind']} {cause['effect']} {cause['severity']}".lower()
    yield f'<li id="{_anchor(name)}" tabindex="-1" data-text="{escape(words)}">'
    yield f'<span class="kind {cause["kind"]}">{cause["kind"]}</span> <code>{escape(name)}</code>'
    yield f' <span class="dim">{cause["effect"].replace("_", " ")}, {cause["severity"]}</span>'
    yield f"<div>{escape(cause['title'])}</div>"
    for label, links in (
        ("explains", _links(_related(name, "explains", graph, graph.out_edges(name)), graph)),
        ("explained by", _links(_related(name, "explains", graph, graph.in_edges(name)), graph)),
        ("excludes", _links(_related(name, "excludes", graph, graph.out_edges(name)), graph)),
        ("excluded by", _links(_related(name, "excludes", graph, graph.in_edges(name)), graph)),
    ):
        if links:
            yield f'<div class="dim">{label} {links}</div>'
    yield "</li>"


def _related(name: str, relation: str, graph: "Graph", edges: Iterable[tuple[str, str]]) -> Iterator[str]:
    for start, end in edges:
        if graph.edges[start, end]["relation"] == relation:
            yield end if start == name else start


def _links(names: Iterable[str], graph: "Graph") -> str:
    """Links in the order of their names."""
    return ", ".join(
        f'<a href="#{_anchor(name)}">{escape(_label(name, graph))}</a>' for name in sorted(names)
    )


def _rules(graph: "Graph") -> set[str]:
    return {name for name in graph if not name.startswith(EFFECT)}


def _shapes(graph: "Graph") -> dict[str, Shape]:
    return {name: _shape(name, graph) for name in graph}


def _shape(name: str, graph: "Graph") -> Shape:
    node = node_of(graph, name)
    return Shape(_label(name, graph), f"{node.kind}: {node.title}", f"#{_anchor(name)}", node.kind)


def _label(name: str, graph: "Graph") -> str:
    node = node_of(graph, name)
    return node.title + node.note if node.kind == "effect" else name


def _anchor(name: str) -> str:
    return name.replace(":", "-") if name.startswith(EFFECT) else f"rule-{name}"


def _pack_of(name: str, pack: Pack) -> str:
    return Path(pack.causes[name]["file"]).parent.name
