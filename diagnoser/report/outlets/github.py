"""A diagnosis as the text of a GitHub issue: what a maintainer needs, and no mention or cross-reference by accident."""

import json
import re
from collections.abc import Iterator

from diagnoser.inference.diagnosis import Diagnosis, Finding
from diagnoser.report import markup
from diagnoser.report.outlets.words import cut, headline, link
from diagnoser.version import __version__

MAX_TITLE = 200
MAX_BODY = 60_000
"""GitHub takes 65,536 characters of body."""

_ACTING = re.compile(r"(?<!\w)([@#])(?=\w)|(?<=[\w])(#)(?=\d)")


def title(diagnosis: Diagnosis) -> str:
    """For the title of the issue; GitHub renders no markup in it but code spans."""
    return cut(headline(diagnosis).replace("`", "'"), MAX_TITLE)


def render(diagnosis: Diagnosis) -> str:
    """GitHub-flavoured Markdown of the body."""
    lines: list[str] = []
    room = MAX_BODY
    for part in _parts(diagnosis):
        room -= len(part) + 1
        if room < 0:
            lines += ["", "The rest did not fit into an issue."]
            break
        lines.append(part)
    return "\n".join(lines) + "\n"


def posted(diagnosis: Diagnosis) -> str:
    """What ``POST /repos/OWNER/REPO/issues`` takes."""
    return json.dumps({"title": title(diagnosis), "body": render(diagnosis)}, ensure_ascii=False)


def _parts(diagnosis: Diagnosis) -> Iterator[str]:
    """Whole paragraphs, so that a cut never leaves a fence open."""
    causes = diagnosis.causes
    for finding in causes:
        yield from _cause(finding)
    if not causes:
        yield f"### {_plain(headline(diagnosis))}\n"
    if not causes and diagnosis.unknown:
        yield "Lines that no rule knows:\n"
        for odd in diagnosis.unknown:
            yield f"{markup.code(f'{odd.document}:{odd.line}')}, seen {odd.count} times\n{_fenced(odd.text)}\n"
    folded = [one for one in diagnosis.findings if one.role == "consequence"]
    if folded:
        rows = [f"- {_plain(one.title)} (because of {markup.code(one.because_of or '')})" for one in folded]
        yield _details("What follows from it", rows)
    harmless = [one for one in diagnosis.findings if one.role == "bystander" and one.kind == "bystander"]
    if harmless:
        yield _details(
            "Looks guilty and is not", [f"- {_plain(one.title)}: {_plain(one.summary)}" for one in harmless]
        )
    if diagnosis.questions:
        asked = [f"- {_plain(one.question)} {markup.code(one.command)}" for one in diagnosis.questions[:3]]
        yield "\n".join(["Would decide more:\n", *asked, ""])
    read = [
        f"- {markup.code(one.document)}: {_plain(one.kind)}, lines {one.first_line} to {one.last_line}"
        for one in diagnosis.coverage
    ]
    yield _details(
        "What was read", read + [f"- {_plain(note)}" for note in (*diagnosis.notes, *diagnosis.unreadable)]
    )
    yield f"<sub>diagnoser {__version__}; secrets are masked</sub>"


def _cause(finding: Finding) -> Iterator[str]:
    effect = finding.effect.replace("_", " ")
    tags = f"{markup.code(finding.rule)}, {effect}, {finding.severity}, {finding.confidence:.0%}"
    yield f"### {_plain(finding.title)}\n\n{tags}\n"
    yield f"{_plain(finding.summary)}\n"
    for place in finding.evidence:
        yield f"{markup.code(f'{place.document}:{place.line}')}\n{_fenced(place.text)}\n"
    if finding.gain is not None:
        gain = finding.gain
        where = f"{_plain(gain.where)}; {_plain(gain.source)}"
        yield f"Undoing it gave {_plain(gain.change)} {markup.code(gain.metric)} ({where}).\n"
    for fix in finding.fixes:
        risk = f"risk {fix.risk}{', restart' if fix.restart else ''}"
        yield f"Fix ({risk}):\n{_fenced(fix.command)}\n"
    links = [_reference(one) for one in finding.references]
    if links:
        yield f"See {', '.join(links)}.\n"


def _reference(reference: str) -> str:
    """A thread as a link that does not tell the thread of it (GitHub leaves a note there otherwise)."""
    address = link(reference)
    if address and address.startswith("https://github.com/"):
        address = address.replace("https://github.com/", "https://redirect.github.com/", 1)
    return f"[{_plain(reference)}]({address})" if address else _plain(reference)


def _details(summary: str, rows: list[str]) -> str:
    return "\n".join([f"<details><summary>{summary}</summary>\n", *rows, "\n</details>\n"])


def _plain(text: str) -> str:
    """Prose in which nothing acts: no markup, no mention, no reference to an issue or a commit."""
    return _ACTING.sub(lambda sign: f"{sign.group()}<!-- -->", markup.plain(f"x {text}")[2:])


def _fenced(text: str) -> str:
    fence = "`" * max(3, markup.longest_run(text) + 1)
    return f"{fence}text\n{text}\n{fence}"
