"""A diagnosis as Markdown: for tickets and chat."""

from collections.abc import Iterator

from diagnoser.inference.diagnose import NO_KNOWN_CAUSE
from diagnoser.inference.diagnosis import Diagnosis, Finding


def render(diagnosis: Diagnosis) -> str:
    """GitHub-flavoured Markdown; evidence is fenced so that no log line becomes markup."""
    return "\n".join(_lines(diagnosis)) + "\n"


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    causes = diagnosis.causes
    if not causes:
        yield f"## {NO_KNOWN_CAUSE.capitalize()}"
        for odd in diagnosis.unknown:
            yield ""
            yield f"Unknown line, seen {odd.count}x, {_code(f'{odd.document}:{odd.line}')}:"
            yield from _fence(odd.text)
    for finding in causes:
        yield from _cause(finding)
    folded = [finding for finding in diagnosis.findings if finding.role == "consequence"]
    if folded:
        yield "### Consequences"
        for finding in folded:
            yield f"- {_text(finding.title)} ({_code(finding.rule)}, because of {_code(finding.because_of or '')})"
        yield ""
    aside = [
        f for f in diagnosis.findings if f.role == "bystander" or (f.role == "root" and f.severity == "info")
    ]
    if aside:
        yield "### Seen, and not the cause"
        for finding in aside:
            yield f"- {_text(finding.title)} ({_code(finding.rule)})"
        yield ""
    if diagnosis.questions:
        yield "### What would decide"
        for question in diagnosis.questions:
            yield f"- {_text(question.question)} {_code(question.command)}"
        yield ""
    yield "### Read"
    for document in diagnosis.coverage:
        yield f"- {_code(document.document)}: {document.kind}, lines {document.first_line} to {document.last_line}"
        for note in document.notes:
            yield f"  - {_text(note)}"
    for text in [*diagnosis.notes, *diagnosis.unreadable]:
        yield f"- {_text(text)}"


def _cause(finding: Finding) -> Iterator[str]:
    yield f"## {_text(finding.title)} ({finding.confidence:.0%})"
    yield f"{_code(finding.rule)}, {finding.effect.replace('_', ' ')}, {finding.severity}"
    yield ""
    yield _text(finding.summary)
    for place in finding.evidence:
        yield ""
        yield f"{_code(f'{place.document}:{place.line}')}"
        yield from _fence(place.text)
    if finding.gain is not None:
        yield ""
        gain = finding.gain
        yield f"Undoing it gave {gain.change} {gain.metric} ({gain.where}; {gain.source})."
    for fix in finding.fixes:
        yield ""
        yield f"Fix (risk {fix.risk}{', restart' if fix.restart else ''}{', undo: ' + fix.undo if fix.undo else ''}):"
        yield from _fence(fix.command)
        if fix.note:
            yield _text(fix.note)
    yield ""


def _fence(text: str) -> Iterator[str]:
    longest = max((len(run) for run in _backticks(text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield fence
    yield text
    yield fence


def _backticks(text: str) -> Iterator[str]:
    run = ""
    for character in text + " ":
        if character == "`":
            run += character
        elif run:
            yield run
            run = ""


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _text(text: str) -> str:
    return text.replace("<", "&lt;").replace("\n", " ")
