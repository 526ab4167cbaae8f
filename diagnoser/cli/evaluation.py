"""The evaluation as text and as JSON."""

import json
from collections.abc import Iterator
from typing import Any

from diagnoser.agent.evaluation import Judgement, Report, Share


def as_text(report: Report, *, misses: bool = False) -> str:
    """A page: shares with 95 % intervals, reliability, and with ``misses`` every wrong case."""
    return "\n".join(_lines(report, misses))


def _lines(report: Report, misses: bool) -> Iterator[str]:
    for title, chosen in _groups(report):
        if chosen:
            yield f"{title}: {len(chosen)}"
            yield f"  top-1  {report.top(chosen, 1)}"
            yield f"  top-3  {report.top(chosen, 3)}"
            yield f"  mean reciprocal rank  {report.reciprocal_rank(chosen):.3f}"
    yield f"healthy logs without an alarm     {report.quiet('healthy')}"
    yield f"unknown causes answered honestly  {report.quiet('unknown')}"
    yield f"expected calibration error        {report.calibration_error():.3f}"
    for number, (count, mean, right) in enumerate(report.reliability()):
        if count:
            yield f"  {number / 10:.1f}-{(number + 1) / 10:.1f}  {count:3} cases, said {mean:.2f}, right {right:.2f}"
    yield from _categories(report)
    if misses:
        yield "not judged right:"
        for one in report.judgements:
            if not _right(one):
                said = (
                    ", ".join(f"{rule} {confidence:.2f}" for rule, confidence in one.causes[:4]) or "nothing"
                )
                yield f"  {one.case.id} {one.case.kind}: wanted {'/'.join(one.case.causes) or 'nothing'}; said {said}"


def _groups(report: Report) -> list[tuple[str, list[Judgement]]]:
    return [
        ("incidents that one log decides", report.of("incident", True)),
        ("incidents that need a baseline or version knowledge", report.of("incident", False)),
        ("all incidents", report.of("incident")),
    ]


def _categories(report: Report) -> Iterator[str]:
    incidents = report.of("incident")
    yield "by category"
    for category in sorted({one.case.category for one in incidents}):
        chosen = [one for one in incidents if one.case.category == category]
        yield f"  {category:<20} top-1 {report.top(chosen, 1)}; top-3 {report.top(chosen, 3)}"


def _right(one: Judgement) -> bool:
    if one.case.kind == "incident":
        return one.rank == 1
    return not (one.known if one.case.kind == "unknown" else one.causes)


def as_json(report: Report) -> str:
    """The same, for machines."""
    groups: dict[str, Any] = {
        title: {
            "cases": len(chosen),
            "top_1": _share(report.top(chosen, 1)),
            "top_3": _share(report.top(chosen, 3)),
            "mean_reciprocal_rank": report.reciprocal_rank(chosen) if chosen else None,
        }
        for title, chosen in _groups(report)
    }
    return json.dumps(
        {
            "schema": "diagnoser/evaluation/1",
            "groups": groups,
            "healthy_quiet": _share(report.quiet("healthy")),
            "unknown_honest": _share(report.quiet("unknown")),
            "calibration_error": report.calibration_error(),
            "reliability": [{"cases": c, "said": s, "right": r} for c, s, r in report.reliability()],
            "cases": [
                {"id": one.case.id, "rank": one.rank, "right": _right(one), "said": list(one.causes)}
                for one in report.judgements
            ],
        },
        indent=2,
    )


def _share(share: Share) -> dict[str, Any]:
    return {"hits": share.hits, "of": share.of, "interval_95": list(share.interval)}
