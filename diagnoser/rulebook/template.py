"""Wordings as people write them -> plans as the scanner walks them."""

import re

from diagnoser.rulebook.words import ENGINES

Piece = str | tuple[str, str]

MIN_LITERAL_LETTERS = 8
MAX_LITERAL = 120
"""Longer literals find nothing more, and hyperscan has a limit."""

_CAPTURE = re.compile(r"(?<!\\)<(\.\.\.|[a-z_][a-z0-9_]*)(?::([a-z]+))?>")


class TemplateError(ValueError):
    """A wording that cannot be matched, with the reason."""


def parse(text: str, types: frozenset[str]) -> tuple[Piece, ...]:
    """The plan of a wording. Raises `TemplateError`."""
    pieces: list[Piece] = []
    at = 0
    for capture in _CAPTURE.finditer(text):
        fixed = text[at : capture.start()].replace("\\<", "<")
        name, kind = capture.group(1), capture.group(2) or ""
        if kind not in types:
            raise TemplateError(f"unknown capture type {kind!r}; known: {', '.join(sorted(types - {''}))}")
        if fixed:
            pieces.append(fixed)
        elif pieces and not isinstance(pieces[-1], str):
            raise TemplateError(
                f"two captures stand side by side before <{name}>; put fixed text between them"
            )
        pieces.append((name, kind))
        at = capture.end()
    rest = text[at:].replace("\\<", "<").rstrip()
    if rest:
        pieces.append(rest)
    while pieces and isinstance(pieces[0], tuple) and pieces[0][0] == "...":
        del pieces[0]
    while pieces and pieces[-1] == ("...", ""):
        del pieces[-1]
    return tuple(pieces)


def literal(pieces: tuple[Piece, ...]) -> str:
    """The longest fixed text of a plan. Raises `TemplateError` when it has fewer than 8 letters."""
    fixed = [piece.strip() for piece in pieces if isinstance(piece, str)]
    best = max(fixed, key=len, default="")[:MAX_LITERAL].strip()
    if letters(best) < MIN_LITERAL_LETTERS:
        raise TemplateError(
            f"no fixed text of at least {MIN_LITERAL_LETTERS} letters (longest: {best!r}); "
            "the scanner needs one to find the line"
        )
    return best


def letters(text: str) -> int:
    """How many letters and digits a text has."""
    return sum(character.isalnum() for character in text)


def names(pieces: tuple[Piece, ...]) -> set[str]:
    """The names of a plan's captures."""
    return {piece[0] for piece in pieces if not isinstance(piece, str)} - {"..."}


def pattern_names(pattern: str) -> set[str]:
    """The named groups of a regular expression. Raises `re.error` for a broken one."""
    return set(re.compile(pattern).groupindex)


def engine_of(identifier: str) -> str | None:
    """The engine a message id begins with ("vllm.kv-cache" -> "vllm")."""
    for engine in sorted(ENGINES, key=len, reverse=True):
        if identifier.startswith(
            (engine + ".", engine.replace(".", "") + ".", engine.replace("-", "") + ".")
        ):
            return engine
    return None
