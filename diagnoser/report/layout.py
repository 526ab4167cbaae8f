"""A diagnosis as lines of styled pieces: the one layout behind plain text and the terminal."""

from collections.abc import Iterator
from typing import NamedTuple

from diagnoser.facts.base import Evidence
from diagnoser.inference.diagnose import NO_KNOWN_CAUSE
from diagnoser.inference.diagnosis import Diagnosis, Finding

LABEL = 9
MAX_EVIDENCE = 4

FIRM = 0.9
"""From this probability on the leading cause needs no further question."""


class Piece(NamedTuple):
    """A stretch of text with a style name of `report.terminal.STYLES`."""

    text: str
    style: str = ""


class Line(NamedTuple):
    """One logical line. ``hang`` is the column where its continuation begins when it is wrapped."""

    pieces: tuple[Piece, ...] = ()
    hang: int = 0


BLANK = Line()


def layout(diagnosis: Diagnosis, *, quiet: bool = False) -> Iterator[Line]:
    """The lines of a diagnosis.

    quiet: only the leading cause with its proof and first fix, and what was not read.
    """
    causes = diagnosis.causes
    # A symptom that no cause explains is worth knowing and never harmless.
    noted = [f for f in diagnosis.roots if f.severity == "info"]
    noted += [f for f in diagnosis.findings if f.role == "bystander" and f.kind == "symptom"]
    if diagnosis.headline == NO_KNOWN_CAUSE:
        yield from _nothing_known(diagnosis)
    for number, finding in enumerate(causes[:1] if quiet else causes):
        if number:
            yield BLANK
        yield from _cause(finding, diagnosis, first=number == 0, quiet=quiet)
    if not quiet:
        yield from _aside(diagnosis, noted)
        yield from _unknown(diagnosis)
        yield from _steps(diagnosis)
        yield from _questions(diagnosis)
    yield from _coverage(diagnosis)


def _nothing_known(diagnosis: Diagnosis) -> Iterator[Line]:
    healthy = diagnosis.server == "ready" and not diagnosis.causes and not diagnosis.unknown
    yield _heading("Nothing wrong found" if healthy else NO_KNOWN_CAUSE.capitalize(), "none")
    yield from _understood(diagnosis)
    if diagnosis.causes:
        yield BLANK
        yield Line((Piece("  What is seen", "dim"),), 2)


def _aside(diagnosis: Diagnosis, noted: list[Finding]) -> Iterator[Line]:
    """What is worth knowing and is not the answer."""
    if noted:
        yield BLANK
    for finding in noted:
        yield from _row("noted", [Piece(finding.title), Piece(f" ({finding.rule}, info)", "dim")])
        for place in finding.evidence[:1]:
            yield from _row("", [_place(place), Piece("  " + _one_line(place.text), "dim")])
    harmless = [f for f in diagnosis.findings if f.role == "bystander" and f.kind == "bystander"]
    if harmless:
        yield BLANK
        pieces = []
        for number, finding in enumerate(harmless):
            pieces += [Piece("; " if number else ""), Piece(finding.title)]
            pieces += [Piece(" "), *[_place(place) for place in finding.evidence[:1]]]
        yield from _row("harmless", pieces)
    followed = [f for f in diagnosis.findings if f.role == "echo"]
    if followed:
        places = ", ".join(f"{place.document}:{place.line}" for f in followed for place in f.evidence[:1])
        yield from _row(
            "echoes",
            [Piece(f"{len(followed)} exceptions follow the first failure"), Piece(f" ({places})", "dim")],
        )
    for finding in diagnosis.findings:
        if finding.kind == "engine":
            yield from _row("rule", [Piece(finding.summary, "warning")])


def _heading(text: str, severity: str, confidence: float | None = None) -> Line:
    pieces = [Piece(text, f"severity.{severity}")]
    if confidence is not None:
        pieces.append(Piece(f"  {confidence:.0%}", "strong"))
    return Line(tuple(pieces), 0)


