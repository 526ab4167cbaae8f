"""A diagnosis as SARIF 2.1.0: causes and their consequences as results at their lines, for code-scanning views."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from diagnoser.facts.base import Evidence
from diagnoser.inference.diagnosis import Diagnosis, Finding
from diagnoser.report import markup
from diagnoser.report.outlets.words import file_of, headline, link
from diagnoser.sources import escaped
from diagnoser.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

LEVELS = {"critical": "error", "high": "error", "medium": "warning", "low": "note", "info": "note"}


def render(diagnosis: Diagnosis) -> str:
    """One run. Bystanders and echoes are no results."""
    shown = [
        one for one in diagnosis.findings if one.role in ("root", "consequence") and one.kind != "engine"
    ]
    rules = {one.rule: one for one in shown}
    numbers = {rule: number for number, rule in enumerate(rules)}
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver(list(rules.values()))},
                "invocations": [_invocation(diagnosis)],
                "columnKind": "unicodeCodePoints",
                "results": [_result(one, numbers[one.rule]) for one in shown],
                "properties": {"headline": headline(diagnosis), "server": diagnosis.server},
            }
        ],
    }
    return escaped(json.dumps(log, indent=2, ensure_ascii=False)) + "\n"


def _driver(findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "name": "diagnoser",
        "semanticVersion": __version__,
        "rules": [_rule(one) for one in findings],
    }


def _rule(one: Finding) -> dict[str, Any]:
    help_uri = next((address for one in one.references if (address := link(one))), None)
    return {
        "id": one.rule,
        "shortDescription": {"text": one.title},
        "fullDescription": {"text": one.summary or one.title},
        "help": {"text": _help(one), "markdown": _help_markdown(one)},
        **({"helpUri": help_uri} if help_uri else {}),
        "defaultConfiguration": {"level": LEVELS[one.severity]},
        "properties": {"tags": [one.effect, one.kind]},
    }


def _help(one: Finding) -> str:
    fixes = [f"Fix: {fix.command} (risk {fix.risk})" for fix in one.fixes]
    return "\n".join([one.summary or one.title, *fixes])


def _help_markdown(one: Finding) -> str:
    fixes = [f"- fix: {markup.code(fix.command)} (risk {fix.risk})" for fix in one.fixes]
    return "\n".join([markup.plain(one.summary or one.title), "", *fixes]).rstrip()


def _result(one: Finding, index: int) -> dict[str, Any]:
    places = _locations(one.evidence)
    return {
        "ruleId": one.rule,
        "ruleIndex": index,
        "level": LEVELS[one.severity],
        "message": {"text": f"{one.title} ({one.confidence:.0%}). {one.summary}".strip()},
        "locations": places[:1],
        "relatedLocations": [{**place, "id": number} for number, place in enumerate(places[1:], 1)],
        "partialFingerprints": {"ruleAndLine/v1": _fingerprint(one)},
        "rank": round(100 * one.confidence, 1),
        "properties": {
            "confidence": one.confidence,
            "effect": one.effect,
            "role": one.role,
            **({"becauseOf": one.because_of} if one.because_of else {}),
        },
    }


def _locations(places: Sequence[Evidence]) -> list[dict[str, Any]]:
    return [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": uri(place)},
                "region": {
                    "startLine": place.line,
                    "endLine": max(place.line, place.end_line),
                    "snippet": {"text": place.text},
                },
            }
        }
        for place in places
    ]


def uri(place: Evidence) -> str:
    """A file's address: relative as it was named, or absolute; of a host: with its name as authority."""
    file = file_of(place.document)
    if place.host:
        return f"file://{quote(place.host, safe='')}/{quote(file.lstrip('/'))}"
    if PurePosixPath(file).is_absolute():
        return f"file://{quote(file)}"
    # A colon in the first segment would read as a scheme.
    return quote(file, safe="/")


def _fingerprint(one: Finding) -> str:
    """The same for the same rule and wording, wherever in the file the line has moved to."""
    words = [one.rule, *(place.text.partition("\n")[0] for place in one.evidence[:1])]
    return hashlib.sha256("\n".join(words).encode("utf-8", "replace")).hexdigest()[:32]


def _invocation(diagnosis: Diagnosis) -> dict[str, Any]:
    notes = list(_notifications(diagnosis))
    return {
        "executionSuccessful": not diagnosis.unreadable,
        **({"toolExecutionNotifications": notes} if notes else {}),
    }


def _notifications(diagnosis: Diagnosis) -> Iterator[dict[str, Any]]:
    for text in diagnosis.unreadable:
        yield {"level": "error", "message": {"text": text}}
    for text in diagnosis.notes:
        yield {"level": "note", "message": {"text": text}}
