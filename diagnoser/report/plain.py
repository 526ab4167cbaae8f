"""A diagnosis as plain text: for pipes, files and chat."""

import textwrap
from collections.abc import Iterable

from diagnoser.inference.diagnosis import Diagnosis
from diagnoser.report.layout import Line, layout


def render(diagnosis: Diagnosis, *, width: int = 100, quiet: bool = False) -> str:
    """Text of at most ``width`` columns where words allow it; commands and evidence are never broken."""
    return "\n".join(_wrapped(layout(diagnosis, quiet=quiet), width)) + "\n"


def _wrapped(lines: Iterable[Line], width: int) -> Iterable[str]:
    for line in lines:
        text = "".join(piece.text for piece in line.pieces).rstrip()
        if len(text) <= width or any(piece.style in ("command", "evidence") for piece in line.pieces):
            yield text
            continue
        yield from textwrap.wrap(
            text,
            width,
            subsequent_indent=" " * line.hang,
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=True,
            replace_whitespace=False,
        )
