"""What several outlets say alike."""

import re

from diagnoser.inference.diagnose import NO_KNOWN_CAUSE
from diagnoser.inference.diagnosis import Diagnosis

_PART = re.compile(r"#\d+ \([^()]*\)$")
_THREAD = re.compile(r"([\w.-]{1,60}/[\w.-]{1,100})#(\d{1,9})")


def headline(diagnosis: Diagnosis) -> str:
    """The answer in one line, with its probability where there is one."""
    causes = diagnosis.causes
    if causes:
        more = f" (and {len(causes) - 1} more)" if len(causes) > 1 else ""
        return f"{causes[0].title}, {causes[0].confidence:.0%}{more}"
    if is_well(diagnosis):
        return "Nothing wrong found"
    return NO_KNOWN_CAUSE.capitalize()


def is_well(diagnosis: Diagnosis) -> bool:
    """Whether a server said that it serves, and nothing speaks against it."""
    return diagnosis.server == "ready" and not diagnosis.causes and not diagnosis.unknown


def source(diagnosis: Diagnosis) -> str:
    """Where it was seen: the host that most documents name, else the first document, else the tool."""
    for document in diagnosis.coverage:
        if document.host:
            return document.host
    return file_of(diagnosis.coverage[0].document) if diagnosis.coverage else "diagnoser"


def file_of(document: str) -> str:
    """The file (or paste) that holds a document: "a.log#2 (nvidia-smi table)" is in a.log."""
    return _PART.sub("", document)


def link(reference: str) -> str | None:
    """An address for a reference of a rule: itself, or the thread it names (``owner/repo#1``)."""
    if reference.startswith(("https://", "http://")):
        return reference.split(maxsplit=1)[0]
    thread = _THREAD.match(reference)
    return f"https://github.com/{thread.group(1)}/issues/{thread.group(2)}" if thread else None


def cut(text: str, most: int) -> str:
    """At most so many characters."""
    return text if len(text) <= most else text[: most - 3].rstrip() + "..."
