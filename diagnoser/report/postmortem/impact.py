"""What an incident cost, in numbers that the documents hold."""

import math
from collections.abc import Iterator, Sequence

from diagnoser.compare.attribution import gain_of
from diagnoser.facts.engine import SeriesStat, StartPhase
from diagnoser.facts.factbase import FactBase
from diagnoser.inference.diagnose import Judged, Part
from diagnoser.inference.diagnosis import Finding

COST = {
    "startup_failure": "the server did not start",
    "crash": "the server stopped serving",
    "hang": "the server stopped answering",
    "decode_slower": "answers were generated more slowly",
    "prefill_slower": "prompts were read more slowly",
    "ttft_longer": "first tokens came later",
    "throughput_lower": "fewer tokens a second were served",
    "capacity_lower": "fewer requests fitted at a time",
    "load_slower": "the server took longer to start",
    "wrong_output": "answers may have been wrong",
    "misleading_measurement": "what was measured says less than it seems to",
}
"""Effect -> what it meant for those who use the server."""

STATES = {
    "ready": "it said that it serves",
    "not ready": "it never said that it serves",
    "not told": "the texts do not tell",
}

_STATES = {True: "ready", False: "not ready", None: "not told"}

_SHOWN = {
    "decode_tok_s": ("generating", " tok/s"),
    "prefill_tok_s": ("reading prompts", " tok/s"),
    "ttft_ms": ("time to the first token", " ms"),
    "queue_reqs": ("requests waiting", ""),
    "running_reqs": ("requests running", ""),
    "kv_usage": ("KV cache in use", "%"),
    "accept_len": ("tokens accepted a step", ""),
}

_COUNTED = {"retracted_total": "requests thrown out of the KV cache", "preemptions_total": "preemptions"}

PERSON = "(a person fills this in)"


def impact(judged: Judged, causes: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """Name and value, in the order they are read. With several servers the numbers are those of the one whose cause
    leads."""
    lead = judged.parts[0]
    facts = lead.case.facts
    if len(judged.parts) > 1:
        yield "servers", f"{len(judged.parts)}; the numbers are those of {_name(lead)}"
    yield "the server", STATES[_STATES[lead.started]]
    starts = [one.reading.launches.count for one in lead.group if one.launch is not None]
    if max(starts, default=0) > 1:
        yield "starts of the server", str(max(starts))
    for fact, _ in facts.of("start_phase"):
        if isinstance(fact, StartPhase) and fact.name == "until_ready":
            yield "time until it served", f"{fact.duration_s:g} s"
            break
    raised = sum(places.count for _, places in facts.of("exception"))
    if raised:
        yield "exceptions in the texts", str(raised)
    for metric, (name, unit) in _SHOWN.items():
        one = overall(facts, metric)
        if one is not None and one.max > 0:
            yield name, _spread(one, unit)
    for metric, name in _COUNTED.items():
        counted = overall(facts, metric)
        if counted is not None and counted.max > 0:
            yield name, f"{counted.max:g}"
    for cause in causes:
        if gain := cause.gain:
            yield (
                f"cost of {cause.rule}, measured elsewhere",
                f"{gain.change} {gain.metric} when undone ({gain.where})",
            )
            yield from _here(cause, judged)
    yield "people and requests affected", PERSON


def _name(part: Part) -> str:
    """The log by which a server is told from the others: the last of its texts, behind what all share."""
    return next((one.reading.name for one in reversed(part.group) if one.launch is not None), "one of them")


def overall(facts: FactBase, metric: str) -> SeriesStat | None:
    """The statistics of a series whatever was running, of the first server that has it."""
    stats = (fact for fact, _ in facts.of(f"series:{metric}") if isinstance(fact, SeriesStat))
    return next((stat for stat in stats if stat.running is None), None)


def _spread(one: SeriesStat, unit: str) -> str:
    times = 100 if unit == "%" else 1
    low, middle, high = (number(value * times) for value in (one.min, one.median, one.max))
    lines = f"{one.count} line{'s' if one.count != 1 else ''}"
    return f"{middle}{unit} (median of {lines}, {low} to {high})"


def number(value: float) -> str:
    """Four digits, and all of them before the point."""
    return f"{value:,.0f}".replace(",", "\u202f") if abs(value) >= 1000 else f"{value:.4g}"


def _here(cause: Finding, judged: Judged) -> Iterator[tuple[str, str]]:
    """What the gain that was measured elsewhere would mean at the speed of the server that has the cause."""
    parts = (part for part in judged.parts if any(one.candidate.rule == cause.rule for one in part.ranked))
    part = next(parts, None)
    seen = overall(part.case.facts, "decode_tok_s") if part else None
    assert cause.gain is not None
    gain = gain_of({"gain": cause.gain.model_dump()}, "decode_tok_s")
    if seen is None or gain is None or seen.median <= 0:
        return
    fixed = seen.median * math.exp(gain)
    hour = number(abs(fixed - seen.median) * 3600)
    yield (
        "the same here (assumed)",
        f"{number(seen.median)} tok/s would be {number(fixed)} tok/s: {hour} tokens an hour at this load",
    )
