"""What a parser is: data about where to look, and a function from lines to facts.

A parser never reads files and never sees a rule. It is called only where one of its literals stands, so it
costs nothing on text that is not its own.

Two shapes:

* **line parsers** (`document` is None) read statements inside a log: an Xid, a traceback, ``server_args=``.
* **block parsers** (`document` names a kind) read a whole text of their own, such as an nvidia-smi table.
  ``extent`` says which lines around the literal belong to it; they become a document of that kind, wherever
  they stand: alone in a file or in the middle of a pasted log.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from diagnoser.facts.base import Found

Lines = Sequence[str]
"""Lines of one text without their line ends, without terminal escapes and without container prefixes."""


@dataclass(frozen=True, slots=True)
class Parser:
    """A format that is read.

    name: unique, the module's name.
    literals: byte-exact texts of at least 4 characters; the parser is called for each line that holds one.
        For a block parser a literal marks any line of the block, and the block is parsed once.
    parse: for a line parser ``parse(lines, i)`` with the index of the line that holds a literal; it may look
        at neighbours. For a block parser ``parse(lines, 0)`` with exactly the block's lines. It must accept
        any text whatever, never raise, and yield nothing where it does not understand.
    extent: block parsers only: ``extent(lines, i)`` gives the block's lines around line i, or None when the
        literal stands there by chance.
    document: kind of document, for instance "nvidia-smi -q".
    """

    name: str
    literals: tuple[str, ...]
    parse: Callable[[Lines, int], Iterable[Found]]
    extent: Callable[[Lines, int], range | None] | None = None
    document: str | None = None
