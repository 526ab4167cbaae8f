"""Which of the lines that a log itself calls warnings are known to the rule packs and parsers."""

import re

from diagnoser.inference.catalog import Catalog
from diagnoser.inference.lines import ChunkLines
from diagnoser.inference.odd import meant_as_warning
from diagnoser.inference.reading import Reader, _Event
from diagnoser.parsers.prefix import MAX_PREFIX, read_prefix
from diagnoser.scan.scanner import Hit

RAISED = frozenset(["WARN", "WARNING", "ERROR", "CRITICAL", "FATAL"])

_HINT = re.compile(
    r"WARN|ERR|CRIT|FATAL|arning|rror|xception|[Ff]atal|panic|level|\[[WEF]\]|(?:^|[ \[:])[WEF](?:\d{3,4})? "
)
"""Only lines with one of these are looked at closely."""

_PRINTED = re.compile(r"(?i)\b(?:warning|error|fatal|critical) ?: ")

_INSIDE = ("  ", "Traceback (most recent call last)")


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
    return meant_as_warning(head) or _PRINTED.search(head) is not None


class WarningReader(Reader):
    """A reader whose odd lines are all the raised ones that nothing knows, and that counts the raised ones.

    raised: lines at warning or above outside of blocks such as nvidia-smi tables. known: those of them that a
    message said or a parser read.
    """

    def __init__(self, catalog: Catalog, name: str, host: str | None = None, year: int | None = None) -> None:
        super().__init__(catalog, name, host, year)
        self.raised = 0
        self.known = 0

    def _events(
        self, lines: ChunkLines, hits: list[Hit], inside: bytearray, end: int, first_line: int
    ) -> tuple[list[_Event], list[int]]:
        events, _ = super()._events(lines, hits, inside, end, first_line)
        known = {number for event in events for number in range(event.line, event.last + 1)}
        raised = [number for number in range(end) if not inside[number] and is_raised(lines[number])]
        odd = [number for number in raised if number not in known]
        self.raised += len(raised)
        self.known += len(raised) - len(odd)
        return events, odd
