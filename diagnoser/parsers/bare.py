"""A log line without its prefix, as far as tracebacks and multi-line messages need it.

Not the reader of prefixes: it knows no time and no level, only which stream a line belongs to, so that lines
of one process can be followed through the lines of others.
"""

from typing import NamedTuple

from diagnoser.facts.lazy import lazy

_STAMPED = lazy(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,9})?((?: [A-Z_]{2,8}\d{1,4}){0,6})\] ?")
_PROCESS = lazy(r"\(([A-Za-z][\w:.\- ]{0,80}?(?: rank=\d{1,5})?) pid=\d{1,9}[^()]{0,120}\) ?")
_LEVEL = lazy(
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?([\w./-]{1,200}:\d{1,6})\] ?"
)
_SOURCE = lazy(r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [\w.]{1,80}\.py:\d{1,6}: ")
_TORCH_RANK = lazy(r"\[((?:rank|default)\d{1,5})\]:? ?")
_GROUP_MARGIN = lazy(r" {2,32}[|+] ")


class Bare(NamedTuple):
    """stream: equal for lines that one process printed in one go; "" for lines without a prefix.
    rank: the process ("TP3", "Worker_TP1", "rank0"). text: the rest."""

    stream: str
    rank: str | None
    text: str


def bare(line: str) -> Bare:
    """Take a prefix of SGLang, vLLM, Ray or torchrun off, and the margin of an exception group.

    >>> bare("(EngineCore pid=1) ERROR 02-27 15:17:28 [core.py:9] ValueError: x")
    Bare(stream='EngineCore core.py:9', rank='EngineCore', text='ValueError: x')
    """
    if found := _STAMPED.match(line):
        end = found.end()
        source = _SOURCE.match(line, end)
        return Bare("[]" + found[1], found[1].strip() or None, line[source.end() if source else end :])
    at, rank, stream = 0, None, ""
    if found := _TORCH_RANK.match(line):
        at, rank, stream = found.end(), found[1].replace("default", "rank"), found[1]
    elif found := _PROCESS.match(line):
        at, rank, stream = found.end(), found[1], found[1]
    if found := _LEVEL.match(line, at):
        at, stream = found.end(), f"{stream} {found[1]}"
    text = line[at:]
    if margin := _GROUP_MARGIN.match(text):
        text = text[margin.end() :]
    return Bare(stream, rank, text)
