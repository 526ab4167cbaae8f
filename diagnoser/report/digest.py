"""Weeks of diagnoses, as text, Markdown and JSON."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from diagnoser.compare.digest import Row, Week
from diagnoser.report import markup
from diagnoser.sources import escaped, label

SCHEMA = "diagnoser/digest/1"
MAX_ROWS = 12


def as_text(weeks: Sequence[Week], notes: Sequence[str]) -> str:
    """The newest week first; its causes by cost."""
    lines: list[str] = []
    for week in weeks:
        lines += [label(line) for line in _lines(week)] + [""]
    lines += [f"note: {label(note)}" for note in notes]
    return "\n".join(lines).rstrip() + "\n"


def _lines(week: Week) -> Iterator[str]:
    yield _headline(week)
    for row in week.rows[:MAX_ROWS]:
        yield f"  {row.times:>4} x  {row.cause.title}  ({row.cause.rule})"
        yield f"          {'; '.join(_facts(row))}"
        if row.cause.fix:
            yield f"          fix: {row.cause.fix}"
    if len(week.rows) > MAX_ROWS:
        yield f"  and {len(week.rows) - MAX_ROWS} more causes"
    if week.gone:
        yield f"  came no more: {', '.join(week.gone[:MAX_ROWS])}"


def _headline(week: Week) -> str:
    known = week.incidents - week.unknown - week.well
    parts = [f"{known} with a known cause"]
    parts += [f"{week.unknown} with none"] if week.unknown else []
    parts += [f"{week.well} with nothing wrong found"] if week.well else []
    plural = "diagnosis" if week.incidents == 1 else "diagnoses"
    return f"{week.name} (from {week.start:%Y-%m-%d}): {week.incidents} {plural}, {', '.join(parts)}"


def _facts(row: Row) -> Iterator[str]:
    yield row.cause.effect.replace("_", " ")
    yield "on one host or file" if row.places == 1 else f"on {row.places} hosts or files"
    if row.lost is not None:
        yield f"cost the speed of {row.lost:.2f} servers (assumed from what was measured elsewhere)"
    elif not row.stopped:
        yield "its cost was never measured"
    yield f"{row.before} in the week before" if row.before else "not in the week before"


def as_markdown(weeks: Sequence[Week], notes: Sequence[str]) -> str:
    """A table a week: for a wiki, a ticket or a mail."""
    lines: list[str] = []
    for week in weeks:
        lines += [f"## {_headline(week)}", ""]
        if week.rows:
            lines += [
                "| times | cause | effect | hosts or files | speed lost, in servers (assumed) | week before | fix |",
                "|---:|---|---|---:|---:|---:|---|",
            ]
        lines += [f"| {' | '.join(_cells(row))} |" for row in week.rows]
        if week.gone:
            lines += ["", f"Came no more: {', '.join(map(markup.code, week.gone))}."]
        lines.append("")
    lines += [f"- {markup.plain(note)}" for note in notes]
    return "\n".join(lines).rstrip() + "\n"


def _cells(row: Row) -> Iterator[str]:
    cause = row.cause
    yield str(row.times)
    yield f"{markup.plain(cause.title)} ({markup.code(cause.rule)})"
    yield cause.effect.replace("_", " ")
    yield str(row.places)
    yield "" if row.lost is None else f"{row.lost:.2f}"
    yield str(row.before)
    yield markup.code(cause.fix).replace("|", "\\|") if cause.fix else ""


def as_json(weeks: Sequence[Week], notes: Sequence[str]) -> str:
    """``{"schema", "weeks": [{"week", "start", "diagnoses", "unknown", "well", "causes", "gone"}], "notes"}``."""
    answer = {"schema": SCHEMA, "weeks": [_plain(week) for week in weeks], "notes": list(notes)}
    return escaped(json.dumps(answer, indent=2, ensure_ascii=False)) + "\n"


def _plain(week: Week) -> dict[str, Any]:
    return {
        "week": week.name,
        "start": week.start.isoformat(),
        "diagnoses": week.incidents,
        "unknown": week.unknown,
        "well": week.well,
        "causes": [
            {
                "rule": row.cause.rule,
                "title": row.cause.title,
                "effect": row.cause.effect,
                "severity": row.cause.severity,
                "count": row.times,
                "places": row.places,
                "week_before": row.before,
                "lost_servers": row.lost,
                "fix": row.cause.fix,
            }
            for row in week.rows
        ],
        "gone": list(week.gone),
    }
