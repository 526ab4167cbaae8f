"""Results on their way into the history and out of it again."""

import json
import math
import platform
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from diagnoser.agent.session import CallError, Options, catalog_of, run_sources
from diagnoser.compare.history.entry import Entry, Kept, Service
from diagnoser.compare.history.store import History, HistoryError, default_path
from diagnoser.compare.regression import Side
from diagnoser.compare.speeds import main_speed
from diagnoser.experiment.comparison import PRIMARY
from diagnoser.experiment.measured import Measured, measured_of
from diagnoser.experiment.past import Past, against_past
from diagnoser.experiment.results import Benchmark
from diagnoser.facts.engine import Model
from diagnoser.facts.factbase import FactBase, merge_all
from diagnoser.inference import kept
from diagnoser.inference.diagnose import Judged
from diagnoser.sources import Source
from diagnoser.sources.redaction import redact

PREFIX = "history:"


class Told(NamedTuple):
    """What the user says of a result where it does not tell by itself."""

    name: str | None = None
    host: str | None = None
    model: str | None = None
    workload: str | None = None


NOTHING = Told()


def of_diagnosis(judged: Judged, told: Told = NOTHING) -> Entry:
    """A diagnosis as it is kept: its facts, so that later rules can judge it again.

    Raises `CallError` where nothing was understood that a later comparison could use.
    """
    facts = merge_all(part.case.facts for part in judged.parts)
    speed = main_speed(facts)
    stamps = [at for part in judged.parts for at in part.case.last_at.values()]
    engine, version = next(
        (pair for part in judged.parts for pair in part.case.engines.items()), (None, None)
    )
    if not facts:
        names = ", ".join(read.document for read in judged.diagnosis.coverage[:3])
        raise CallError(f"{names}: nothing in it was understood, so nothing is kept")
    hosts = [read.host for read in judged.diagnosis.coverage if read.host]
    return Entry(
        at=max(stamps, default=time.time()),
        kind="diagnosis",
        name=told.name,
        host=told.host or next(iter(hosts), None),
        model=told.model or _model(facts),
        workload=told.workload or (speed.load if speed else None),
        engine=engine,
        version=version,
        metric=speed.metric if speed else None,
        value=speed.median if speed else None,
        values=[speed.median] if speed else [],
        causes=[finding.rule for finding in judged.diagnosis.causes],
        judged=kept.as_plain(judged),
    )


def _model(facts: FactBase) -> str | None:
    """The last part of the path, which is the same on every machine; else the class."""
    models = [fact for fact, _ in facts.of("model") if isinstance(fact, Model)]
    paths = [one.path.rstrip("/").rsplit("/", 1)[-1] for one in models if one.path]
    classes = [one.architecture for one in models if one.architecture]
    return next(iter([*paths, *classes]), None)


def of_benchmark(
    measured: Sequence[Measured], at: float, told: Told = NOTHING, judged: Judged | None = None
) -> Entry:
    """Benchmark results as they are kept, with what is known of the server. Raises `CallError` where they hold no
    figure."""
    first = measured[0]
    metric = next((one for one in PRIMARY if any(one in run for run in first.runs)), None)
    if metric is None:
        raise CallError(f"{first.file}: it holds no figure that can be kept")
    values = [run[metric] for one in measured for run in one.runs if metric in run]
    model = first.identity.get("model")
    return Entry(
        at=at,
        kind="benchmark",
        name=told.name,
        host=told.host or _host(first.identity.get("url")),
        model=told.model or (str(model).rstrip("/").rsplit("/", 1)[-1] if model else None),
        workload=told.workload or _workload(first.workload),
        engine=_text(first.identity.get("engine")),
        version=_text(first.identity.get("version")),
        metric=metric,
        value=sum(values) / len(values),
        values=values,
        causes=[finding.rule for finding in judged.diagnosis.causes] if judged else [],
        judged=kept.as_plain(judged) if judged else None,
        measured=[
            {
                "file": one.file,
                "tool": one.tool,
                "runs": [dict(run) for run in one.runs],
                "identity": _masked(one.identity),
                "workload": dict(one.workload),
                "flags": list(one.flags),
            }
            for one in measured
        ],
    )


