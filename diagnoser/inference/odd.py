"""Lines that somebody meant as a warning and that no message knows."""

from typing import NamedTuple

from diagnoser.facts.lazy import lazy
from diagnoser.parsers.prefix import MAX_PREFIX, read_prefix

KEPT_SHAPES = 2000

_VARIABLE = lazy(
    r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}|\d+(?:[.:,]\d+)*|(?:/[\w.@+-]+){2,}|'[^']{0,200}'|\"[^\"]{0,200}\""
)
_MEANT = lazy(
    r"\b(?:WARN|WARNING|ERROR|CRITICAL|FATAL|level=(?:WARN|ERROR))\b|\b\w{0,60}(?:Error|Exception|Warning): "
    r"|(?<!\d) [WE] \S"
)
RAISED = frozenset(["WARN", "WARNING", "ERROR", "CRITICAL", "FATAL"])

_HINT = lazy(
    r"WARN|ERR|CRIT|FATAL|arning|rror|xception|[Ff]atal|panic|level|\[[WEF]\]|(?:^|[ \[:])[WEF](?:\d{3,4})? "
)
"""Only lines with one of these are looked at closely."""

_PRINTED = lazy(r"(?i)\b(?:warning|error|fatal|critical) ?: ")

_INSIDE = ("  ", "Traceback (most recent call last)")

_MAX_SHAPE = 160


class OddLine(NamedTuple):
    """The first line of a shape and how often the shape occurs."""

    source: str
    line: int
    text: str
    times: int


class OddLines:
    """Counts lines by shape (numbers, paths and quoted parts left out); the first shapes by position are kept."""

    def __init__(self) -> None:
        self.shapes: dict[str, OddLine] = {}

    def add(self, source: str, line: int, text: str) -> None:
        shape = _VARIABLE.sub("*", text[:600])[:_MAX_SHAPE]
        known = self.shapes.get(shape)
        if known is not None:
            self.shapes[shape] = known._replace(times=known.times + 1)
        elif len(self.shapes) < KEPT_SHAPES:
            self.shapes[shape] = OddLine(source, line, text, 1)

    def merge(self, other: "OddLines") -> "OddLines":
        merged = OddLines()
        merged.shapes = dict(self.shapes)
        for shape, odd in other.shapes.items():
            known = merged.shapes.get(shape)
            if known is None:
                merged.shapes[shape] = odd
                continue
            first = min(known, odd, key=lambda one: (one.source, one.line))
            merged.shapes[shape] = first._replace(times=known.times + odd.times)
        if len(merged.shapes) > KEPT_SHAPES:
            order = sorted(merged.shapes.items(), key=lambda item: (item[1].source, item[1].line))
            merged.shapes = dict(order[:KEPT_SHAPES])
        return merged

    def rarest(self, limit: int) -> list[OddLine]:
        """The lines whose shape occurs least, earliest first among equals."""
        return sorted(self.shapes.values(), key=lambda odd: (odd.times, odd.source, odd.line))[:limit]


def is_raised(line: str) -> bool:
    """Whether a line is at warning or above: by the level it prints, or by its words where it prints none.

    Frames of a traceback are not; its last line is, and stands for the whole.

    >>> is_raised("WARNING 06-04 15:17:48 [config.py:1] slow"), is_raised("INFO 06-04 15:17:48 [a.py:1] Error: none")
    (True, False)
    """
    head = line[: 2 * MAX_PREFIX]
    if _HINT.search(head) is None:
        return False
    prefix = read_prefix(head)
    if prefix.level is not None:
        return prefix.level in RAISED and not prefix.message.startswith(_INSIDE)
    return _MEANT.search(head) is not None or _PRINTED.search(head) is not None
