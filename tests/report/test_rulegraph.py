"""The graph's page: whole, self-contained, every link leads somewhere, nothing lies on anything."""

import re
from collections import defaultdict
from html.parser import HTMLParser
from typing import Any

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnoser.report.rulegraph import page
from diagnoser.report.rulegraph.drawing import GAP, HEIGHT, Shape, drawing
from diagnoser.report.rulegraph.layers import columns
from diagnoser.rulebook.book import builtin_folder, pack_for
from diagnoser.rulebook.graph import rule_graph
from diagnoser.rulebook.pack import Pack


class Page(HTMLParser):
    """Ids, targets of links, addresses of any kind, and tags that were not closed."""

    VOID = frozenset(["meta", "input", "rect", "path"])

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.open: list[str] = []
        self.tags: dict[str, int] = defaultdict(int)
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        given = dict(attrs)
        if (name := given.get("id")) is not None:
            self.ids.append(name)
        if tag == "a":
            self.links.append(given["href"] or "")
        self.sources += [value or "" for key, value in attrs if key in ("src", "srcset", "data", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def pack() -> Pack:
    return pack_for((builtin_folder(),))


def html(pack: Pack, around: str | None = None) -> str:
    graph = rule_graph(pack, around)
    assert graph is not None
    return page(pack, graph, around)


def test_the_whole_graph_holds_every_rule_and_needs_no_network(pack: Pack) -> None:
    text = html(pack)
    read = Page(text)
    assert {name.removeprefix("rule-") for name in read.ids if name.startswith("rule-")} == set(pack.causes)
    assert len(read.ids) == len(set(read.ids))
    assert {link[1:] for link in read.links} <= set(read.ids)
    assert all(link.startswith("#") for link in read.links)
    assert read.sources == []
    assert "default-src 'none'" in text
    assert not re.search(r"https?://|@import|url\(", text)
    assert read.open == []


def test_packs_are_collapsed_lists_with_a_filter(pack: Pack) -> None:
    text = html(pack)
    assert text.count('<details class="group"') == len(
        {cause["file"].rsplit("/", 2)[-2] for cause in pack.causes.values()}
    )
    assert "<details open" not in text
    assert '<label>Filter <input id="filter" type="search"></label>' in text
    assert text.count("data-text=") == len(pack.causes)
    assert len(text) < 2_000_000


@pytest.mark.parametrize("rule", ["triton-attn-default-sm120", "server-died-at-start", "slow-decode"])
def test_around_one_rule_it_comes_first_and_links_stay_on_the_page(rule: str, pack: Pack) -> None:
    text = html(pack, rule)
    read = Page(text)
    rules = [name for name in read.ids if name.startswith("rule-")]
    assert rules[0] == f"rule-{rule}"
    assert 1 < len(rules) < len(pack.causes)
    assert {link[1:] for link in read.links} <= set(read.ids)
    assert read.tags["svg"] == 1


def test_the_same_rules_give_the_same_page(pack: Pack) -> None:
    assert html(pack) == html(pack)


def test_hostile_titles_stay_text() -> None:
    title = '</script><img src=x onerror=alert(1)> "quoted" & more'
    cause = {"kind": "cause", "effect": "hang", "severity": "low", "title": title, "file": "/r/<b>/x.yaml"}
    pack = Pack([], [], {"one": {**cause, "explains": [], "excludes": []}}, {}, {}, [])
    read = Page(html(pack))
    assert "img" not in read.tags
    assert "b" not in read.tags
    assert read.tags["script"] == 1


EDGES = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=40)


def graph_of(edges: list[tuple[int, int]]) -> Any:
    graph: Any = networkx.DiGraph()
    graph.add_nodes_from(f"n{number}" for number in range(13))
    graph.add_edges_from((f"n{a}", f"n{b}") for a, b in edges if a != b)
    return graph


@given(EDGES)
def test_columns_hold_every_node_once_and_edges_run_right_unless_in_a_circle(
    edges: list[tuple[int, int]],
) -> None:
    graph = graph_of(edges)
    layers = columns(graph)
    column = {name: number for number, layer in enumerate(layers) for name in layer}
    assert sorted(name for layer in layers for name in layer) == sorted(graph.nodes)
    assert all(layers)
    circles = {
        name: at for at, group in enumerate(networkx.strongly_connected_components(graph)) for name in group
    }
    for start, end in graph.edges:
        assert column[start] < column[end] or circles[start] == circles[end]
    assert columns(graph_of(list(reversed(edges)))) == layers


@given(EDGES)
@settings(max_examples=30)
def test_boxes_do_not_lie_on_each_other(edges: list[tuple[int, int]]) -> None:
    graph = graph_of(edges)
    shapes = {name: Shape(name, name, f"#{name}", "cause") for name in graph}
    text = drawing(graph, shapes, "a drawing")
    boxes = [tuple(map(int, found)) for found in re.findall(r'<rect x="(\d+)" y="(\d+)" width="(\d+)"', text)]
    assert len(boxes) == len(graph)
    for number, (x, y, width) in enumerate(boxes):
        for x2, y2, width2 in boxes[:number]:
            assert x + width <= x2 or x2 + width2 <= x or abs(y - y2) >= HEIGHT + GAP - 1
