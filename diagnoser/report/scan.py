"""A scan as text and as JSON: the digest of the fleet, then a row for each incident."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from diagnoser.sources import escaped, label

SCHEMA = "diagnoser/scan/1"
MAX_ROWS = 60
"""Rows of the text; the JSON has all."""

_COLUMNS = "  incidents  hosts  since             until             cause"


def as_text(scan: Any) -> str:
    """The digest, then the incidents with a cause, then those that were not read; those without are counted."""
    digest = scan.digest
    lines = [
        f"{digest.incidents} incidents on {digest.hosts} hosts, {digest.bytes / 1e6:.0f} MB: {digest.with_cause} "
        f"with a cause, {digest.incidents - digest.with_cause - digest.failed} without, {digest.failed} not read"
    ]
    if digest.causes:
        lines += ["", _COLUMNS]
    for one in digest.causes:
        lines.append(
            f"  {one.incidents:9}  {one.hosts:5}  {_moment(one.since):16}  {_moment(one.until):16}  "
            f"{label(one.title)} [{one.rule}]"
        )
        lines.append(f"{'':56}{label(one.proof)[:160]}")
    found = [row for row in scan.rows if row.causes]
    lost = [row for row in scan.rows if row.error is not None]
    lines += ["", *_rows(found, _verdict)] if found else []
    lines += ["", "not read", *_rows(lost, lambda row: label(row.error))] if lost else []
    lines += ["", *map(label, scan.unreadable[:MAX_ROWS])] if scan.unreadable else []
    return "\n".join(lines) + "\n"


def _rows(rows: Sequence[Any], told: Any) -> list[str]:
    width = min(60, max(len(row.incident) for row in rows))
    lines = [f"  {label(row.incident):<{width}}  {told(row)}" for row in rows[:MAX_ROWS]]
    if len(rows) > MAX_ROWS:
        lines.append(f"  and {len(rows) - MAX_ROWS} more; -f json has all")
    return lines


def _verdict(row: Any) -> str:
    first = row.causes[0]
    more = f" (and {len(row.causes) - 1} more)" if len(row.causes) > 1 else ""
    return f"{first.confidence:.0%}  {label(first.title)} [{first.rule}]{more}"


def _moment(at: float | None) -> str:
    """A time in UTC; stamps that count from a start tell none."""
    return (
        "not told" if at is None or at < 1e8 else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
    )


def as_json(scan: Any) -> str:
    """``{"schema", "digest": {..., "causes": [...]}, "incidents": [one row each], "unreadable": [...]}``.

    Times are seconds since the epoch, sizes bytes.
    """
    digest = scan.digest._asdict() | {"causes": [one._asdict() for one in scan.digest.causes]}
    answer = {
        "schema": SCHEMA,
        "digest": digest,
        "incidents": [row.as_plain() for row in scan.rows],
        "unreadable": scan.unreadable,
    }
    return escaped(json.dumps(answer, indent=2, ensure_ascii=False)) + "\n"
