"""Line parsers as tables: a literal, and the function that reads a line which holds it."""

from collections.abc import Callable, Iterator, Sequence

from diagnoser.facts.base import Fact, Found
from diagnoser.parsers.base import Lines, Parser

Reader = Callable[[Lines, int], Fact | Found | None]
"""Reads the statement at line i; a bare fact is stated by that line alone. None: not understood."""

LIMIT = 4096
"""Characters of a line that readers look at."""


def text(lines: Lines, i: int) -> str:
    """The line's first `LIMIT` characters; the empty string beyond either end of the text."""
    return lines[i][:LIMIT] if 0 <= i < len(lines) else ""


def by_literal(name: str, readers: Sequence[tuple[str, Reader]]) -> Parser:
    """A line parser that hands each line, once, to the readers whose literals it holds."""

    def parse(lines: Lines, i: int) -> Iterator[Found]:
        line = text(lines, i)
        done: set[Reader] = set()
        for literal, read in readers:
            if literal in line and read not in done:
                done.add(read)
                found = read(lines, i)
                if isinstance(found, Fact):
                    yield Found(found, i, i)
                elif found is not None:
                    yield found

    return Parser(name=name, literals=tuple(dict.fromkeys(literal for literal, _ in readers)), parse=parse)
