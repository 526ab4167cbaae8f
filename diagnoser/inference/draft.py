"""A first rule file from a pasted log line."""

import re
from bisect import bisect_left
from collections.abc import Container

import yaml
from pydantic import TypeAdapter, ValidationError

from diagnoser.inference.catalog import Catalog, build
from diagnoser.inference.generalise import WordingError, wording, words
from diagnoser.inference.reading import Reader
from diagnoser.inference.ruletest import judge_test
from diagnoser.inference.unwrapping import unwrapped
from diagnoser.parsers.prefix import read_prefix
from diagnoser.rulebook import template
from diagnoser.rulebook.compile import CAPTURE_TYPES, compile_pack
from diagnoser.rulebook.load import Loaded
from diagnoser.rulebook.models import Cause, Identifier
from diagnoser.rulebook.words import ENGINES
from diagnoser.sources import Source, printable
from diagnoser.sources.redaction import redact

MAX_LINE = 600
"""Letters of the line that the draft keeps as its example."""

_NOT_YAML = re.compile("[^\t -~\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MAX_ID_WORDS = 5
_MAX_ID = 60


class DraftError(ValueError):
    """A line no rule can be made of, with the reason."""


def draft(line: str, identifier: str | None = None, taken: Container[str] = ()) -> str:
    """YAML text with message, cause, a hit and a near-miss; it loads, and its tests pass. Raises `DraftError`.

    Colours, container prefixes and secrets are taken out of the line first. taken: ids that are in use.
    """
    hit = bare(line)
    prefix = read_prefix(hit)
    said = prefix.message.strip()
    if not said:
        raise DraftError("the line is empty")
    said = _printed(said, hit)
    try:
        written = wording(said, hit)
    except WordingError as error:
        raise DraftError(f"no message can be made of this line: {error}") from error
    rule = _valid(identifier) if identifier else _identifier(written, taken)
    engine = prefix.engine if prefix.engine in ENGINES and prefix.engine != "triton" else None
    text = _DRAFT.format(
        rule=rule,
        title=_quoted(said[:70].strip()),
        applies=f'\n  {engine}: "*"' if engine else " {}",
        message=f"{engine.replace('.', '')}.{rule}" if engine else rule,
        level=f"\n    level: {prefix.level.lower()}" if prefix.level else "",
        wording=_quoted(written),
        hit=hit,
        miss=_near_miss(said, written),
    )
    _try(text)
    return text


def bare(line: str) -> str:
    """One line as the parsers see it: no colours, no container prefix, secrets masked, of bounded length."""
    data = " ".join(line.splitlines()).encode("utf-8", "replace")
    text = b"".join(chunk.data for chunk in unwrapped(Source.from_bytes("line", data).chunks()))
    masked = bytearray(text)
    redact(masked)
    shown = printable(masked.decode("utf-8", "replace")).strip("\n")[:MAX_LINE].rstrip()
    return _NOT_YAML.sub("\ufffd", shown)


def said_by(line: str, catalog: Catalog) -> list[str]:
    """The ids of the messages that say this line already."""
    reader = Reader(catalog, "line")
    reader.feed(bare(line).encode() + b"\n", 1, last=True)
    return sorted(
        family.removeprefix("message:")
        for launch in reader.reading.launches.settled()
        for family in launch.facts.families
        if family.startswith("message:")
    )


def _printed(said: str, hit: str) -> str:
    """As much of the message as stands in the line as it is: JSON and logfmt have escapes and quotes."""
    length = bisect_left(range(len(said)), True, key=lambda at: said[: at + 1] not in hit)
    return said[:length] if 2 * length >= len(said) else hit.strip()


def _valid(identifier: str) -> str:
    try:
        return str(TypeAdapter(Identifier).validate_python(identifier))
    except ValidationError as error:
        raise DraftError(
            f"{identifier!r} is no id: small letters, digits and dots, joined by hyphens"
        ) from error


def _identifier(written: str, taken: Container[str]) -> str:
    chosen = list(words(written))[:_MAX_ID_WORDS]
    while len("-".join(chosen)) > _MAX_ID:
        chosen.pop()
    name = "-".join(chosen) or "new-rule"
    number = 1
    while (name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    return name if number == 1 else f"{name}-{number}"


def _near_miss(said: str, written: str) -> str:
    """The line cut in the middle of the text by which it is found."""
    literal = template.literal(template.parse(written, CAPTURE_TYPES))
    return said[: said.index(literal) + len(literal) // 2].strip() or literal[: len(literal) // 2]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _try(text: str) -> None:
    """Raises `DraftError` where the draft's own tests would fail."""
    cause = Cause.model_validate(yaml.safe_load(text))
    messages = [(message, "draft") for message in cause.messages]
    pack, _ = compile_pack(Loaded(messages, [(cause, "draft")], []), {})
    catalog = build(pack, naive=True)
    for test in cause.tests:
        judged, _ = judge_test(test, catalog)
        if test.fires != any(finding.rule == cause.id for finding in judged.diagnosis.findings):
            raise DraftError(
                "the line is read as part of a table or another document, so no message can say it; "
                "write a rule about the facts of that document (`diagnose rules docs` lists them)"
            )


_DRAFT = """\
id: {rule}
title: {title}
kind: cause                # cause, symptom or bystander
status: experimental       # stable once its tests and references are complete
effect: none               # what it does: startup_failure, decode_slower, ...
severity: info
applies:{applies}
when:
  all:
    - {{message: {message}}}
strength: medium
why: ''                    # the mechanism in one or two sentences
fixes: []                  # - {{set_flag: --x, value: y, risk: low}}
references: []             # a file and version, an issue, a capture
messages:
  - id: {message}{level}
    wordings:
      - text: {wording}
tests:
  - name: the pasted line
    log: |
      >! {hit}
    fires: true
  - name: another line that begins alike
    log: |
      {miss}
    fires: false
"""
