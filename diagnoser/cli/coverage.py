"""The coverage of logs as text and as JSON."""

import json
from collections.abc import Iterator

from diagnoser.agent.coverage import Counted, Coverage

SCHEMA = "diagnoser/coverage/1"
MAX_TEXT = 200


def as_text(coverage: Coverage, limit: int) -> str:
    """Counts per source that warns, then at most ``limit`` shapes, rarest first."""
    return "\n".join(_lines(coverage, limit))


def _lines(coverage: Coverage, limit: int) -> Iterator[str]:
    for source in coverage.sources:
        if source.raised or len(coverage.sources) == 1:
            yield f"{source.source}: {_sentence(source)}"
    if len(coverage.sources) > 1:
        yield f"all {len(coverage.sources)} sources: {_sentence(coverage.total)}"
    yield from coverage.unreadable
    if coverage.shapes:
        yield ""
        yield "lines at warning or above that no message and no parser knows, by shape, rarest first"
    for shape in coverage.shapes[:limit]:
        text = shape.text.partition("\n")[0]
        yield f"{shape.times:>7}  {shape.source}:{shape.line}  {text[:MAX_TEXT]}"
    hidden = len(coverage.shapes) - limit
    if hidden > 0:
        yield f"{hidden} more shapes; --limit {len(coverage.shapes)} shows them"
    if coverage.unlisted:
        yield f"{coverage.unlisted} more lines of further shapes, which are only counted"


def _sentence(counted: Counted) -> str:
    read = f"{counted.lines:,} lines"
    if counted.share is None:
        return f"{read}, none at warning or above"
    return f"{read}, {counted.raised:,} at warning or above, {counted.known:,} of them known ({counted.share:.1%})"


def as_json(coverage: Coverage) -> str:
    """The same with every shape, for machines."""
    return json.dumps(
        {
            "schema": SCHEMA,
            "total": _counts(coverage.total),
            "sources": [{"source": one.source, **_counts(one)} for one in coverage.sources],
            "unknown": [shape._asdict() for shape in coverage.shapes],
            "unlisted_lines": coverage.unlisted,
            "unreadable": coverage.unreadable,
        },
        indent=2,
    )


def _counts(counted: Counted) -> dict[str, int | float | None]:
    share = counted.share
    return {
        "lines": counted.lines,
        "raised": counted.raised,
        "known": counted.known,
        "share": None if share is None else round(share, 4),
    }
