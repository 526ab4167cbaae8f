"""A diagnosis as Markdown: for tickets and chat."""

from collections.abc import Iterator

from diagnoser.inference.diagnose import NO_KNOWN_CAUSE
from diagnoser.inference.diagnosis import Diagnosis, Finding
from diagnoser.report.markup import code, longest_run, plain


def render(diagnosis: Diagnosis) -> str:
    """GitHub-flavoured Markdown; evidence is fenced so that no log line becomes markup."""
    return "\n".join(_lines(diagnosis)) + "\n"


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    causes = diagnosis.causes
    if not causes:
        yield f"## {NO_KNOWN_CAUSE.capitalize()}"
        for odd in diagnosis.unknown:
            yield ""
            yield f"Unknown line, seen {odd.count}x, {code(f'{odd.document}:{odd.line}')}:"
            yield from _fence(odd.text)
    for finding in causes:
        yield from _cause(finding)
    folded = [finding for finding in diagnosis.findings if finding.role == "consequence"]
    if folded:
        yield "### Consequences"
        for finding in folded:
            yield f"- {plain(finding.title)} ({code(finding.rule)}, because of {code(finding.because_of or '')})"
        yield ""
    aside = [
        f for f in diagnosis.findings if f.role == "bystander" or (f.role == "root" and f.severity == "info")
    ]
    if aside:
        yield "### Seen, and not the cause"
        for finding in aside:
            yield f"- {plain(finding.title)} ({code(finding.rule)})"
        yield ""
    if diagnosis.questions:
        yield "### What would decide"
        for question in diagnosis.questions:
            yield f"- {plain(question.question)} {code(question.command)}"
        yield ""
    yield "### Read"
    for document in diagnosis.coverage:
        yield f"- {code(document.document)}: {document.kind}, lines {document.first_line} to {document.last_line}"
        for note in document.notes:
            yield f"  - {plain(note)}"
    for text in [*diagnosis.notes, *diagnosis.unreadable]:
        yield f"- {plain(text)}"


def _cause(finding: Finding) -> Iterator[str]:
    yield f"## {plain(finding.title)} ({finding.confidence:.0%})"
    yield f"{code(finding.rule)}, {finding.effect.replace('_', ' ')}, {finding.severity}"
    yield ""
    yield plain(finding.summary)
    for place in finding.evidence:
        yield ""
        yield f"{code(f'{place.document}:{place.line}')}"
        yield from _fence(place.text)
    if finding.gain is not None:
        yield ""
        gain = finding.gain
        yield f"Undoing it gave {gain.change} {gain.metric} ({plain(gain.where)}; {plain(gain.source)})."
    for fix in finding.fixes:
        yield ""
        details = [f"risk {fix.risk}", *(["restart"] if fix.restart else [])]
        details += [f"undo: {plain(fix.undo)}"] if fix.undo else []
        yield f"Fix ({', '.join(details)}):"
        yield from _fence(fix.command)
        if fix.note:
            yield plain(fix.note)
    yield ""


def _fence(text: str) -> Iterator[str]:
    fence = "`" * max(3, longest_run(text) + 1)
    yield fence
    yield text
    yield fence
