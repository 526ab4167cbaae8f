"""The exceptions that Python tracebacks end in, also of several ranks mixed line by line, also pasted alone.

    [2026-02-27 15:17:28 TP3] Scheduler hit an exception: Traceback (most recent call last):
      File "/opt/sglang/srt/managers/scheduler.py", line 3169, in run_scheduler_process
        scheduler.event_loop_overlap()
    RuntimeError: 0 active drivers ([]). There should only be one.
    -> ExceptionRaised(type="RuntimeError", message="0 active drivers ([]). There should only be one.",
                       where="scheduler.py:run_scheduler_process"), rank "TP3"

A traceback is read from its last line upwards: that line says what happened and is the one people paste. Only
an exception with an unusual name (StopIteration) needs its header to be found.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from diagnoser.facts.base import Found
from diagnoser.facts.engine import ExceptionRaised
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.bare import bare
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.by_literal import text

HEADER = "Traceback (most recent call last):"
MAX_LINES = 400
"""How far a traceback is followed."""
MAX_ERRORS = 16
MAX_FOREIGN = 48
"""How many lines of other processes may stand inside a traceback."""
MAX_MESSAGE = 500

_FRAME = lazy(r'\s{0,40}File "([^"]{1,400})", line \d{1,9}(?:, in (\S.{0,200}))?')
_NAMED = lazy(
    r"(?:- )?(?P<name>(?:[A-Za-z_]\w{0,80}\.){0,10}[A-Za-z_]\w{0,80})(?:\([\w.]{1,120}\))?"
    r"(?:(?P<colon>:)(?: (?P<message>.*))?)?$"
)
_USUAL = lazy(r"(?:\w{1,80}\.){0,10}(?:[A-Z]\w{0,80}(?:Error|Exception|Exit|Interrupt)|Exception)$")
_UNUSUAL = lazy(r"\w{1,80}\.|[A-Z]\w{0,80}[a-z]\w{0,80}[A-Z]")
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
_VALIDATION = lazy(r"\d{1,5} validation errors? for ")
_THROWN = lazy(r"terminate called after throwing an instance of '([\w:]{1,200})'")
_WHAT = lazy(r"\s{0,8}what\(\): {0,4}(.*)")


class _Above(NamedTuple):
    """What stands over an exception: its innermost frame and the rank its header names."""

    where: str | None = None
    rank: str | None = None


def _frame(line: str) -> str | None:
    found = _FRAME.match(line)
    if found is None:
        return None
    name = found[1].replace("\\", "/").rpartition("/")[2]
    return f"{name}:{found[2].strip()}" if found[2] else name


def _is_header(line: str) -> bool:
    return line.rstrip().endswith(HEADER)


def _above_in_stream(lines: Lines, i: int, stream: str) -> _Above:
    """Where each line carries its process: the frame just above in the same stream."""
    for j in range(i - 1, max(-1, i - 1 - MAX_LINES), -1):
        line = bare(text(lines, j))
        if line.stream != stream:
            continue
        if where := _frame(line.text):
            return _Above(where)
        if not line.text.startswith((" ", "\t")):
            break
    return _Above()


def _above(lines: Lines, i: int) -> _Above:
    """Where only headers name a rank: the k-th header that waits belongs to the k-th exception that comes."""
    where, clear, foreign, errors = None, True, 0, 0
    events: list[tuple[str, str | None]] = []
    for j in range(i - 1, max(-1, i - 1 - MAX_LINES), -1):
        line = text(lines, j)
        if _is_header(line):
            events.append(("header", bare(line).rank))
            continue
        if line.startswith((" ", "\t")):
            seen = _frame(line) or _frame(bare(line).text)
            if seen and where is None:
                where, clear = seen, not errors
            continue
        if not line:
            continue
        if line.startswith(_CHAIN):
            events.append(("chain", None))
        elif bare(line).stream:
            foreign += 1
            if foreign > (MAX_FOREIGN if events or where else 2):
                break
        elif _is_usual(line) and errors < MAX_ERRORS:
            errors += 1
            events.append(("error", None))
        else:
            break
    found, rank = _waiting(reversed(events))
    return _Above(where if clear or found else None, rank)


def _waiting(events: Iterator[tuple[str, str | None]]) -> tuple[bool, str | None]:
    """Whether a header waits for the exception behind these events, top down, and the rank it names."""
    waiting: deque[str | None] = deque()
    last: str | None = None
    chained = False
    for event, rank in events:
        if event == "header":
            if chained:
                waiting.appendleft(last)
            else:
                waiting.append(rank)
            chained = False
        elif event == "chain":
            chained = True
        else:
            last = waiting.popleft() if waiting else None
    return (True, waiting[0]) if waiting else (False, None)


def _is_usual(words: str) -> bool:
    found = _NAMED.match(words)
    return found is not None and _USUAL.match(found["name"]) is not None


def _message(lines: Lines, i: int, stream: str, first: str) -> tuple[str, int]:
    """The message's telling line and the index of the last line used.

    Some exceptions begin with an empty line (sgl_kernel), pydantic's say only in the body what is wrong.
    """
    message, last = first.strip(), i
    if message and not _VALIDATION.match(message):
        return message[:MAX_MESSAGE], last
    parts = [message] if message else []
    for j in range(i + 1, min(i + 5, len(lines))):
        line = bare(text(lines, j))
        words = line.text.strip()
        if line.stream != stream or words.startswith("For further information") or _is_header(words):
            break
        if words:
            parts.append(words)
            last = j
            if not message:
                break
    return ": ".join(parts)[:MAX_MESSAGE], last


def _exception(lines: Lines, i: int, *, under_header: bool) -> Found | None:
    stream, rank, words = bare(text(lines, i))
    found = _NAMED.match(words)
    if found is None:
        return None
    name = found["name"]
    if not (_USUAL.match(name) or (under_header and _UNUSUAL.match(name))):
        return None
    above = _above_in_stream(lines, i, stream) if stream else _above(lines, i)
    if not found["colon"] and not under_header and above.where is None:
        return None
    message, last = _message(lines, i, stream, found["message"] or "") if found["colon"] else ("", i)
    return Found(ExceptionRaised(type=name, message=message, where=above.where), i, last, rank or above.rank)


def _by_name(lines: Lines, i: int) -> Iterator[Found]:
    if found := _exception(lines, i, under_header=False):
        yield found


def _by_header(lines: Lines, i: int) -> Iterator[Found]:
    header = text(lines, i)
    if not _is_header(header):
        return
    # Below a stamped header the frames are bare; elsewhere they carry the same prefix.
    stream = bare(header).stream
    stream = "" if stream.startswith("[]") else stream
    foreign = 0
    for j in range(i + 1, min(i + 1 + MAX_LINES, len(lines))):
        line = bare(text(lines, j))
        if line.stream != stream or _is_header(line.text):
            foreign += 1
            if foreign > MAX_FOREIGN:
                return
        elif line.text and not line.text.startswith((" ", "\t")):
            by_name = _is_usual(line.text) and any(literal in line.text for literal in _LITERALS)
            if not by_name and (found := _exception(lines, j, under_header=True)):
                yield found
            return


def _thrown(lines: Lines, i: int) -> Iterator[Found]:
    """A C++ exception that nobody caught; the text stands on the next line."""
    found = _THROWN.search(text(lines, i))
    if found is None:
        return
    what = _WHAT.match(bare(text(lines, i + 1)).text)
    message = what[1].strip()[:MAX_MESSAGE] if what else ""
    yield Found(ExceptionRaised(type=found[1], message=message), i, i + 1 if what else i)


_NAMES_WITHOUT_MESSAGE = (
    "AssertionError",
    "NotImplementedError",
    "KeyboardInterrupt",
    "CancelledError",
    "TimeoutError",
    "MemoryError",
    "RecursionError",
    "SystemExit",
    "EngineDeadError",
)
_LITERALS = ("Error:", "Exception:", "Exit:", "Interrupt:", "Error):", *_NAMES_WITHOUT_MESSAGE)

PARSERS = (
    Parser(name="exception", literals=_LITERALS, parse=_by_name),
    Parser(name="traceback", literals=(HEADER,), parse=_by_header),
    Parser(name="terminate", literals=("terminate called after throwing",), parse=_thrown),
)
