"""From the diagnosis of a log to a change that an experiment can make."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from diagnoser.agent import session
from diagnoser.experiment.change import ACTIONS, Action, Change, Changes
from diagnoser.experiment.plan import DEFAULT_WORKLOAD
from diagnoser.experiment.starting import Diagnosed
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


class Proposal(NamedTuple):
    """What to put to the test, and the workload that exercises the cause."""

    rule: str
    changes: Changes
    workload: str


def change_of(fix: FixText) -> Change | None:
    """A fix as a change; None for one that a restart alone does not apply, or with something left to fill in."""
    if fix.action not in get_args(Action) or "<" in fix.command:
        return None
    words = fix.command.removeprefix("export ").removeprefix("unset ").split(maxsplit=1)
    if fix.action == "unset_flag":  # "remove --flag from the server's command line"
        words = [word for word in fix.command.split() if word.startswith("-")]
    name, _, after = words[0].partition("=")
    value = after or (words[1] if len(words) > 1 else None)
    action: Action = next(one for one in ACTIONS if one == fix.action)
    return Change(action, name, value)


def _changes(cause: Finding) -> Changes:
    found = next((change for fix in cause.fixes if (change := change_of(fix))), None)
    return (found,) if found else ()


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
    causes = judged.diagnosis.causes
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
