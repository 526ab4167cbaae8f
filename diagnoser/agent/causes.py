"""From the diagnosis of a log to a change that an experiment can make."""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from diagnoser.agent import session
from diagnoser.experiment.change import ACTIONS, Action, Change, Changes
from diagnoser.experiment.plan import DEFAULT_WORKLOAD
from diagnoser.experiment.starting import Diagnosed, Proposal, Reader
from diagnoser.inference.diagnosis import Finding, FixText
from diagnoser.inference.resolve import FATAL
from diagnoser.rulebook.book import default_folders, pack_for

WORKLOADS = {
    "decode_batch": "throughput_many_streams",
    "throughput_high_concurrency": "throughput_many_streams",
    "prefill_heavy": "prefill_long",
    "prefill_long_prompt": "prefill_long",
}
"""Workloads that rules name, and the one that measures the same thing here."""


def changes_of(fix: FixText) -> Changes:
    """A fix as changes; none for one that a restart alone does not apply, or with something left to fill in.

    A rule may give several flags as one value: ``--cache-type-k`` with ``q8_0 --cache-type-v q8_0``.
    """
    if fix.action not in get_args(Action) or "<" in fix.command:
        return ()
    action: Action = next(one for one in ACTIONS if one == fix.action)
    if action == "unset_flag":  # "remove --flag from the server's command line"
        return tuple(Change(action, word) for word in fix.command.split() if word.startswith("-"))[:1]
    if action.endswith("env"):
        name, _, value = fix.command.removeprefix("export ").removeprefix("unset ").partition("=")
        return (Change(action, name, value or None),)
    found: list[Change] = []
    for word in fix.command.split():
        name, sign, value = word.partition("=")
        if word.startswith("--"):
            found.append(Change(action, name, value if sign else None))
        elif found:
            before = found[-1].value
            found[-1] = found[-1]._replace(value=word if before is None else f"{before} {word}")
        else:
            found.append(Change(action, word))  # a short flag
    return tuple(found)


def _changes(cause: Finding) -> Changes:
    return next((changes for fix in cause.fixes if (changes := changes_of(fix))), ())


def _workload(rule: str) -> str:
    named = str(
        (pack_for(default_folders()).causes[rule].get("confirm") or {}).get("workload", DEFAULT_WORKLOAD)
    )
    return WORKLOADS.get(named, named)


def proposed(paths: Sequence[str | Path]) -> Proposal | str:
    """The change that the leading cause of some logs asks for; or the sentence why there is none."""
    judged = session.run(paths)
    if isinstance(judged, list):
        return "; ".join(judged)
    # What costs little or nothing in general may cost much here: where nothing else is found it is put to the test.
    causes = judged.diagnosis.causes or [one for one in judged.diagnosis.findings if one.kind == "cause"]
    if not causes:
        return "no known cause was found; name a change, such as --set-flag"
    changes = _changes(causes[0])
    if not changes:
        return f"{causes[0].rule} has no fix that a restart alone applies; name a change, such as --set-flag"
    return Proposal(causes[0].rule, changes, _workload(causes[0].rule))


def fatal(log: Path) -> Diagnosed | None:
    """What a log says ends a start; None where it says nothing of the kind."""
    try:
        judged = session.run([log])
    except session.CallError:
        return None
    if isinstance(judged, list):
        return None
    for cause in judged.diagnosis.causes:
        if cause.effect in FATAL and cause.kind == "cause" and judged.diagnosis.server != "ready":
            fix = f" (fix: {cause.fixes[0].command})" if cause.fixes else ""
            return Diagnosed(cause.rule, f"{cause.title}{fix}", _changes(cause))
    return None


def slow(log: Path) -> Proposal | None:
    """What the log of a server that runs should be put to the test for."""
    found = proposed([log])
    return None if isinstance(found, str) else found


READER = Reader(fatal, slow)


def flags_of(log: Path) -> dict[str, str | int | float | bool | None]:
    """The flags that a log tells, by their names with underscores; empty where it tells none."""
    judged = session.run([log])
    if isinstance(judged, list):
        return {}
    return {
        fact.fields["name"]: fact.fields.get("value")
        for fact in judged.diagnosis.facts
        if fact.kind == "server_arg"
    }


NAMED_BY_A_RULE = 0.1
"""Suspicion of a difference that some rule's fix touches, beside a cause that was found with its probability."""


def suspicion(names: Sequence[str], log: Path | None) -> list[float]:
    """How much the rules suspect each difference (a flag or the names of variables): by the causes that were found in
    the log of the bad side, else by the fixes of all rules. All alike where no rule names any."""
    found = dict.fromkeys(names, 0.0)
    keys = {word: name for name in names for word in name.split(" and ")}
    for cause in pack_for(default_folders()).causes.values():
        for fix in cause.get("fixes") or ():
            for action in ACTIONS:
                name = keys.get(str(fix.get(action)))
                if name is not None:
                    found[name] = max(found[name], NAMED_BY_A_RULE)
    judged = session.run([log]) if log is not None else []
    for finding in [] if isinstance(judged, list) else judged.diagnosis.causes:
        for change in (change for fix in finding.fixes for change in changes_of(fix)):
            name = keys.get(change.name)
            if name is not None:
                found[name] = max(found[name], finding.confidence)
    return [found[name] for name in names] if any(found.values()) else [1.0] * len(names)
