"""What a change of versions brings, before anybody makes it: the rules held against packages that nobody runs yet."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from diagnoser.inference.candidates import judge
from diagnoser.inference.case import Case
from diagnoser.inference.diagnosis import SEVERITY_RANK
from diagnoser.inference.evaluate import applies, evaluate
from diagnoser.inference.truth import Truth
from diagnoser.inference.versions import parse
from diagnoser.rulebook.pack import Pack


class Advice(NamedTuple):
    """Rules by id, the worst first.

    breaks: fire on the packages alone, after the change and not before. cured: the other way round. watch: were
    ruled out by the versions before and can happen after; a log will tell. safe: the other way round.
    """

    breaks: tuple[str, ...]
    cured: tuple[str, ...]
    watch: tuple[str, ...]
    safe: tuple[str, ...]


def advise(before: Case, after: Case, pack: Pack) -> Advice:
    """Hold every cause against both sets of packages."""
    causes, said = pack.causes, _wordings(pack)
    found: dict[str, list[str]] = {"breaks": [], "cured": [], "watch": [], "safe": []}
    for rule in causes:
        cause = causes[rule]
        if cause["kind"] != "cause":
            continue
        fired = _fires(rule, cause, before), _fires(rule, cause, after)
        possible = _possible(cause, before, said), _possible(cause, after, said)
        if fired == (False, True):
            found["breaks"].append(rule)
        elif fired == (True, False):
            found["cured"].append(rule)
        elif possible == (False, True):
            found["watch"].append(rule)
        elif possible == (True, False):
            found["safe"].append(rule)

    def worst(rule: str) -> tuple[int, str]:
        return -SEVERITY_RANK[causes[rule]["severity"]], rule

    return Advice(*(tuple(sorted(found[name], key=worst)) for name in Advice._fields))


def _fires(rule: str, cause: Mapping[str, Any], case: Case) -> bool:
    candidate = judge(rule, cause, case)
    return candidate is not None and candidate.fired


Said = Mapping[str, tuple[str | None, list[tuple[str | None, str | None]]]]
"""Message -> its engine, and the first and last release of each of its wordings."""


def _wordings(pack: Pack) -> Said:
    said: dict[str, tuple[str | None, list[tuple[str | None, str | None]]]] = {}
    for wording in pack.wordings:
        message = pack.messages[wording.message]
        said.setdefault(message.id, (message.engine, []))[1].append((wording.since, wording.until))
    return said


def _can_say(message: str, case: Case, said: Said) -> bool:
    """Whether the engine's release has a wording of the message; of an engine that is not there nobody asks."""
    engine, spans = said.get(message, (None, []))
    release = parse(case.engines.get(engine) or "") if engine else None
    if release is None:
        return engine is None
    for since, until in spans:
        first, last = parse(since or "0"), parse(until or "9999")
        if first is not None and last is not None and first <= release <= last:
            return True
    return False


def _leaves_room(sign: list[Any], case: Case, said: Said) -> bool:
    """Whether the release can print what a sign waits for."""
    form = sign[0]
    if form == "message":
        return _can_say(sign[1], case, said)
    if form in ("all", "sequence"):
        return all(_leaves_room(inner, case, said) for inner in sign[1])
    if form == "any":
        return any(_leaves_room(inner, case, said) for inner in sign[1])
    return True


def _possible(cause: Mapping[str, Any], case: Case, said: Said) -> bool:
    """Whether the versions leave room for the cause, whatever a log may say."""
    if not all(_leaves_room(sign, case, said) for sign in cause["all"]):
        return False
    if cause["any"] and not any(_leaves_room(sign, case, said) for sign in cause["any"]):
        return False
    if applies(cause["applies"], case).truth is Truth.NO:
        return False
    if any(evaluate(sign, case).truth is Truth.NO for sign in cause["all"]):
        return False
    if any(evaluate(sign, case).yes for sign in cause["none"]):
        return False
    some = [evaluate(sign, case).truth for sign in cause["any"]]
    return not some or any(truth is not Truth.NO for truth in some)
