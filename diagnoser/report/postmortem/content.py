"""What a postmortem says, gathered from a diagnosis; the templates only lay it out."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from diagnoser.facts.engine import Model, SeriesStat, StartPhase
from diagnoser.facts.factbase import FactBase, merge_all
from diagnoser.inference.diagnose import Judged
from diagnoser.inference.diagnosis import Finding, Question
from diagnoser.report.postmortem.timeline import Moment, timeline

MAX_RULED_OUT = 12

Context = Mapping[tuple[str, int], Sequence[tuple[int, str]]]
"""(document, line) -> the lines around it with their numbers, secrets masked."""

_COST = {
    "startup_failure": "the server did not start",
    "crash": "the server stopped serving",
    "hang": "the server stopped answering",
    "decode_slower": "answers were generated more slowly",
    "prefill_slower": "prompts were read more slowly",
    "ttft_longer": "first tokens came later",
    "throughput_lower": "fewer tokens a second were served",
    "capacity_lower": "fewer requests fitted at a time",
    "start_slower": "the server took longer to start",
    "wrong_output": "answers may have been wrong",
}

_SHOWN = {
    "decode_tok_s": ("decoding", "tok/s"),
    "prefill_tok_s": ("reading prompts", "tok/s"),
    "queue_reqs": ("waiting requests", ""),
    "running_reqs": ("running requests", ""),
    "kv_usage": ("share of the KV cache in use", ""),
    "accept_len": ("tokens accepted a step", ""),
}

_COUNTED = {"retracted_total": "requests thrown out of the KV cache", "preemptions_total": "preemptions"}

_TOLD = {
    "engine": ("name", "version"),
    "model": ("path", "architecture", "quantization"),
    "gpu_set": ("count", "arch"),
    "driver": ("version",),
    "torch_build": ("version", "cuda", "cudnn"),
}
MAX_PACKAGES = 40


class Proof(NamedTuple):
    """An experiment's end: its verdict in words, and the runs of each arm."""

    words: str
    metric: str
    arms: Mapping[str, Sequence[float]]


class Postmortem(NamedTuple):
    """All sections, in the order they are read."""

    title: str
    summary: tuple[str, str, str]
    impact: tuple[tuple[str, str], ...]
    moments: tuple[Moment, ...]
    roots: tuple[Finding, ...]
    chain: tuple[tuple[str, str], ...]
    context: Context
    ruled_out: tuple[tuple[str, str], ...]
    prevention: tuple[str, ...]
    questions: tuple[Question, ...]
    unchecked: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    documents: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]
    proof: Proof | None
    series: Mapping[str, Sequence[tuple[int, float]]]


def gather(judged: Judged, context: Context, given: Sequence[str], proof: Proof | None = None) -> Postmortem:
    """given: the paths as the user named them, for the commands that reproduce the findings."""
    diagnosis = judged.diagnosis
    facts = merge_all(part.case.facts for part in judged.parts)
    causes = diagnosis.causes
    return Postmortem(
        causes[0].title if causes else "No known cause",
        _summary(causes, facts, proof),
        tuple(_impact(judged, facts, causes)),
        tuple(timeline(judged)),
        tuple(causes),
        tuple(_chain(judged)),
        context,
        tuple(_ruled_out(judged))[:MAX_RULED_OUT],
        tuple(_prevention(causes)),
        tuple(diagnosis.questions[:3]),
        tuple(dict.fromkeys(lack for one in causes for lack in one.unchecked)),
        tuple(_versions(facts)),
        tuple((one.document, one.kind) for one in diagnosis.coverage),
        tuple(_commands(causes, given)),
        proof,
        {
            metric: chosen.launch.series.minutes[metric].means()
            for part in judged.parts
            for chosen in part.group
            if chosen.launch is not None
            for metric in ("decode_tok_s",)
            if metric in chosen.launch.series.minutes
        },
    )  # fmt: skip


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
    cost = _COST.get(first.effect, "the service suffered")
    gain = f"; undoing it brought {first.gain.change} elsewhere ({first.gain.where})" if first.gain else ""
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


def _impact(judged: Judged, facts: FactBase, causes: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    yield "state of the server at the end", judged.diagnosis.server
    for fact, _ in facts.of("start_phase"):
        if isinstance(fact, StartPhase) and fact.name == "until_ready":
            yield "time until it served", f"{fact.duration_s:g} s"
            break
    for metric, (name, unit) in _SHOWN.items():
        if one := _overall(facts, metric):
            span = f"from {one.min:g} to {one.max:g} in {one.count} lines"
            yield name, f"median {one.median:g}{unit and ' ' + unit}, {span}"
    for metric, name in _COUNTED.items():
        if one := _overall(facts, metric):
            yield name, f"{one.max:g}"
    for cause in causes:
        if gain := cause.gain:
            yield f"measured cost of {cause.rule}", f"{gain.metric} {gain.change} when undone ({gain.where})"
    yield "people and requests affected", "(a person fills this in)"


def _overall(facts: FactBase, metric: str) -> SeriesStat | None:
    stats = (fact for fact, _ in facts.of(f"series:{metric}") if isinstance(fact, SeriesStat))
    return next((stat for stat in stats if stat.running is None), None)


def _chain(judged: Judged) -> Iterator[tuple[str, str]]:
    for one in judged.diagnosis.findings:
        if one.role == "consequence" and one.because_of:
            yield one.because_of, one.title


def _ruled_out(judged: Judged) -> Iterator[tuple[str, str]]:
    for one in judged.diagnosis.findings:
        if one.role == "bystander" and one.kind in ("bystander", "symptom", "cause"):
            yield one.title, one.summary
        elif one.role == "echo":
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
        yield "Let diagnose read every start-up log before traffic is let in: exit code 1 is a cause"


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


def _commands(causes: Sequence[Finding], given: Sequence[str]) -> Iterator[str]:
    paths = " ".join(map(shlex.quote, given)) or "-"
    yield f"diagnose {paths}"
    for one in causes:
        yield f"diagnose --explain {one.rule} {paths}"
