"""Rules whose signs are all there and that were refuted all the same, with what speaks against them."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from diagnoser.inference.case import Case
from diagnoser.inference.evaluate import applies, evaluate
from diagnoser.inference.truth import Truth
from diagnoser.rulebook.describe import describe, describe_applies
from diagnoser.rulebook.pack import Pack
from diagnoser.scan.template import MatchTimeoutError


class RuledOut(NamedTuple):
    """A cause that was considered. against: the condition of the rule that refutes it, in words."""

    rule: str
    title: str
    against: str


def ruled_out(pack: Pack, case: Case) -> list[RuledOut]:
    """Causes above info whose every sign was seen, and which a limit or a counter-sign refutes; in the order of ids."""
    watched = {
        identifier
        for family in case.facts.families
        for key in (family, family.split(":", 1)[0])
        for identifier in pack.watchers.get(key, ())
    }
    return [
        one for identifier in sorted(watched) for one in _refuted(identifier, pack.causes[identifier], case)
    ]


def _refuted(identifier: str, cause: Mapping[str, Any], case: Case) -> Iterator[RuledOut]:
    if cause["kind"] != "cause" or cause["severity"] == "info":
        return
    try:
        shown = all(evaluate(sign, case).yes for sign in cause["all"])
        shown = shown and (not cause["any"] or any(evaluate(sign, case).yes for sign in cause["any"]))
        against = _against(cause, case) if shown else None
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError, MatchTimeoutError):
        return  # the diagnosis says already that this rule could not be evaluated
    if against is not None:
        yield RuledOut(identifier, cause["title"], against)


def _against(cause: Mapping[str, Any], case: Case) -> str | None:
    """The first limit that does not hold, or the first counter-sign that does."""
    for name, wanted in cause["applies"].items():
        if applies({name: wanted}, case).truth is Truth.NO:
            return f"it needs {describe_applies({name: wanted})}, and something else was read"
    for sign in cause["none"]:
        outcome = evaluate(sign, case)
        if outcome.yes:
            where = (
                f" ({outcome.sightings[0].source}:{outcome.sightings[0].line})" if outcome.sightings else ""
            )
            return f"it is refuted by {describe(sign)}{where}"
    return None
