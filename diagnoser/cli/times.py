"""Times as people write them on a command line."""

import re
import time
from datetime import UTC, datetime

_AGO = re.compile(r"^(\d+(?:\.\d+)?)(s|m|h|d)$")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_CLOCK = re.compile(r"^(\d{1,2}):(\d\d)(?::(\d\d))?$")
_SHORT = re.compile(r"^(\d{1,2})-(\d{1,2})[ T](\d{1,2}):(\d\d)(?::(\d\d))?$")


def moment(text: str | None, year: int) -> float | None:
    """Seconds since the epoch of "2026-03-01T09:00", "03-01 09:00", "09:00" (today), "2h" (ago), "@17000000".

    Times without a zone are UTC, as the stamps in logs are taken to be. Raises ValueError with one sentence.
    """
    if text is None:
        return None
    if text.startswith("@") and text[1:].isdigit():
        return float(text[1:])
    ago = _AGO.match(text)
    if ago:
        return time.time() - float(ago.group(1)) * _UNITS[ago.group(2)]
    try:
        clock = _CLOCK.match(text)
        if clock:
            now = datetime.now(UTC)
            hour, minute, second = (int(part or 0) for part in clock.groups())
            return now.replace(hour=hour, minute=minute, second=second, microsecond=0).timestamp()
        short = _SHORT.match(text)
        if short:
            month, day, hour, minute, second = (int(part or 0) for part in short.groups())
            return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time; write 2026-03-01T09:00, 03-01 09:00, 09:00, or 2h for two hours ago"
        ) from None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
