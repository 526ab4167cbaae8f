"""A diagnosis on a terminal, with rich."""

from typing import IO

from rich.console import Console
from rich.padding import Padding
from rich.text import Text
from rich.theme import Theme

from diagnoser.inference.diagnosis import Diagnosis
from diagnoser.report.layout import Line, layout

STYLES = {
    "severity.critical": "bold white on red",
    "severity.high": "bold red",
    "severity.medium": "bold yellow",
    "severity.low": "bold",
    "severity.info": "bold",
    "severity.none": "bold",
    "strong": "bold",
    "dim": "dim",
    "label": "cyan",
    "place": "blue",
    "evidence": "default",
    "command": "bold green",
    "warning": "yellow",
}


def show(diagnosis: Diagnosis, file: IO[str], *, color: bool | None = None, quiet: bool = False) -> None:
    """Print. ``color`` None: as the terminal and NO_COLOR say."""
    console = Console(
        file=file,
        theme=Theme(STYLES),
        highlight=False,
        emoji=False,
        markup=False,
        no_color=None if color is None else not color,
        force_terminal=True if color else None,
    )
    for line in layout(diagnosis, quiet=quiet):
        _print(console, line)


def _print(console: Console, line: Line) -> None:
    if not line.hang:
        console.print(Text.assemble(*((piece.text, piece.style) for piece in line.pieces)))
        return
    label, *rest = line.pieces
    body = (
        Text.assemble(*((piece.text, piece.style) for piece in rest))
        if rest
        else Text(label.text.strip(), label.style)
    )
    if not rest:
        console.print(Padding(body, (0, 0, 0, line.hang)))
        return
    if any(piece.style == "command" for piece in rest):
        # Left to the terminal to wrap, so that it can be copied as one line.
        console.print(Text.assemble(Text(label.text, label.style), body), soft_wrap=True)
        return
    width = max(20, console.width - line.hang)
    for number, part in enumerate(body.wrap(console, width)):
        head = Text(label.text, label.style) if number == 0 else Text(" " * line.hang)
        console.print(Text.assemble(head, part), soft_wrap=True)
