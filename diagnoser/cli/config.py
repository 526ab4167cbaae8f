"""Defaults from a file: ``~/.config/diagnoser/config.toml`` or ``$DIAGNOSER_CONFIG``."""

import argparse
import os
from pathlib import Path
from typing import Any

FORMATS = ("auto", "text", "markdown", "json", "slack", "github", "junit", "sarif", "pagerduty")

KEYS: dict[str, type] = {
    "format": str,
    "quiet": bool,
    "rules": list,
    "no_color": bool,
    "year": int,
    "tail": int,
    "workers": int,
}
"""What the file may set, by the long option's name with underscores."""


class ConfigError(Exception):
    """A config file that cannot be used; the message is one sentence."""


def path() -> Path | None:
    """The config file, where there is one."""
    override = os.environ.get("DIAGNOSER_CONFIG")
    if override:
        return Path(override)
    base = os.environ.get("XDG_CONFIG_HOME")
    try:
        file = (Path(base) if base else Path.home() / ".config") / "diagnoser" / "config.toml"
        return file if file.is_file() else None
    except (RuntimeError, OSError):
        # No home, or one that this user may not look into: nothing was set.
        return None


def fill(options: argparse.Namespace) -> None:
    """Set what the command line left open. Raises `ConfigError`."""
    file = path()
    if file is None:
        return
    import tomllib

    try:
        data = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: {error}") from error
    for key, value in data.items():
        _check(file, key, value)
        if getattr(options, key) is None:
            setattr(options, key, value)


def _check(file: Path, key: str, value: Any) -> None:
    if key not in KEYS:
        raise ConfigError(f"{file}: unknown setting {key!r}; known: {', '.join(sorted(KEYS))}")
    if not isinstance(value, KEYS[key]) or (KEYS[key] is int and isinstance(value, bool)):
        raise ConfigError(f"{file}: {key} must be a {KEYS[key].__name__}, not {value!r}")
    if key in ("tail", "workers") and isinstance(value, int) and value < 1:
        raise ConfigError(f"{file}: {key} must be a whole number above 0, not {value!r}")
    if isinstance(value, list) and not all(isinstance(folder, str) for folder in value):
        raise ConfigError(f"{file}: rules must be a list of folders")
    if key == "format" and value not in FORMATS:
        raise ConfigError(f"{file}: format must be one of {', '.join(FORMATS)}, not {value!r}")
