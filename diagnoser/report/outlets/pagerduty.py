"""A diagnosis as an event of PagerDuty's Events API v2."""

import hashlib
import json
import os
from datetime import UTC, datetime
from typing import Any

from diagnoser.inference.diagnosis import Diagnosis
from diagnoser.report.outlets.words import cut, headline, is_well, link, source
from diagnoser.sources import escaped

KEY = "PAGERDUTY_ROUTING_KEY"
"""The variable with the integration's key. It is sent and never shown."""

MAX_SUMMARY = 1024
SEVERITIES = {"critical": "critical", "high": "error", "medium": "warning", "low": "info", "info": "info"}


def render(diagnosis: Diagnosis) -> str:
    """The event as it is shown, with the name of the variable where the key will stand."""
    return escaped(json.dumps(event(diagnosis, f"${KEY}"), indent=2, ensure_ascii=False)) + "\n"


def posted(diagnosis: Diagnosis) -> str:
    """The event as it is sent to https://events.pagerduty.com/v2/enqueue. Raises ValueError without a key."""
    key = os.environ.get(KEY)
    if not key:
        raise ValueError(f"{KEY} must hold the integration's routing key")
    return json.dumps(event(diagnosis, key), ensure_ascii=False)


def event(diagnosis: Diagnosis, routing_key: str) -> dict[str, Any]:
    """One alert for each host or file: resolved where a server serves and nothing is wrong, else triggered."""
    where = source(diagnosis)
    base = {
        "routing_key": routing_key,
        "dedup_key": "diagnoser/" + hashlib.sha256(where.encode("utf-8", "replace")).hexdigest()[:32],
    }
    if is_well(diagnosis):
        return {**base, "event_action": "resolve"}
    summary = cut(f"{headline(diagnosis)} on {where}", MAX_SUMMARY)
    causes = diagnosis.causes
    if not causes:
        payload = {"summary": summary, "source": where, "severity": "warning"}
        return {**base, "event_action": "trigger", "payload": payload, "client": "diagnoser"}
    first = causes[0]
    at = next((place.at for place in first.evidence if place.at is not None), None)
    return {
        **base,
        "event_action": "trigger",
        "payload": {
            "summary": summary,
            "source": where,
            "severity": SEVERITIES[first.severity],
            "component": first.rule,
            "class": first.effect,
            **({"timestamp": datetime.fromtimestamp(at, UTC).isoformat()} if at is not None else {}),
            "custom_details": {
                "why": first.summary,
                "proof": [
                    f"{place.document}:{place.line}: {cut(place.text, 500)}" for place in first.evidence
                ],
                "fix": [f"{fix.command} (risk {fix.risk})" for fix in first.fixes],
                "also": [one.title for one in causes[1:]],
            },
        },
        "links": [
            {"href": address, "text": reference}
            for reference in first.references
            if (address := link(reference))
        ],
        "client": "diagnoser",
    }
