"""Fixes as commands to copy."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from diagnoser.facts.base import Fact
from diagnoser.inference.diagnosis import FixText
from diagnoser.inference.evaluate import values_of
from diagnoser.rulebook.words import ACTIONS

_HARMLESS = re.compile(r"[\w./:+@%=~-][\w./:+@%=~ -]{0,199}", re.ASCII)
"""What of a log may stand in a command to copy: nothing that a shell or a terminal would act on."""

_PLACEHOLDER = re.compile(r"<([a-z_][a-z0-9_]*)>")


def fill(text: str, values: Mapping[str, Any]) -> str:
    """``<name>`` becomes what was read under that name; a name that was not read stays for the reader to fill.

    >>> fill("ldconfig -p | grep <library>; pip install <package>", {"library": "libnuma.so.1"})
    'ldconfig -p | grep libnuma.so.1; pip install <package>'
    """

    def read(found: re.Match[str]) -> str:
        value = str(values.get(found.group(1), ""))
        return value if _HARMLESS.fullmatch(value) else found.group()

    return _PLACEHOLDER.sub(read, text)


def read_values(facts: Iterable[Fact]) -> dict[str, Any]:
    """What rules may fill in: the fields of the facts that their signs matched, the first of each name."""
    values: dict[str, Any] = {}
    for fact in facts:
        for name, value in values_of(fact).items():
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                values.setdefault(name, value)
    return values


NOTHING: Mapping[str, Any] = {}


def fix_text(fix: Mapping[str, Any], values: Mapping[str, Any] = NOTHING) -> FixText:
    """One fix of a rule as it is shown, with what was read filled in."""
    action = next(name for name in ACTIONS if name in fix)
    return FixText(
        action=action,
        command=fill(_command(action, str(fix[action]), fix.get("value")), values),
        risk=fix["risk"],
        restart=fix.get("restart", action not in ("run", "do")),
        undo=fix.get("undo") or _undo(action, str(fix[action])),
        note=fix.get("note"),
    )


def _command(action: str, what: str, value: str | None) -> str:
    if action == "set_flag":
        return f"{what} {value}" if value is not None else what
    if action == "unset_flag":
        return f"remove {what} from the server's command line"
    if action == "set_env":
        return f"export {what}={value}" if value is not None else f"export {what}"
    if action == "unset_env":
        return f"unset {what}"
    if action == "install":
        return f"pip install '{what}'" if any(sign in what for sign in "<>* ") else f"pip install {what}"
    return what


def _undo(action: str, what: str) -> str | None:
    if action == "set_flag":
        return f"remove {what}"
    if action == "unset_flag":
        return f"put {what} back"
    if action == "set_env":
        return f"unset {what}"
    if action == "unset_env":
        return f"set {what} again"
    return None
