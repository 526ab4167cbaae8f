"""Runs parsers over a text the way a reading does: blocks first, then the lines outside them."""

from collections.abc import Callable, Iterable, Sequence

import pytest

from diagnoser.facts.base import Found
from diagnoser.parsers.base import Parser

Read = Callable[[Sequence[Parser], str], list[Found]]


def _blocks(parsers: Iterable[Parser], lines: list[str]) -> dict[int, tuple[Parser, range]]:
    claimed: list[tuple[Parser, range]] = []
    for parser in parsers:
        end = 0
        for i, line in enumerate(lines):
            if parser.extent is None or i < end or not any(literal in line for literal in parser.literals):
                continue
            extent = parser.extent(lines, i)
            if extent:
                claimed.append((parser, extent))
                end = extent.stop
    taken: dict[int, tuple[Parser, range]] = {}
    for parser, extent in sorted(claimed, key=lambda block: (block[1].start, -block[1].stop)):
        if not any(i in taken for i in extent):
            taken.update(dict.fromkeys(extent, (parser, extent)))
    return taken


def read_text(parsers: Sequence[Parser], text: str) -> list[Found]:
    lines = text.split("\n")
    blocks = _blocks(parsers, lines)
    found: list[Found] = []
    for parser, extent in dict.fromkeys(blocks.values()):
        for one in parser.parse(lines[extent.start : extent.stop], 0):
            found.append(one._replace(first=one.first + extent.start, last=one.last + extent.start))
    for i, line in enumerate(lines):
        for parser in parsers:
            if parser.extent is None and i not in blocks and any(word in line for word in parser.literals):
                found += parser.parse(lines, i)
    unique = dict.fromkeys((one.first, one.fact, one) for one in found)
    return [one for _, _, one in sorted(unique, key=lambda item: item[0])]


@pytest.fixture(scope="session")
def read() -> Read:
    return read_text
