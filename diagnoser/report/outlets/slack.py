"""A diagnosis as Slack's mrkdwn: short, and nothing of a log is a mention, a link or markup."""

import json
from collections.abc import Iterator

from diagnoser.inference.diagnosis import Diagnosis, Finding
from diagnoser.report.outlets.words import cut, headline, source

MAX_CAUSES = 3
MAX_PLACES = 2
MAX_TEXT = 3800
"""Slack asks for at most 4000 characters of text (chat.postMessage)."""

_SIGNS = {"critical": ":red_circle:", "high": ":large_orange_circle:", "medium": ":large_yellow_circle:"}


def render(diagnosis: Diagnosis) -> str:
    """mrkdwn of at most `MAX_TEXT` characters; whole lines are left out, never halves."""
    lines: list[str] = []
    room = MAX_TEXT
    for line in _lines(diagnosis):
        room -= len(line) + 1
        if room < 0:
            lines.append("_The rest did not fit; see the report._")
            break
        lines.append(line)
    return "\n".join(lines) + "\n"


def posted(diagnosis: Diagnosis) -> str:
    """What an incoming webhook takes."""
    return json.dumps({"text": render(diagnosis), "unfurl_links": False}, ensure_ascii=False)


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    causes = diagnosis.causes
    sign = _SIGNS.get(causes[0].severity, ":large_blue_circle:") if causes else ":white_circle:"
    yield f"{sign} *{_plain(headline(diagnosis))}* on {_code(source(diagnosis))}"
    for number, finding in enumerate(causes[:MAX_CAUSES]):
        if number:
            yield f"*{_plain(finding.title)}*, {finding.confidence:.0%}"
        yield from _cause(finding)
    if not causes:
        for odd in diagnosis.unknown[:MAX_PLACES]:
            yield f"> unknown line {_code(f'{odd.document}:{odd.line}')} {_code(cut(odd.text, 300))}"
    for question in diagnosis.questions[:1]:
        yield f"Would decide: {_plain(question.question)} {_code(question.command)}"


def _cause(finding: Finding) -> Iterator[str]:
    yield f"{_code(finding.rule)}, {finding.effect.replace('_', ' ')}, {finding.severity}"
    for place in finding.evidence[:MAX_PLACES]:
        first = place.text.splitlines()[0] if place.text else ""
        yield f"> {_code(f'{place.document}:{place.line}')} {_code(cut(first, 300))}"
    if finding.gain is not None:
        gain = finding.gain
        yield f"Costs: undoing it gave {_plain(gain.change)} {_plain(gain.metric)} ({_plain(gain.where)})"
    for fix in finding.fixes[:1]:
        yield f"Fix (risk {fix.risk}{', restart' if fix.restart else ''}): {_code(fix.command)}"


def _plain(text: str) -> str:
    """Slack's three control characters escaped, as its documentation asks; signs of markup are set apart."""
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for sign in "*_~`":
        line = line.replace(sign, f"\u200b{sign}" if sign != "`" else "\u02cb")
    return line


def _code(text: str) -> str:
    """A code span; a backtick, which would end it, becomes its look-alike."""
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "`" + (line.replace("`", "\u02cb") or " ") + "`"
