"""Fixes as commands to copy."""

from collections.abc import Mapping
from typing import Any

from diagnoser.inference.diagnosis import FixText

ACTIONS = ("set_flag", "unset_flag", "set_env", "unset_env", "install", "run", "do")


def fix_text(fix: Mapping[str, Any]) -> FixText:
    """One fix of a rule as it is shown."""
    action = next(name for name in ACTIONS if name in fix)
    return FixText(
        action=action,
        command=_command(action, str(fix[action]), fix.get("value")),
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
