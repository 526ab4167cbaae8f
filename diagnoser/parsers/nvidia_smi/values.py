"""Cells of nvidia-smi: absent tokens, failure tokens, numbers with units, and drafts of facts.

The converter of a value follows from the field's type, so the tables of the parsers only name fields.
Sources of the tokens: captures of drivers 525 to 610, NVML return codes 3, 4, 6, 15, 16, 999.
"""

import html
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, get_args

from diagnoser.facts.base import Fact
from diagnoser.facts.lazy import lazy

LONGEST = 65_536
"""Characters of a line that are looked at; the longest real one, a query of all fields, has about 9,000."""

ABSENT = frozenset({
    "",
    "n/a",
    "-",
    "not supported",
    "not found",
    "insufficient permissions",
    "requested functionality has been deprecated",
    "not available in wddm driver model",
    "unknown",
})  # fmt: skip

LOST, NEEDS_RESET, FAILED = "gpu is lost", "gpu requires reset", "unknown error"

FAILURES = frozenset({LOST, NEEDS_RESET, FAILED, "err!"})

_YES = frozenset({"yes", "active", "enabled", "on", "true"})
_NO = frozenset({"no", "not active", "disabled", "off", "false"})
_BOOLS = dict.fromkeys(_YES, True) | dict.fromkeys(_NO, False)

_NUMBER = lazy(r"[+-]?\d{1,18}(?:\.\d{1,9})?")
_HEX = lazy(r"0x[0-9A-Fa-f]{1,16}\Z")
_ESCAPES = lazy(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_BUS = lazy(r"(?:([0-9A-Fa-f]{4,8}):)?([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(?:\.[0-9A-Fa-f])?\Z")


def clean(line: str) -> str:
    r"""The line without what pasting does to it: ANSI codes, ``\|``, ``&gt;``, hard blanks, line ends.

    >>> clean("\\| N/A   34C \\|\r")
    '| N/A   34C |'
    """
    line = line[:LONGEST]
    if "\x1b" in line:
        line = _ESCAPES.sub("", line)
    if "&" in line:
        line = html.unescape(line)
    return line.replace("\\|", "|").replace("\xa0", " ").rstrip()


def token(text: str) -> str:
    """The text in lower case without brackets, to be looked up in `ABSENT` and `FAILURES`."""
    return text.strip().strip("[]").strip().lower()


def words(text: str) -> str | None:
    """The text, None for absent and failure tokens."""
    text = text.strip()
    key = token(text)
    return None if key in ABSENT or key in FAILURES else text


def number(text: str) -> float | None:
    """The number a value starts with: "318.44 W" is 318.44, "16x" is 16.0, "0x48" is 72.0."""
    text = text.strip()
    if _HEX.match(text):
        return float(int(text, 16))
    match = _NUMBER.match(text)
    return float(match.group()) if match else None


def whole(text: str) -> int | None:
    """Like `number`, as the nearest integer; exact for integers and hexadecimal masks of any size."""
    text = text.strip()
    if _HEX.match(text):
        return int(text, 16)
    match = _NUMBER.match(text)
    if match is None:
        return None
    return round(float(match.group())) if "." in match.group() else int(match.group())


def truth(text: str) -> bool | None:
    """Yes, Active, Enabled, On and their opposites."""
    return _BOOLS.get(token(text))


def canonical_pci(bus: str) -> str | None:
    """The place as the kernel writes it in an Xid: "00000000:3B:00.0" is "0000:3b:00"."""
    match = _BUS.match(bus.strip())
    if match is None:
        return None
    domain = (match.group(1) or "0").lower().lstrip("0").rjust(4, "0")
    return f"{domain}:{match.group(2).lower()}"


_BY_TYPE: dict[type, Callable[[str], Any]] = {bool: truth, int: whole, float: number, str: words}


@cache
def converters(model: type[Fact]) -> dict[str, Callable[[str], Any]]:
    """Field name to the function that reads its text, from the field's type (``int | None`` gives `whole`)."""
    found = {}
    for name, info in model.model_fields.items():
        types = [info.annotation, *get_args(info.annotation)]
        found[name] = next(
            (_BY_TYPE[kind] for kind in types if isinstance(kind, type) and kind in _BY_TYPE), words
        )
    return found


@dataclass(slots=True)
class Draft:
    """A fact in the making: values by field, lines first to last, and what failed on the way.

    failures: failure tokens met, in lower case.
    """

    model: type[Fact]
    first: int = 0
    last: int = 0
    values: dict[str, Any] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def put(self, name: str, text: str) -> None:
        """Set a field from its text unless it is absent or already set; "+name" adds to it instead."""
        if not text[:1].isdigit():
            key = token(text)
            if key in FAILURES:
                self.failures.append(key)
                return
            if key in ABSENT:
                return
        target = name.lstrip("+")
        value = converters(self.model)[target](text)
        if value is None:
            return
        if name != target and target in self.values:
            self.values[target] += value
        else:
            self.values.setdefault(target, value)

    def reach(self, line: int) -> None:
        """The draft now extends to this line."""
        self.last = max(self.last, line)

    def fact(self) -> Fact:
        return self.model(**self.values)
