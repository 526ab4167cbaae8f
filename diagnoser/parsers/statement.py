"""Line parsers as tables: what stands in the line, and the facts it states."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from diagnoser.facts.base import Fact, Found
from diagnoser.parsers.base import Lines, Parser

LIMIT = 4096
"""Characters of a line that patterns look at."""

Facts = Callable[[re.Match[str]], Iterable[Fact]]


class Statement(NamedTuple):
    """literal: stands in every such line. pattern: searched there. facts: what a match states.

    Patterns are compiled when their literal first stands in a line: most never do.
    """

    literal: str
    pattern: str
    facts: Facts


says = Statement

_compiled = cache(re.compile)


def by_statement(name: str, statements: Sequence[Statement]) -> Parser:
    """A line parser that tries each statement whose literal the line holds."""

    def parse(lines: Lines, i: int) -> Iterator[Found]:
        line = lines[i][:LIMIT]
        for literal, pattern, facts in statements:
            if literal in line:
                match: re.Match[str] | None = _compiled(pattern).search(line)
                if match is not None:
                    for fact in facts(match):
                        yield Found(fact, i, i)

    return Parser(name, tuple(dict.fromkeys(statement.literal for statement in statements)), parse)
