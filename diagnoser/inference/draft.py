"""A first rule file from a pasted log line."""

import re

from diagnoser.parsers.prefix import read_prefix
from diagnoser.rulebook import template
from diagnoser.rulebook.compile import CAPTURE_TYPES

_VARIABLE = re.compile(
    r"(?P<version>\d+(?:\.\d+){2,})|(?P<number>\d+\.\d+)|(?P<path>(?:/[\w.@+-]+){2,})|(?P<int>\b\d+\b)"
)
_TYPES = {"version": ":name", "number": ":float", "path": ":word", "int": ":int"}


class DraftError(ValueError):
    """A line no rule can be made of, with the reason."""


def draft(line: str, identifier: str | None = None) -> str:
    """YAML text: message, cause, a hit and a near-miss. Raises `DraftError`."""
    stripped = line.strip("\r\n")
    prefix = read_prefix(stripped)
    text = prefix.message.strip() or stripped.strip()
    if not text:
        raise DraftError("the line is empty")
    wording = _wording(text)
    try:
        template.literal(template.parse(wording, CAPTURE_TYPES))
    except template.TemplateError as error:
        raise DraftError(f"no message can be made of this line: {error}") from error
    rule = identifier or _identifier(text)
    engine = prefix.engine if prefix.engine in ("sglang", "vllm") else None
    quoted = text.replace("'", "''")
    return _DRAFT.format(
        rule=rule,
        title=text[:70].replace("'", "''"),
        applies=f'  {engine}: "*"' if engine else "  {}",
        message=f"{engine + '.' if engine else ''}{rule}",
        wording=wording.replace("'", "''"),
        hit=stripped,
        miss=quoted.replace("''", "'")[: max(8, len(text) // 3)],
    ).replace("applies:\n  {}", "applies: {}")


def _wording(text: str) -> str:
    escaped = text.replace("<", "\\<")
    count = 0

    def capture(found: re.Match[str]) -> str:
        nonlocal count
        count += 1
        kind = found.lastgroup or "int"
        return f"<{kind}{count}{_TYPES[kind]}>"

    return _VARIABLE.sub(capture, escaped)


def _identifier(text: str) -> str:
    words = re.findall(r"[a-z]{3,}", text.lower())
    return "-".join(words[:5]) or "new-rule"


_DRAFT = """\
id: {rule}
title: '{title}'
kind: cause                # cause, symptom or bystander
status: experimental       # stable once its tests and references are complete
effect: none               # what it does: startup_failure, decode_slower, ...
severity: info
applies:
{applies}
when:
  all:
    - {{message: {message}}}
strength: medium
why: ''                    # the mechanism in one or two sentences
fixes: []                  # - {{set_flag: --x, value: y, risk: low}}
references: []             # a file and version, an issue, a capture
messages:
  - id: {message}
    wordings:
      - text: '{wording}'
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
