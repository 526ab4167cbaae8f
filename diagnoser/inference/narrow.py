"""Which line of a long block proves a statement: an nvidia-smi report has a hundred lines for each GPU.

A fact's field is named after what the report prints, so the line is found by words: those of the field against those
of the line and of the headings it stands under.
"""

import re
from collections.abc import Iterable, Iterator

from diagnoser.facts.factbase import Sighting

LONG_BLOCK = 6
"""Blocks of fewer lines are shown as they are."""

MAX_SHOWN = 3

_DERIVED = {
    "link_below_limit": "pcie generation current",
    "link_gen_below_limit": "pcie generation current",
    "link_width_below_max": "link width current",
    "link_bandwidth_share": "pcie generation current",
    "throttled": "clocks event throttle reasons active",
    "throttled_hw": "hw slowdown active",
    "throttled_thermal": "thermal slowdown active",
    "thermal_limit_reached": "gpu current temp",
    "power_below_default": "current power limit",
    "power_at_cap": "power draw",
    "power_capped_early": "sw power cap active",
    "power_share": "power draw",
    "unowned_memory": "fb memory used",
    "mem_used_gib": "fb memory used",
    "under_load": "utilization gpu",
    "vgpu_unlicensed": "license status",
    "reset_needed": "reset required recovery action",
    "fabric_ok": "fabric state",
    "mig_enabled": "mig mode current",
    "clock_share": "clocks sm",
    "ecc_uncorr_volatile": "ecc volatile uncorrectable",
    "ecc_uncorr_aggregate": "ecc aggregate uncorrectable",
}
"""Fields that are computed -> the words of the line they come from."""

_WORD = re.compile(r"[a-z]+|\d+")
_UNITS = frozenset(["w", "c", "mhz", "mib", "gib", "us", "pct", "reason"])
_NOTHING = re.compile(r": (?:Not Active|N/A|None|0|No)\s*$|>(?:Not Active|N/A|None|0|No)<")


def narrow(sighting: Sighting, fields: Iterable[str]) -> Sighting:
    """The sighting with its text cut to the lines that show these fields; unchanged where none is found."""
    lines = sighting.text.split("\n")
    if len(lines) < LONG_BLOCK:
        return sighting
    paths = list(_paths(lines))
    numbers = {number for field in fields if (number := _line_of(field, lines, paths)) is not None}
    if not numbers:
        return sighting
    chosen = sorted(numbers)[:MAX_SHOWN]
    return sighting._replace(
        line=sighting.line + chosen[0],
        end_line=sighting.line + chosen[-1],
        text="\n".join(lines[number].strip() for number in chosen),
    )


def _line_of(field: str, lines: list[str], paths: list[set[str]]) -> int | None:
    wanted = [word for word in _WORD.findall(_DERIVED.get(field, field)) if word not in _UNITS]
    if not wanted:
        return None
    best, best_score = None, 0.0
    for number, words in enumerate(paths):
        hits = sum(any(word.startswith(one) or one.startswith(word) for word in words) for one in wanted)
        score = hits - 0.02 * len(words) - (0.5 if _NOTHING.search(lines[number]) else 0)
        if hits >= max(1, len(wanted) - 1) and score > best_score:
            best, best_score = number, score
    return best


def _paths(lines: list[str]) -> Iterator[set[str]]:
    """The words of each line's label together with those of the headings it is indented under."""
    headings: list[tuple[int, set[str]]] = []
    for line in lines:
        indent = len(line) - len(line.lstrip())
        label = line.split(" : ")[0].split("</")[0]
        words = {word for word in _WORD.findall(label.lower()) if len(word) > 1}
        while headings and headings[-1][0] >= indent:
            headings.pop()
        above = set().union(*(one for _, one in headings)) if headings else set()
        yield words | above
        headings.append((indent, words))
