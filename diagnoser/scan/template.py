"""Matches one line against a wording, after a literal of the wording was found in it.

A wording is fixed texts with captures between them. Captures without a type run to the next fixed text, typed
ones take exactly one token; so a match is a walk of `str.find`, linear and unable to run away. Wordings that
need more are regular expressions and run in `regex` with a time limit.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

MATCH_TIMEOUT_S = 0.05
"""Time one regular expression may take on one line; a longer one marks the result incomplete."""

MAX_CAPTURE = 400
"""Longest text one capture takes."""

LONG_LINE = 8192
"""Of longer lines an expression sees so much around its literal."""

_ATTEMPTS = 4
"""How many occurrences of a wording's first fixed text are tried in one line."""

_TOKENS = {
    "int": re.compile(r"-?\d{1,20}(?:[,_]\d{3}){0,6}"),
    "float": re.compile(r"-?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][+-]?\d{1,3})?"),
    "word": re.compile(r"[^\s]{1,400}?(?=[,;:.)\]'\"]*(?:\s|$))"),
    "name": re.compile(r"[\w.+-]{0,200}[\w]"),
    "quoted": re.compile(r"'[^']{0,400}'|\"[^\"]{0,400}\""),
}

TYPES = frozenset(["", "lower", *_TOKENS])
"""Types a capture may have. ``lower`` is untyped and lower-cased."""

Piece = str | tuple[str, str]
"""Fixed text, or a capture as (name, type). The name "..." takes text and drops it."""

Plan = tuple[Piece, ...]


class MatchTimeoutError(Exception):
    """A regular expression ran into its time limit; the message is the expression."""

    def __str__(self) -> str:
        return f"{super().__str__()!r} ran into its time limit"


def match_plan(plan: Plan, line: str) -> dict[str, str] | None:
    """The captures of ``plan`` in ``line``, or None where it is not said."""
    first = plan[0]
    if not isinstance(first, str):
        return _walk(plan, line, 0)
    start = line.find(first)
    for _ in range(_ATTEMPTS):
        if start < 0:
            return None
        captures = _walk(plan, line, start)
        if captures is not None:
            return captures
        start = line.find(first, start + 1)
    return None


def _walk(plan: Plan, line: str, at: int) -> dict[str, str] | None:
    captures: dict[str, str] = {}
    for number, piece in enumerate(plan):
        if isinstance(piece, str):
            if not line.startswith(piece, at):
                return None
            at += len(piece)
            continue
        name, kind = piece
        pattern = _TOKENS.get(kind)
        following = plan[number + 1] if number + 1 < len(plan) else None
        if pattern is not None:
            token = pattern.match(line, at)
            if token is None:
                return None
            value, end = token.group(), token.end()
        else:
            end = len(line) if following is None else line.find(str(following), at)
            if end < 0 or (end - at > MAX_CAPTURE and following is not None):
                return None
            value = line[at:end].strip()[:MAX_CAPTURE]
        if name != "...":
            captures[name] = _clean(value, kind)
        at = end
    return captures


def _clean(value: str, kind: str) -> str:
    if kind == "lower":
        return value.lower()
    if kind == "int":
        return value.replace(",", "").replace("_", "")
    if kind == "quoted":
        return value[1:-1]
    return value


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Any:
    import regex

    return regex.compile(pattern)


def match_pattern(pattern: str, line: str, literal: str = "") -> dict[str, str] | None:
    """The named groups of ``pattern`` in ``line``. Raises `MatchTimeoutError`.

    literal: a text that stands in every match. Of a long line only what is around it is looked at, so that the
    length of a line decides nothing.
    """
    for first, last in _around(line, literal):
        try:
            found = _compiled(pattern).search(line, first, last, timeout=MATCH_TIMEOUT_S)
        except TimeoutError as error:
            raise MatchTimeoutError(pattern) from error
        if found is not None:
            return {
                name: value[:MAX_CAPTURE] for name, value in found.groupdict().items() if value is not None
            }
    return None


def _around(line: str, literal: str) -> Iterator[tuple[int, int]]:
    """The stretches of a line to look at: all of it, or in a long one those around the literal."""
    if len(line) <= LONG_LINE:
        yield 0, len(line)
        return
    start = line.find(literal)
    for _ in range(_ATTEMPTS):
        if start < 0:
            return
        yield max(0, start - LONG_LINE // 2), start + LONG_LINE // 2
        start = line.find(literal, start + LONG_LINE // 2)
