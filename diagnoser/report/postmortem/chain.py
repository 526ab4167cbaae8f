"""The chain from cause to what was felt, as the rule graph has it, drawn and told."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from diagnoser.inference.diagnosis import Finding

EFFECT = "effect:"


class Link(NamedTuple):
    """One step: a finding, and what it leads to (a finding's rule, or an effect behind ``EFFECT``)."""

    start: str
    end: str


def chain(findings: Sequence[Finding]) -> tuple[Link, ...]:
    """Roots lead to what is folded under them, and all of them to what they do to the service."""
    links: dict[Link, None] = {}
    shown = {
        one.rule: one for one in findings if one.role in ("root", "consequence") and one.kind != "engine"
    }
    for rule, one in shown.items():
        if one.role == "root" and one.severity == "info":
            continue
        if one.because_of in shown:
            links[Link(one.because_of, rule)] = None
        if one.effect != "none":
            links[Link(rule, EFFECT + one.effect)] = None
    return tuple(links)


def leads_to(rule: str, links: Sequence[Link], titles: dict[str, str]) -> Iterator[str]:
    """What a rule leads to, in words, effects last."""
    ends = [link.end for link in links if link.start == rule]
    for end in sorted(ends, key=lambda end: end.startswith(EFFECT)):
        yield titles.get(end, end.removeprefix(EFFECT).replace("_", " "))


def drawn(links: Sequence[Link], titles: dict[str, str]) -> str | None:
    """SVG; every node is a link to where the page tells of it. None where there is nothing to draw."""
    if not links:
        return None
    import networkx as nx

    from diagnoser.report.rulegraph.drawing import Shape, drawing

    graph: nx.DiGraph[str] = nx.DiGraph()
    for link in links:
        graph.add_edge(*link, relation="explains")
    shapes = {}
    for name in graph:
        if name.startswith(EFFECT):
            words = name.removeprefix(EFFECT).replace("_", " ")
            shapes[name] = Shape(words, f"effect: {words}", "#impact", "effect")
        else:
            shapes[name] = Shape(name, titles[name], f"#rule-{name}", "cause")
    return drawing(graph, shapes, "From cause to effect")


def mermaid(links: Sequence[Link]) -> str | None:
    """The same for Markdown; only ids of rules and names of effects stand in it."""
    if not links:
        return None
    names = list(dict.fromkeys(name for link in links for name in link))
    numbers = {name: f"n{number}" for number, name in enumerate(names)}
    lines = ["flowchart LR"]
    for name, number in numbers.items():
        words = name.removeprefix(EFFECT).replace("_", " ")
        lines.append(f'  {number}{{{{"{words}"}}}}' if name.startswith(EFFECT) else f'  {number}["{words}"]')
    lines += [f"  {numbers[link.start]} --> {numbers[link.end]}" for link in links]
    return "\n".join(lines)
