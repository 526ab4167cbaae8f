"""Readings -> Diagnosis: the judging half of the line from text to answer."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from diagnoser.facts.factbase import KEPT_FAMILIES, FactBase, Sighting, merge_all
from diagnoser.inference.candidates import Candidate, candidates
from diagnoser.inference.case import Case, interval
from diagnoser.inference.diagnosis import (
    Diagnosis,
    FactRead,
    Finding,
    GainText,
    ServerState,
    UnknownLine,
)
from diagnoser.inference.documents import Named, name_documents
from diagnoser.inference.echoes import echoes
from diagnoser.inference.evaluate import evaluate
from diagnoser.inference.fixes import fill, fix_text, read_values
from diagnoser.inference.launches import Launch
from diagnoser.inference.questions import questions
from diagnoser.inference.reading import Reading
from diagnoser.inference.resolve import FATAL, Ranked, is_known, resolve
from diagnoser.inference.servers import Chosen, Scored, combine, servers
from diagnoser.rulebook.pack import Pack
from diagnoser.sources import printable
from diagnoser.version import __version__

MAX_ODD = 5
NO_KNOWN_CAUSE = "no known cause"

_STATES: dict[bool | None, ServerState] = {True: "ready", False: "not ready", None: "not told"}


class Part(NamedTuple):
    """One server with all that is known around it: its case, what was held against it, and how it ranked.

    started: whether the server said that it is ready; None: its log does not tell. group: the texts it was read from.
    """

    case: Case
    found: list[Candidate]
    ranked: list[Ranked]
    started: bool | None
    broken: list[str]
    group: tuple[Chosen, ...] = ()


class Judged(NamedTuple):
    """What `explain` needs besides the diagnosis: the parts, the one with the leading finding first."""

    parts: list[Part]
    diagnosis: Diagnosis

    @property
    def found(self) -> list[Candidate]:
        return [candidate for part in self.parts for candidate in part.found]


def judge_readings(
    readings: Sequence[Reading],
    pack: Pack,
    *,
    launch: int | None = None,
    unreadable: Iterable[str] = (),
    extra: FactBase | None = None,
    with_facts: bool = True,
) -> Judged:
    """The diagnosis of all readings together.

    Each server's log is judged by itself, with everything that is no server's log beside it, so that two servers
    are never taken for one.

    launch: which launch of a log is diagnosed, counted from 1; None: the last. extra: facts known besides.
    with_facts: list the facts in the diagnosis; they cost time and only JSON shows them.
    """
    readings = sorted(readings, key=lambda reading: (reading.host or "", reading.name))
    notes: list[str] = []
    chosen = [Chosen(reading, _choose(reading, launch, notes)) for reading in readings]
    named = name_documents(readings)
    parts = [_judge(group, pack, named, extra) for group in servers(chosen)]
    parts.sort(key=lambda part: -max((item.score for item in part.ranked if item.role == "root"), default=0))
    overfull = sorted({kind for part in parts for kind in part.case.facts.overfull})
    notes += [
        f"more than {KEPT_FAMILIES} different {kind} were stated; the rest was not kept" for kind in overfull
    ]
    timeouts = [place for reading in readings for place in reading.timeouts]
    notes += [f"a pattern ran into its time limit at {place}" for place in timeouts]
    known = [item for part in parts for item in part.ranked if is_known(item, pack.causes)]
    found = [candidate for part in parts for candidate in part.found]
    diagnosis = Diagnosis(
        version=__version__,
        headline=headline(known, pack),
        server=server_state(parts),
        findings=combine([findings(part, pack, named) for part in parts])
        + [
            _engine_finding(text)
            for text in dict.fromkeys([*pack.problems, *(t for p in parts for t in p.broken)])
        ],
        unknown=_odd(readings, named),
        questions=questions(found, pack.causes, known=bool(known)),
        coverage=[document.read for document in named.documents],
        unreadable=sorted(unreadable),
        notes=notes,
        incomplete=bool(timeouts or overfull)
        or any(reading.skipped or reading.failed for reading in readings),
        facts=_facts(parts, named) if with_facts else [],
    )
    return Judged(parts, diagnosis)


def _judge(group: Sequence[Chosen], pack: Pack, named: Named, extra: FactBase | None) -> Part:
    started = _started([one.launch for one in group])
    return judge_case(_case(group, pack, named, extra), started, pack, tuple(group))


def judge_case(case: Case, started: bool | None, pack: Pack, group: tuple[Chosen, ...] = ()) -> Part:
    """All rules held against what is known of one server."""
    broken: list[str] = []
    found = candidates(pack, case, broken)
    ranked = resolve((one for one in found if one.fired), pack.causes, started=started)
    return Part(case, found, ranked, started, broken, group)


def findings(part: Part, pack: Pack, named: Named) -> list[Scored]:
    """What is told of a part, by rank."""
    scored = [Scored(_finding(item, pack, named, part.case), item.score) for item in part.ranked]
    shown = {place.place for item in part.ranked for place in item.candidate.evidence}
    leading = part.ranked[0] if part.ranked else None
    if leading is None or leading.role != "root" or scored[0].finding.effect not in FATAL:
        return scored
    later = echoes(part.case, named, shown, leading.candidate.evidence, leading.candidate.rule)
    return scored + [Scored(echo, 0.0) for echo in later]


def server_state(parts: Sequence[Part]) -> ServerState:
    """Not ready when one server is not; ready when all that tell are."""
    told = [part.started for part in parts if part.started is not None]
    return _STATES[all(told) if told else None]


def _choose(reading: Reading, launch: int | None, notes: list[str]) -> Launch | None:
    settled = reading.launches.settled()
    if not settled:
        return None
    count = reading.launches.count
    number = count if launch is None else launch
    index = number - 1 - (count - len(settled))
    if not 0 <= index < len(settled):
        notes.append(f"{reading.name}: launch {number} is not kept; the last of {count} is diagnosed")
        index, number = len(settled) - 1, count
    if count > 1:
        lines = f"lines {settled[index].first_line} to {settled[index].last_line}"
        which = "the last" if number == count else f"number {number}"
        notes.append(
            f"{reading.name}: the server was started {count} times; {which} start is diagnosed ({lines})"
        )
    return settled[index]


def _case(group: Sequence[Chosen], pack: Pack, named: Named, extra: FactBase | None) -> Case:
    bases = [reading.state for reading, _ in group]
    spans: dict[str, list[tuple[str | None, str | None]]] = {}
    for reading, launch in group:
        if launch is None:
            continue
        bases.append(launch.facts)
        bases.append(series_facts(reading, launch))
        for number in launch.wordings:
            wording = pack.wordings[number]
            engine = pack.messages[wording.message].engine
            if engine is not None:
                spans.setdefault(engine, []).append((wording.since, wording.until))
    if extra is not None:
        bases.append(extra)
    return Case(
        merge_all(bases),
        named.kinds,
        intervals={engine: interval(seen, pack.releases.get(engine, ())) for engine, seen in spans.items()},
        last_at={reading.name: reading.last_at for reading, _ in group if reading.last_at is not None},
    )


def series_facts(reading: Reading, launch: Launch) -> FactBase:
    """The statistics of a launch's series as facts, each with the line that shows it."""
    base = FactBase()
    for stat, line, text in launch.series.facts():
        base.add(stat, Sighting(reading.name, line, line, printable(text)))
    return base


