"""Time stamps without a parser library: seconds since the epoch from dates and clocks."""

from datetime import date
from functools import lru_cache

from diagnoser.facts.lazy import lazy

UNKNOWN_YEAR = 1970
"""The year of stamps that have none when the caller knows none either: differences still hold."""

_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MONTHS = {name: number for number, name in enumerate(_NAMES, start=1)}


@lru_cache(maxsize=512)
def _midnight(year: int, month: int, day: int) -> int | None:
    """Seconds since the epoch at 00:00 UTC; 29 February of a year without one is the day after the 28th."""
    try:
        return (date(year, month, day).toordinal() - 719_163) * 86_400
    except ValueError:
        if (month, day) != (2, 29):
            return None
    before = _midnight(year, 2, 28)
    return None if before is None else before + 86_400


def epoch(year: int, month: int, day: int, clock: str, fraction: str | None = None) -> float | None:
    """Seconds since the epoch (UTC) of a date and a clock "HH:MM:SS"; None for a date that is none."""
    start = _midnight(year, month, day)
    if start is None:
        return None
    seconds = start + int(clock[:2]) * 3600 + int(clock[3:5]) * 60 + int(clock[6:8])
    return seconds + float("0." + fraction) if fraction else float(seconds)


_ISO = lazy(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(?: ?(Z|[+-]\d\d:?\d\d)(?![\d:]))?")


def read_iso(text: str, pos: int = 0) -> tuple[float | None, int] | None:
    """An ISO 8601 stamp at ``pos``: its time and where it ends; None when there is none."""
    match = _ISO.match(text, pos)
    if match is None:
        return None
    year, month, day, clock, fraction, zone = match.groups()
    at = epoch(int(year), int(month), int(day), clock, fraction)
    if at is not None and zone and zone != "Z":
        offset = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
        at += offset if zone[0] == "-" else -offset
    return at, match.end()
