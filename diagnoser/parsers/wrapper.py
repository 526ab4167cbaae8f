"""What containers, orchestrators and log daemons put around every line of a server's log.

A kind is found once from a sample of lines (`unwrap_kind`) and then taken off each line (`unwrap`). Wrappers
may be nested (kubectl around Ray): find and take off again until `unwrap_kind` gives None.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from diagnoser.facts.lazy import lazy
from diagnoser.parsers.stamp import MONTHS, UNKNOWN_YEAR, epoch, read_iso

Unwrapped = tuple[str, float | None]

MAX_JSON = 1 << 20
"""A longer line is not read as JSON."""

_CRI = lazy(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}(?:Z|[+-]\d\d:\d\d)) (?:stdout|stderr) ([FP])(?: |$)")
_KUBECTL_STAMP = lazy(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z ")
_TRACING_LEVEL = lazy(r" {0,3}(?:TRACE|DEBUG|INFO|WARN|ERROR) ")
_KUBECTL_POD = lazy(r"\[(?:pod/)?[a-z0-9][a-z0-9.\-]{0,252}/[a-z0-9][a-z0-9\-]{0,62}\] ?")
_COMPOSE = lazy(r"[A-Za-z0-9][\w.\-]{0,80} {1,60}\| ?")
_UNIT = r"[\w.\-]{1,64} [^\s:\[]{1,64}(?:\[\d{1,9}\])?: ?"
_JOURNAL = lazy(r"([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d:\d\d:\d\d)(?:\.(\d{1,9}))? " + _UNIT)
_JOURNAL_ISO = lazy(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?[+-]\d\d:?\d\d " + _UNIT)
_RAY = lazy(r"\([A-Za-z][\w:.\-]{0,80} pid=\d{1,9}(?:, ip=[\w.:\-]{1,64})(?:, [^()]{0,120})?\) ?")


def read_json(line: str) -> dict[str, Any] | None:
    """The line as a JSON object, or None."""
    if not line.startswith("{") or not line.rstrip().endswith("}") or len(line) > MAX_JSON:
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _docker_json(line: str, _year: int) -> Unwrapped | None:
    record = read_json(line)
    if record is None or not isinstance(record.get("log"), str) or "stream" not in record:
        return None
    stamp = record.get("time")
    at = (read_iso(stamp) or (None, 0))[0] if isinstance(stamp, str) else None
    return record["log"].rstrip("\r\n"), at


def _journal_json(line: str, _year: int) -> Unwrapped | None:
    record = read_json(line)
    if record is None or "__REALTIME_TIMESTAMP" not in record:
        return None
    text = record.get("MESSAGE")
    if isinstance(text, list):
        text = bytes(byte for byte in text if isinstance(byte, int) and 0 <= byte < 256).decode(
            errors="replace"
        )
    stamp = str(record["__REALTIME_TIMESTAMP"])
    at = int(stamp) / 1e6 if stamp.isascii() and stamp.isdigit() and len(stamp) <= 17 else None
    return (text, at) if isinstance(text, str) else None


def _cri(line: str, _year: int) -> Unwrapped | None:
    match = _CRI.match(line)
    if match is None:
        return None
    return line[match.end() :], (read_iso(line) or (None, 0))[0]


def _kubectl_stamp(line: str, _year: int) -> Unwrapped | None:
    match = _KUBECTL_STAMP.match(line)
    if match is None or _TRACING_LEVEL.match(line, match.end() - 1):
        return None
    return line[match.end() :], (read_iso(line) or (None, 0))[0]


def _strip(pattern: re.Pattern[str]) -> Callable[[str, int], Unwrapped | None]:
    def unwrapper(line: str, _year: int) -> Unwrapped | None:
        match = pattern.match(line)
        return match and (line[match.end() :], None)

    return unwrapper


def _journal(line: str, year: int) -> Unwrapped | None:
    match = _JOURNAL.match(line)
    if match is None or match[1] not in MONTHS:
        return None
    at = epoch(year, MONTHS[match[1]], int(match[2]), match[3], match[4])
    return line[match.end() :], at


def _journal_iso(line: str, _year: int) -> Unwrapped | None:
    match = _JOURNAL_ISO.match(line)
    return match and (line[match.end() :], (read_iso(line) or (None, 0))[0])


_KINDS: dict[str, Callable[[str, int], Unwrapped | None]] = {
    "docker-json": _docker_json,
    "journal-json": _journal_json,
    "cri": _cri,
    "kubectl-timestamps": _kubectl_stamp,
    "kubectl-prefix": _strip(_KUBECTL_POD),
    "journal-short": _journal,
    "journal-short-iso": _journal_iso,
    "ray": _strip(_RAY),
    "compose": _strip(_COMPOSE),
}
"""Kinds in the order of trial: the strictest shapes first."""

_SHARE = 0.6
"""Of the sampled lines that must have the shape: kubectl and Ray leave lines of their own in between."""


def unwrap_kind(sample_lines: Iterable[str]) -> str | None:
    """The wrapper around most of these lines, or None.

    docker-json: json-file driver; cri: containerd's files; kubectl-timestamps: also ``docker logs -t``;
    kubectl-prefix: ``kubectl logs --prefix``; compose: ``name-1  | text``; journal-*: journalctl's outputs;
    ray: ``(Name pid=1, ip=1.2.3.4) ``.

    >>> unwrap_kind(["sglang-1  | [2026-02-27 15:17:28] server_args=..."])
    'compose'
    """
    lines = [line for line in sample_lines if line.strip()]
    for kind, unwrapper in _KINDS.items():
        if lines and sum(unwrapper(line, UNKNOWN_YEAR) is not None for line in lines) >= _SHARE * len(lines):
            return kind
    return None


def unwrap(kind: str, line: str, year: int | None = None) -> Unwrapped:
    """The line without its wrapper, and the wrapper's time; unchanged when it does not have the shape.

    >>> unwrap("cri", "2026-03-02T09:14:07.5Z stderr F INFO: hello")
    ('INFO: hello', 1772442847.5)
    """
    return _KINDS[kind](line, UNKNOWN_YEAR if year is None else year) or (line, None)


def is_partial(kind: str, line: str) -> bool:
    """Whether the next line of the same stream continues this one (CRI's P, docker's missing newline)."""
    if kind == "cri":
        match = _CRI.match(line)
        return match is not None and match[2] == "P"
    if kind == "docker-json":
        record = read_json(line)
        text = record.get("log") if record else None
        return isinstance(text, str) and not text.endswith("\n")
    return False
