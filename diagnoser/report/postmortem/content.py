"""What a postmortem says, gathered from a diagnosis; the templates only lay it out."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from diagnoser.compare.regression import Regression
from diagnoser.facts.engine import Model
from diagnoser.facts.factbase import FactBase, merge_all
from diagnoser.inference.diagnose import Judged
from diagnoser.inference.diagnosis import Finding, Question, Step
from diagnoser.inference.ruled_out import RuledOut
from diagnoser.report.postmortem.chain import Link, chain
from diagnoser.report.postmortem.excerpt import Context, Excerpt, excerpts
from diagnoser.report.postmortem.impact import COST, impact
from diagnoser.report.postmortem.proof import Proof
from diagnoser.report.postmortem.timeline import Moment, Series, timeline

MAX_RULED_OUT = 12
MAX_PACKAGES = 40

_TOLD = {
    "engine": ("name", "version"),
    "model": ("path", "architecture", "quantization"),
    "gpu_set": ("count", "arch"),
    "driver": ("version",),
    "torch_build": ("version", "cuda", "cudnn"),
}


class Around(NamedTuple):
    """What a postmortem is told besides the diagnosis.

    call: the words of the command that gave the diagnosis. paths: what of the call are files here. context: the lines
    around the evidence. ruled_out: causes that were considered. proof: an experiment. regression: the comparison with a
    time when all was well.
    """

    call: Sequence[str]
    paths: Sequence[str] = ()
    context: Context = MappingProxyType({})
    ruled_out: Sequence[RuledOut] = ()
    proof: Proof | None = None
    regression: Regression | None = None


class Root(NamedTuple):
    """A cause, its evidence with the lines around it, and the commands that show each again."""

    finding: Finding
    excerpts: tuple[Excerpt, ...]
    commands: tuple[str, ...]


class Postmortem(NamedTuple):
    """All sections, in the order they are read."""

    title: str
    summary: tuple[str, str, str]
    impact: tuple[tuple[str, str], ...]
    moments: tuple[Moment, ...]
    roots: tuple[Root, ...]
    links: tuple[Link, ...]
    titles: Mapping[str, str]
    noted: tuple[tuple[str, str], ...]
    ruled_out: tuple[tuple[str, str], ...]
    prevention: tuple[str, ...]
    steps: tuple[Step, ...]
    questions: tuple[Question, ...]
    unchecked: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    documents: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    commands: tuple[str, ...]
    proof: Proof | None
    regression: Regression | None
    series: Series


def gather(judged: Judged, around: Around) -> Postmortem:
    """The whole postmortem; every sentence rests on a document, a rule or an experiment."""
    diagnosis = judged.diagnosis
    facts = merge_all(part.case.facts for part in judged.parts)
    causes = diagnosis.causes
    links = chain(diagnosis.findings)
    series = _series(judged)
    return Postmortem(
        title=causes[0].title if causes else "No known cause",
        summary=_summary(causes, facts, around.proof),
        impact=tuple(impact(judged, causes)),
        moments=tuple(timeline(judged, series, around.proof.moments if around.proof else ())),
        roots=tuple(_root(one, around) for one in causes),
        links=links,
        titles={one.rule: one.title for one in diagnosis.findings},
        noted=tuple(_noted(diagnosis.findings)),
        ruled_out=tuple(_ruled_out(judged, around.ruled_out))[:MAX_RULED_OUT],
        prevention=tuple(_prevention(causes)),
        steps=tuple(diagnosis.steps),
        questions=tuple(diagnosis.questions[:3]),
        unchecked=tuple(dict.fromkeys(lack for one in causes for lack in one.unchecked)),
        versions=tuple(_versions(facts)),
        documents=tuple((one.document, one.kind) for one in diagnosis.coverage),
        notes=(*diagnosis.notes, *diagnosis.unreadable),
        commands=(shlex.join(["diagnose", *around.call]),),
        proof=around.proof,
        regression=around.regression,
        series=series,
    )


def _series(judged: Judged) -> Series:
    """The decode speed of each server by minute."""
    return {
        chosen.reading.name: chosen.launch.series.minutes["decode_tok_s"].means()
        for part in judged.parts
        for chosen in part.group
        if chosen.launch is not None and "decode_tok_s" in chosen.launch.series.minutes
    }


def _summary(causes: Sequence[Finding], facts: FactBase, proof: Proof | None) -> tuple[str, str, str]:
    where = _where(facts)
    if not causes:
        return (
            f"{where}: the texts that were read show no cause that is known.",
            "What it cost is not told by them.",
            "The questions below would decide most.",
        )
    first = causes[0]
    more = f" (and {len(causes) - 1} more)" if len(causes) > 1 else ""
    cost = COST.get(first.effect, "the service suffered")
    gain = (
        f"; undoing it brought {first.gain.change} {first.gain.metric} elsewhere ({first.gain.where})"
        if first.gain
        else ""
    )
    fix = (
        f"The fix is: {first.fixes[0].command} (risk {first.fixes[0].risk})"
        if first.fixes
        else "No fix is known"
    )
    proved = (
        f"; an experiment says: {proof.words}" if proof else "; it has not been proved by an experiment yet"
    )
    return (
        f"{where}: {first.title}{more}, with a probability of {first.confidence:.0%}.",
        f"What it meant: {cost}{gain}.",
        f"{fix}{proved}.",
    )


def _where(facts: FactBase) -> str:
    engines = [
        f"{getattr(fact, 'name', '')} {getattr(fact, 'version', None) or ''}".strip()
        for fact, _ in facts.of("engine")
    ]
    models = [fact.path or fact.architecture for fact, _ in facts.of("model") if isinstance(fact, Model)]
    words = sorted(engines, key=len, reverse=True)[:1] + [model for model in models if model][:1]
    return " serving ".join(words) if words else "The machine"


def _root(one: Finding, around: Around) -> Root:
    found = tuple(excerpts(one.evidence, around.context))
    return Root(
        one, found, (shlex.join(["diagnose", "--explain", one.rule, *around.call]), *_shows(found, around))
    )


def _shows(found: Sequence[Excerpt], around: Around) -> Iterator[str]:
    """The commands that print the proving lines, of files that are there as they are."""
    for excerpt in found:
        if excerpt.document in around.paths:
            lines = "".join(f"{row.number}p;" for row in excerpt.rows if row.hit)
            yield shlex.join(["sed", "-n", lines.rstrip(";"), excerpt.document])


def _noted(findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """What is seen and no cause explains: worth knowing, and neither guilty nor harmless."""
    for one in findings:
        alone = one.role == "root" and one.severity == "info"
        if one.kind == "engine" or alone or (one.role == "bystander" and one.kind == "symptom"):
            yield one.title, one.summary


def _ruled_out(judged: Judged, considered: Sequence[RuledOut]) -> Iterator[tuple[str, str]]:
    found = {one.rule for one in judged.diagnosis.findings}
    for one in judged.diagnosis.findings:
        if one.role == "bystander" and one.kind == "bystander":
            yield one.title, one.summary
    for out in considered:
        if out.rule not in found:
            yield out.title, f"Its signs are there, but {out.against} ({out.rule})."
    for one in judged.diagnosis.findings:
        if one.role == "echo":
            yield one.title, "It follows from the failure above."


def _prevention(causes: Sequence[Finding]) -> Iterator[str]:
    for one in causes:
        action = one.fixes[0].action if one.fixes else ""
        if action in ("set_flag", "unset_flag", "set_env", "unset_env"):
            yield f"Put it into the configuration that starts the server, for good: {one.fixes[0].command}"
        elif action in ("install", "uninstall"):
            yield f"Pin the packages that go together: {one.fixes[0].command}"
        elif action == "run":
            yield f"Check it before the server is started: {one.fixes[0].command}"
    if causes:
        yield "Let a pipeline read every start-up log before traffic is let in: exit code 1 is a cause"


def _versions(facts: FactBase) -> Iterator[tuple[str, str]]:
    for kind, fields in _TOLD.items():
        said: dict[str, None] = {}
        for fact, _ in facts.of(kind):
            said.update(
                (str(value), None) for field in fields if (value := getattr(fact, field, None)) is not None
            )
        if said:
            yield kind.replace("_", " "), ", ".join(said)
    packages = sorted(
        (str(getattr(fact, "name", "")), str(getattr(fact, "version", None) or "?"))
        for fact, _ in facts.of("package")
    )
    yield from packages[:MAX_PACKAGES]
