"""Many machines: a row for each, and what sets single ones apart."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from diagnoser.compare.peers import Deviation
from diagnoser.inference.diagnosis import Diagnosis
from diagnoser.sources import escaped, label

SCHEMA = "diagnoser/fleet/1"
MAX_SHOWN = 12
"""How many differences that no rule ties to a cause are shown."""


class Machine(NamedTuple):
    """A machine and its diagnosis; error: why it has none."""

    host: str
    diagnosis: Diagnosis | None
    error: str | None = None


def as_text(machines: Sequence[Machine], odd: Sequence[Deviation]) -> str:
    """A row for each machine, those with a cause first, then what differs."""
    width = min(40, max(len(machine.host) for machine in machines))
    lines = [f"{len(machines)} hosts: {_summary(machines)}", ""]
    for machine in sorted(machines, key=lambda one: (_rank(one), one.host)):
        lines.append(f"  {label(machine.host):<{width}}  {_verdict(machine)}")
        for finding in machine.diagnosis.causes[:1] if machine.diagnosis else ():
            lines += [
                f"  {'':<{width}}    {label(place.document)}:{place.line}  {label(place.text)[:100]}"
                for place in finding.evidence[:1]
            ]
            lines += [f"  {'':<{width}}    fix: {label(fix.command)[:100]}" for fix in finding.fixes[:1]]
    telling = [one for one in odd if one.rules]
    rest = [one for one in odd if not one.rules]
    if odd:
        lines += ["", "Differs from its peers"]
    for one in telling:
        lines.append(f"  {_difference(one)}; ties to {', '.join(one.rules[:3])}")
    for one in rest[:MAX_SHOWN]:
        lines.append(f"  {_difference(one)}")
    if len(rest) > MAX_SHOWN:
        lines.append(f"  and {len(rest) - MAX_SHOWN} more differences that no rule ties to a cause")
    return "\n".join(lines) + "\n"


def _summary(machines: Sequence[Machine]) -> str:
    causes = sum(bool(one.diagnosis and one.diagnosis.causes) for one in machines)
    lost = sum(one.diagnosis is None for one in machines)
    words = [f"{causes} with a cause", f"{len(machines) - causes - lost} without"]
    return ", ".join([*words, *([f"{lost} not reached"] if lost else [])])


def _rank(machine: Machine) -> float:
    if machine.diagnosis is None:
        return 1.0
    return -machine.diagnosis.causes[0].confidence if machine.diagnosis.causes else 0.0


def _verdict(machine: Machine) -> str:
    if machine.diagnosis is None:
        return f"not reached: {label(machine.error or '')}"
    if not machine.diagnosis.causes:
        return "no known cause"
    first = machine.diagnosis.causes[0]
    more = f" (and {len(machine.diagnosis.causes) - 1} more)" if len(machine.diagnosis.causes) > 1 else ""
    return f"{first.confidence:.0%}  {label(first.title)} [{first.rule}]{more}"


def _difference(one: Deviation) -> str:
    return (
        f"{label(one.host)}: {one.subject} is {label(str(one.stated.value))}, "
        f"{label(str(one.usual))} on {one.agree} of {one.told}"
    )


def as_json(machines: Sequence[Machine], odd: Sequence[Deviation]) -> str:
    """``{"schema", "hosts": [{"host", "diagnosis", "error"}], "deviations": [...]}``; diagnoses as elsewhere."""
    hosts: list[dict[str, Any]] = [
        {
            "host": machine.host,
            "diagnosis": json.loads(machine.diagnosis.to_json()) if machine.diagnosis else None,
            "error": machine.error,
        }
        for machine in machines
    ]
    different = [
        {
            "host": one.host,
            "area": one.subject.area,
            "subject": str(one.subject),
            "value": one.stated.value,
            "usual": one.usual,
            "agree": one.agree,
            "told": one.told,
            "rules": list(one.rules),
            "document": one.stated.place.source,
            "line": one.stated.place.line,
        }
        for one in odd
    ]
    answer = {"schema": SCHEMA, "hosts": hosts, "deviations": different}
    return escaped(json.dumps(answer, indent=2, ensure_ascii=False)) + "\n"
