"""The walk of an engineer on call over one machine: look, judge, ask what would decide, look there, judge again."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from diagnoser.agent.session import Options, Progress, Read, read_sources
from diagnoser.inference.catalog import Catalog
from diagnoser.inference.diagnose import Judged, judge_readings
from diagnoser.inference.diagnosis import Question, Step
from diagnoser.inference.lacks import LACKS
from diagnoser.sources import Source, Unreadable
from diagnoser.sources.hosts.bundle import Seen
from diagnoser.sources.hosts.channel import ChannelError
from diagnoser.sources.hosts.collect import NEEDED, Collector, Item, Row, probes_for, sources
from diagnoser.sources.hosts.readonly import ReadOnlyHost

MAX_STEPS = 8
SURE = 0.9
"""A leading cause as likely as this, with nothing of it left to check, needs no further look."""

_SHOWN_BY: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"nvidia-smi topo|topology", re.I), ("topology",)),
    (re.compile(r"nvidia-smi nvlink"), ("nvlink",)),
    (re.compile(r"nvidia-smi (?:dmon|pmon|--query)|-l 1|-lms"), ("gpu-samples",)),
    (re.compile(r"nvidia-smi"), ("gpu", "gpu-full")),
    (re.compile(r"dmesg|journalctl -k|kern\.log"), ("kernel",)),
    (re.compile(r"\bpip\b|python3? -c|collect_env|check_env|importlib"), ("packages",)),
    (re.compile(r"config\.json"), ("model",)),
    (re.compile(r"lscpu|/sys/|/proc/|df -h|ulimit|free -|cpu\.max|nproc"), ("host", "limits")),
    (re.compile(r"server_info"), ("server-info",)),
    (re.compile(r"/metrics"), ("metrics",)),
    (re.compile(r"\blog\b"), ("log",)),
)
"""The command of a question -> the probes that answer it."""


class Investigation(NamedTuple):
    """What came of one machine. error: why it could not be looked at; judged is None then."""

    host: str
    judged: Judged | None
    collector: Collector | None = None
    items: Sequence[Item] = ()
    error: str | None = None


Asked = Callable[[Question, Sequence[str]], bool]
"""Asks the user whether a question may be answered by these probes."""


def literals(catalog: Catalog) -> bytes:
    """What the lines of a log that matter are found by, one a line: those of messages and of line parsers."""
    found = {wording.literal.encode() for wording in catalog.pack.wordings}
    for target, literal in zip(catalog.targets, catalog.literals, strict=True):
        if any(not handle.block for handle in target.parsers):
            found.add(literal)
    return (
        b"\n".join(sorted(literal for literal in found if literal.strip() and b"\n" not in literal)) + b"\n"
    )


def investigate(
    host: ReadOnlyHost,
    catalog: Catalog,
    options: Options,
    *,
    logs: Sequence[str] = (),
    fast: bool = False,
    beside: Sequence[Source | Unreadable] = (),
    thrifty: bool = False,
    ask: Asked | None = None,
    told: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> Investigation:
    """Look at a machine until the cause is clear or nothing is left to look at.

    fast: begin with what is always needed and look further only where a question asks for it. beside: further
    documents, such as files the user gave. thrifty: it is one of many machines. Raises `ChannelError` when the
    machine cannot be asked.
    """
    collector = Collector(host, literals(catalog), logs, told, thrifty=thrifty)
    items = collector.look(NEEDED if fast or ask else None)
    read = read_sources([*beside, *sources(items)], catalog, options, progress)
    judged = _judge(read, host.name, collector.rows, catalog, options)
    steps: list[Step] = []
    while len(steps) < MAX_STEPS and not _decided(judged):
        next_one = _next(judged, collector)
        if next_one is None:
            break
        question, probes = next_one
        if ask is not None and not ask(question, probes):
            collector.skip(probes)
            continue
        before = judged
        more = collector.look(probes)
        items = [*items, *more]
        again = read_sources(sources(more), catalog, options, progress)
        read = Read([*read.readings, *again.readings], [*read.unreadable, *again.unreadable])
        judged = _judge(read, host.name, collector.rows, catalog, options)
        steps.append(_step(question, probes, before, judged, answered=bool(more)))
    judged.diagnosis.steps = steps
    return Investigation(host.name, judged, collector, items)


def revisit(seen: Seen, catalog: Catalog, options: Options) -> Investigation:
    """The diagnosis of what was seen of a machine earlier. Raises `ChannelError` when that was nothing."""
    if seen.error is not None:
        raise ChannelError(seen.error)
    read = read_sources(sources(seen.items), catalog, options)
    return Investigation(seen.host, _judge(read, seen.host, seen.rows, catalog, options), None, seen.items)


def _judge(read: Read, host: str, rows: Sequence[Row], catalog: Catalog, options: Options) -> Judged:
    unread = [f"{host}:{row.document}: {row.error}" for row in rows if row.error and not row.size_bytes]
    return judge_readings(
        read.readings,
        catalog.pack,
        launch=options.launch,
        unreadable=[*read.unreadable, *unread],
        with_facts=options.with_facts,
    )


def _decided(judged: Judged) -> bool:
    causes = judged.diagnosis.causes
    return bool(causes) and causes[0].confidence >= SURE and not causes[0].unchecked


def _next(judged: Judged, collector: Collector) -> tuple[Question, list[str]] | None:
    """The question that decides most and that a probe not yet run can answer."""
    for question in judged.diagnosis.questions:
        probes = [probe for probe in answering(question) if probe not in collector.seen]
        if probes:
            return question, probes
    return None


def answering(question: Question) -> list[str]:
    """The probes whose output answers a question."""
    for kind, lack in LACKS.items():
        if lack.command == question.command:
            kinds = [other for other, same in LACKS.items() if same is lack]
            return probes_for(kinds) or probes_for([kind])
    return next((list(probes) for pattern, probes in _SHOWN_BY if pattern.search(question.command)), [])


def _step(
    question: Question, probes: Sequence[str], before: Judged, after: Judged, *, answered: bool
) -> Step:
    rivals = [f"{one.rule} ({one.confidence:.0%})" for one in before.diagnosis.roots[:2]]
    because = f"it decides {', '.join(question.decides[:3])}"
    if len(rivals) == 2:
        because += f"; {rivals[0]} and {rivals[1]} were both possible"
    if not answered:
        outcome = "there was no answer"
    else:
        first = after.diagnosis.roots[0] if after.diagnosis.roots else None
        was = before.diagnosis.roots[0] if before.diagnosis.roots else None
        if first is None:
            outcome = "nothing is left of what was possible"
        elif was is not None and first.rule == was.rule:
            change = f"{was.confidence:.0%} before, {first.confidence:.0%} now"
            outcome = f"{first.rule} stays first ({change})"
        else:
            outcome = f"it decided for {first.rule} ({first.confidence:.0%})"
    return Step(question=question.question, probes=list(probes), because=because, outcome=outcome)
