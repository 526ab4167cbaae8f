"""A diagnosis as plain text: for pipes, files and chat."""

import shutil
import textwrap
from collections.abc import Iterable

from diagnoser.inference.diagnosis import Diagnosis
from diagnoser.report.layout import Line, layout


def render(diagnosis: Diagnosis, *, width: int | None = None, quiet: bool = False) -> str:
    """Text of at most ``width`` columns (None: $COLUMNS or 80) where words allow it.

    Commands and evidence are never broken.
    """
    width = width or shutil.get_terminal_size((80, 24)).columns
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