def _cause(finding: Finding, diagnosis: Diagnosis, *, first: bool, quiet: bool) -> Iterator[Line]:
    yield _heading(finding.title, finding.severity, finding.confidence)
    tags = [finding.rule, finding.effect.replace("_", " "), finding.severity]
    if not first:
        tags.insert(0, "also")
    yield Line((Piece("  " + " · ".join(tags), "dim"),), 2)
    for place in finding.evidence[:MAX_EVIDENCE]:
        yield from _row("proof", [_place(place), Piece("  " + _one_line(place.text), "evidence")])
    if finding.summary and finding.summary != finding.title:
        yield from _row("why", [Piece(finding.summary)])
    if finding.gain is not None:
        gain = finding.gain
        yield from _row(
            "costs",
            [
                Piece(f"undoing it gave {gain.change} {gain.metric}", "strong"),
                Piece(f" ({gain.where}; {gain.source})", "dim"),
            ],
        )
    for fix in finding.fixes[:1] if quiet else finding.fixes:
        yield from _row("fix", [Piece(fix.command, "command")])
        details = [f"risk {fix.risk}", "restart needed" if fix.restart else "no restart"]
        if fix.undo:
            details.append(f"undo: {fix.undo}")
        yield from _row("", [Piece("; ".join(details), "dim")])
        if fix.note:
            yield from _row("", [Piece(fix.note, "dim")])
    folded = [
        other
        for other in diagnosis.findings
        if other.because_of == finding.rule and other.role == "consequence"
    ]
    if folded and not quiet:
        yield from _row("leads to", [Piece("; ".join(other.title for other in folded))])
    if finding.unchecked:
        yield from _row("unsure", [Piece("could not check: " + "; ".join(finding.unchecked))])


def _understood(diagnosis: Diagnosis) -> Iterator[Line]:
    kinds = sorted({document.kind for document in diagnosis.coverage})
    if kinds:
        yield from _row("read", [Piece(", ".join(kinds))])
    state = _STATES[diagnosis.server]
    if state:
        yield from _row("state", [Piece(state)])


_STATES = {
    "ready": "the server came up and serves; no rule objects to what was read",
    "not ready": "the server did not say that it is ready",
    "not told": "",
}


def _unknown(diagnosis: Diagnosis) -> Iterator[Line]:
    if not diagnosis.unknown or diagnosis.headline != NO_KNOWN_CAUSE:
        return
    yield BLANK
    yield Line((Piece("  Lines that no message knows, rarest first", "dim"),), 2)
    for odd in diagnosis.unknown:
        times = f" ({odd.count} times)" if odd.count > 1 else ""
        place = Piece(f"{odd.document}:{odd.line}", "place")
        yield from _row("odd", [place, Piece("  " + _one_line(odd.text), "evidence"), Piece(times, "dim")])


def _steps(diagnosis: Diagnosis) -> Iterator[Line]:
    if diagnosis.steps:
        yield BLANK
    for step in diagnosis.steps:
        yield from _row("asked", [Piece(step.question), Piece(f" ({', '.join(step.probes)})", "dim")])
        yield from _row("", [Piece(f"because {step.because}: {step.outcome}", "dim")])


def _questions(diagnosis: Diagnosis) -> Iterator[Line]:
    """The best question, unless the answer stands firm without it."""
    causes = diagnosis.causes
    firm = bool(causes) and causes[0].confidence >= FIRM and not causes[0].unchecked
    shown = {finding.rule for finding in causes}
    asked = [question for question in diagnosis.questions if not firm or shown & set(question.decides)]
    if not asked:
        return
    yield BLANK
    best = asked[0]
    yield from _row("ask", [Piece(best.question), Piece(f" (decides: {', '.join(best.decides[:4])})", "dim")])
    yield from _row("", [Piece(best.command, "command")])


def _coverage(diagnosis: Diagnosis) -> Iterator[Line]:
    if diagnosis.notes or diagnosis.unreadable or any(document.notes for document in diagnosis.coverage):
        yield BLANK
    for note in diagnosis.notes:
        yield from _row("note", [Piece(note, "dim")])
    for document in diagnosis.coverage:
        for note in document.notes:
            yield from _row("note", [Piece(f"{document.document}: {note}", "dim")])
    for text in diagnosis.unreadable:
        yield from _row("unread", [Piece(text, "warning")])


def _row(label: str, pieces: list[Piece]) -> Iterator[Line]:
    yield Line((Piece(f"  {label:<{LABEL}}", "label"), *pieces), LABEL + 2)


def _place(place: Evidence) -> Piece:
    host = f"{place.host}:" if place.host else ""
    return Piece(f"{host}{place.document}:{place.line}", "place")


def _one_line(text: str, limit: int = 300) -> str:
    first, _, rest = text.strip().partition("\n")
    shown = first[:limit] + ("..." if len(first) > limit else "")
    if rest and len(first) < 60:
        shown += " / " + rest.strip().split("\n")[0][: limit - len(first)]
    return shown
