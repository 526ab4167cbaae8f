"""A diagnosis for the places people already work in: chat, tickets, pipelines, pagers, webhooks."""

from importlib import import_module
from typing import NamedTuple

from diagnoser.inference.diagnosis import Diagnosis

OUTLETS = ("slack", "github", "junit", "sarif", "pagerduty")
"""Formats, each a module here with ``render(diagnosis)``; the contract as JSON is the webhook's own."""


class Body(NamedTuple):
    """What is sent to a URL."""

    content: str
    media_type: str


def render(diagnosis: Diagnosis, outlet: str) -> str:
    """The text of one of `OUTLETS`, with a line end."""
    text: str = import_module(f"diagnoser.report.outlets.{outlet}").render(diagnosis)
    return text


def body(diagnosis: Diagnosis, outlet: str) -> Body:
    """What `--post` sends: of chat and tickets the JSON their services take, else the format itself.

    outlet: one of `OUTLETS`, or "json", the contract ``diagnoser/diagnosis/1``.
    """
    if outlet == "json":
        return Body(diagnosis.to_json() + "\n", "application/json")
    module = import_module(f"diagnoser.report.outlets.{outlet}")
    if outlet == "junit":
        return Body(module.render(diagnosis), "application/xml")
    if outlet == "sarif":
        return Body(module.render(diagnosis), "application/sarif+json")
    text: str = module.posted(diagnosis)
    return Body(text, "application/json")
