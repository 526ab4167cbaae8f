"""Diagnoses that were kept, as JSON files or in the history, become the incidents of a digest."""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from diagnoser.agent.session import CallError, Options, catalog_of
from diagnoser.compare.attribution import gain_of
from diagnoser.compare.digest import Cause, Incident
from diagnoser.inference.diagnosis import SCHEMA, Diagnosis, Finding
from diagnoser.inference.fixes import fix_text
from diagnoser.report.outlets.words import source
from diagnoser.sources import label

MAX_FILE = 64 << 20
HISTORY = "history:"
MAX_NOTES = 8


class Read(NamedTuple):
    """notes: sentences about what was no diagnosis, or has no time of its own."""

    incidents: list[Incident]
    notes: list[str]


def read(paths: Sequence[str], options: Options) -> Read:
    """Files, folders and ``history:``; the same diagnosis counts once. Raises `CallError` where there is none."""
    found: dict[str, Incident] = {}
    notes: list[str] = []
    for path in paths:
        if path == HISTORY:
            found |= _of_history(options)
            continue
        for file in _files(path):
            incident = _of_file(file, notes)
            if incident is not None:
                found.setdefault(*incident)
    if not found:
        nothing = f"{', '.join(paths)}: there is no diagnosis; diagnose -f json -o FILE writes them"
        raise CallError("; ".join(notes[:3]) or nothing)
    return Read(list(found.values()), _few(notes))


def _few(notes: list[str]) -> list[str]:
    more = len(notes) - MAX_NOTES
    return [*notes[:MAX_NOTES], f"and {more} more like these"] if more > 0 else notes


def _files(path: str) -> Iterator[Path]:
    top = Path(path)
    if top.is_dir():
        yield from sorted(file for file in top.rglob("*.json") if file.is_file())
    elif top.exists():
        yield top
    else:
        raise CallError(f"{path}: there is no such file or folder")


def _of_file(file: Path, notes: list[str]) -> tuple[str, Incident] | None:
    name = label(str(file))
    try:
        if file.stat().st_size > MAX_FILE:
            notes.append(f"{name}: it is larger than any diagnosis")
            return None
        data, written = file.read_bytes(), file.stat().st_mtime
    except OSError as error:
        notes.append(f"{name}: cannot be read: {error.strerror}")
        return None
    try:
        diagnosis = Diagnosis.model_validate_json(data)
    except ValidationError:
        diagnosis = None
    if diagnosis is None or diagnosis.schema_ != SCHEMA:
        notes.append(f"{name}: it is no diagnosis as `diagnose -f json` writes it")
        return None
    at = _time(diagnosis)
    if at is None:
        notes.append(f"{name}: its texts carry no times; the file's own time counts")
        at = written
    odd = bool(diagnosis.unknown) and not diagnosis.causes
    causes = tuple(_cause(one) for one in diagnosis.causes)
    return hashlib.blake2b(data, digest_size=16).hexdigest(), Incident(at, source(diagnosis), causes, odd)


def _time(diagnosis: Diagnosis) -> float | None:
    """When the leading cause showed, else the last time that any evidence carries."""
    for one in diagnosis.causes[:1]:
        for place in one.evidence:
            if place.at is not None:
                return place.at
    return max(
        (place.at for one in diagnosis.findings for place in one.evidence if place.at is not None),
        default=None,
    )


def _cause(one: Finding) -> Cause:
    gain = {"gain": one.gain.model_dump()} if one.gain else {}
    fix = one.fixes[0].command if one.fixes else None
    return Cause(one.rule, one.title, one.effect, one.severity, _lost(gain), fix)


def _lost(cause: Mapping[str, Any]) -> float | None:
    """The share of speed that a cause costs: a gain of 10.4 % undoes a loss of 9.4 %."""
    gain = cause.get("gain")
    effect = gain_of(cause, str(gain["metric"])) if gain else None
    return None if effect is None or effect <= 0 else -math.expm1(-effect)


def _of_history(options: Options) -> Iterator[tuple[str, Incident]]:
    from diagnoser.compare.history.store import History, HistoryError, default_path

    causes = catalog_of(options).pack.causes
    try:
        kept = History(default_path()).all()
    except HistoryError as error:
        raise CallError(str(error)) from None
    for one in kept:
        entry = one.entry
        if entry.kind == "diagnosis":
            named = tuple(_of_rule(rule, causes.get(rule)) for rule in entry.causes)
            yield entry.digest, Incident(entry.at, entry.host or entry.model or "not told", named)


def _of_rule(rule: str, cause: Mapping[str, Any] | None) -> Cause:
    if cause is None:
        return Cause(rule, rule, "none", "medium")
    fix = fix_text(cause["fixes"][0], {}).command if cause["fixes"] else None
    return Cause(rule, cause["title"], cause["effect"], cause["severity"], _lost(cause), fix)