def _started(chosen: Sequence[Launch | None]) -> bool | None:
    marks = [launch.marks for launch in chosen if launch is not None]
    if any(mark["ready"] for mark in marks):
        return True
    return False if any(mark["opens"] or mark["exit"] for mark in marks) else None


def _finding(item: Ranked, pack: Pack, named: Named, case: Case) -> Finding:
    candidate, cause = item.candidate, pack.causes[item.candidate.rule]
    values = read_values(candidate.facts)
    return Finding(
        rule=candidate.rule,
        title=fill(cause["title"], values),
        kind=cause["kind"],
        role=item.role,
        effect=cause["effect"],
        severity=candidate.severity,
        confidence=round(candidate.confidence, 2),
        summary=fill(cause["why"] or cause["title"], values),
        evidence=[named.evidence(place) for place in candidate.evidence],
        fixes=[
            fix_text(fix, values)
            for fix in cause["fixes"]
            if "when" not in fix or evaluate(fix["when"], case).yes
        ],
        gain=GainText(**cause["gain"]) if cause.get("gain") else None,
        because_of=item.because_of,
        unchecked=list(candidate.missing),
        references=cause["references"],
    )


def _engine_finding(text: str) -> Finding:
    return Finding(
        rule="bad-rule",
        title="A rule could not be used",
        kind="engine",
        role="bystander",
        effect="none",
        severity="info",
        confidence=1.0,
        summary=text,
    )


def headline(known: Sequence[Ranked], pack: Pack) -> str:
    """The title of the leading finding."""
    if not known:
        return NO_KNOWN_CAUSE
    first = known[0].candidate
    return fill(str(pack.causes[first.rule]["title"]), read_values(first.facts))


def _odd(readings: Sequence[Reading], named: Named) -> list[UnknownLine]:
    rare = [odd for reading in readings for odd in reading.odd.rarest(MAX_ODD)]
    rare.sort(key=lambda odd: (odd.times, odd.source, odd.line))
    return [
        UnknownLine(
            document=named.document_at(odd.source, odd.line), line=odd.line, text=odd.text, count=odd.times
        )
        for odd in rare[:MAX_ODD]
    ]


def _facts(parts: Sequence[Part], named: Named) -> list[FactRead]:
    read: dict[tuple[str, int, str], FactRead] = {}
    for part in parts:
        for fact, sightings in part.case.facts.facts():
            place = sightings.first[0]
            one = FactRead(
                kind=fact.kind,
                fields=fact.model_dump(exclude_none=True),
                count=sightings.count,
                document=named.document_at(place.source, place.line),
                line=place.line,
            )
            read[one.document, one.line, f"{one.kind} {one.fields!r}"] = one
    return [read[key] for key in sorted(read)]