def of_result(result: Benchmark) -> tuple[Measured, float, str]:
    """A result of `diagnose bench`: as the importers read it, when it was measured, and on which host."""
    host = urlsplit(result.identity.url).hostname or "local"
    if host in ("localhost", "::1") or host.startswith("127."):
        host = platform.node() or "local"
    at = datetime.fromisoformat(result.started_at)
    return (
        measured_of("bench", result),
        (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp(),
        host,
    )


def server_info(measured: Sequence[Measured]) -> list[Source]:
    """What benchmark results copied of their server's options, as a text that is read like the server's own answer."""
    found = []
    for one in measured:
        said = {name: value for name, value in one.identity.items() if not name.endswith("_gen_throughput")}
        if "tp_size" in said and one.identity.get("model"):
            text = json.dumps({"model_path": said.pop("model"), **said})
            found.append(Source.from_bytes(f"{one.file} (server info)", f"{text}\n".encode()))
    return found[:1]


def judge_server_info(measured: Sequence[Measured]) -> Judged | None:
    """What the rules say of the options of a benchmark's server; None where the result does not hold them."""
    sources = server_info(measured)
    judged = run_sources(sources) if sources else []
    return None if isinstance(judged, list) else judged


def _workload(load: Mapping[str, Any]) -> str | None:
    def number(name: str) -> str | None:
        value = load.get(name)
        return f"{value:.0f}" if isinstance(value, int | float) and math.isfinite(value) else None

    at_once, rate = number("concurrency"), load.get("rate_per_s")
    asked, given = number("prompt_tokens"), number("output_tokens")
    words = []
    if at_once:
        words.append(f"{at_once} stream{'s' * (at_once != '1')}")
    elif rate:
        words.append(f"{rate:g} requests/s")
    if asked and given:
        words.append(f"{asked}+{given} tokens")
    return ", ".join(words) or None


def _host(url: object) -> str | None:
    return urlsplit(str(url)).hostname if url else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _masked(identity: Mapping[str, Any]) -> dict[str, Any]:
    """What a tool copied from the server's options may hold a key."""
    masked = {}
    for name, value in identity.items():
        line = bytearray(f"--{name}={value}".encode())
        redact(line)
        masked[name] = value if line == f"--{name}={value}".encode() else "<redacted>"
    return masked


def keep(entry: Entry) -> tuple[int, Past]:
    """Keep a result; its number, and what it is against those before it. Raises `CallError`."""
    try:
        history = History(default_path())
        number = history.add(entry)
        return number, past_of(history.all(entry.service), number)
    except HistoryError as error:
        raise CallError(str(error)) from error


def past_of(series: Sequence[Kept], number: int) -> Past:
    """An entry of one service against those before it that measured the same."""
    (entry,) = [one.entry for one in series if one.number == number]
    same = [one for one in series if one.entry.metric == entry.metric and one.entry.values]
    until = [one.entry.values for one in same if (one.entry.at, one.number) <= (entry.at, number)]
    return against_past(entry.metric or "", until)


def side(reference: str, like: Service | None, options: Options) -> tuple[Side, list[Measured]]:
    """``history:14``, ``history:NAME``, or ``history:`` for the baseline of a service. Raises `CallError`."""
    found = find(reference, like)
    label = f"{PREFIX}{found.number}" + (f" ({found.entry.name})" if found.entry.name else "")
    try:
        measured = [
            Measured(**{**one, "runs": tuple(one["runs"]), "flags": tuple(one["flags"])})
            for one in found.entry.measured
        ]
        if found.entry.judged is None:
            return Side(label, None, FactBase()), measured
        judged = kept.judge_again(found.entry.judged, catalog_of(options).pack)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise CallError(f"{label}: what was kept cannot be read: {error}") from error
    return Side(label, judged, merge_all(part.case.facts for part in judged.parts)), measured


def find(reference: str, like: Service | None = None) -> Kept:
    """The kept result that is meant. Raises `CallError`."""
    wanted = reference.removeprefix(PREFIX)
    try:
        history = History(default_path())
        if wanted:
            found = history.get(int(wanted)) if re.fullmatch(r"\d{1,15}", wanted) else None
            found = found or next(reversed(history.all(name=wanted)), None)
        else:
            found = history.baseline(like) if like is not None else None
    except HistoryError as error:
        raise CallError(str(error)) from error
    if found is None and not wanted:
        raise CallError(
            f"no baseline is set for {like}; see `diagnose history` and `diagnose history baseline N`"
        )
    if found is None:
        raise CallError(f"{reference}: nothing of that name or number is kept; see `diagnose history`")
    return found


def is_kept(path: str) -> bool:
    """Whether an argument means the history: by its prefix, or as a name that is kept and no file."""
    if path.startswith(PREFIX):
        return True
    if Path(path).exists() or any(character in path for character in "*?[") or path == "-":
        return False
    try:
        return bool(History(default_path()).all(name=path))
    except HistoryError:
        return False
