"""`--post URL`: the answer to a webhook, a chat, a pager or a ticket system."""

import argparse
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diagnoser.inference.diagnosis import Diagnosis

SECRET, AUTHORIZATION = "DIAGNOSER_POST_SECRET", "DIAGNOSER_POST_AUTHORIZATION"


def add(options: argparse.ArgumentParser) -> None:
    """The option."""
    options.add_argument(
        "--post",
        metavar="URL",
        help=f"send the answer there too, as JSON or as --format says; signed with ${SECRET}, with "
        f"${AUTHORIZATION} as its header",
    )


def check(options: argparse.Namespace) -> str | None:
    """The sentence why nothing can be sent as asked, before anything is read; None where it can."""
    if not options.post:
        return None
    from diagnoser.agent.post import PostError, check

    if options.format == "markdown":
        return "--post takes json, slack, github, junit, sarif and pagerduty; markdown is text for people"
    try:
        check(options.post)
    except PostError as error:
        return str(error)
    return None


def send(diagnosis: "Diagnosis", options: argparse.Namespace) -> str | None:
    """Send the answer; the sentence why it was not delivered, or None."""
    from diagnoser.agent.post import PostError, Secrets, post
    from diagnoser.report.outlets import OUTLETS, body

    secrets = Secrets(os.environ.get(SECRET) or None, os.environ.get(AUTHORIZATION) or None)
    try:
        content, media_type = body(diagnosis, options.format if options.format in OUTLETS else "json")
        post(options.post, content, media_type, secrets)
    except (PostError, ValueError) as error:
        return str(error)
    return None
