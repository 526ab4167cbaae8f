"""The rulebook's door: the pack for some rule folders, from the cache where it can be."""

import os
from collections.abc import Mapping
from functools import cache as once
from functools import lru_cache
from pathlib import Path
from typing import Any

from diagnoser.rulebook import cache
from diagnoser.rulebook.pack import FORMAT, Pack
from diagnoser.version import __version__

_PACKAGE = Path(__file__).resolve().parent.parent
_COMPILES = ("facts", "rulebook")
"""The facts' fields and this package's own code decide what compiles, so they are part of every key."""


def builtin_folder() -> Path:
    """The rules that come with the product: inside the wheel, or beside the package in a checkout."""
    inside = _PACKAGE / "rules"
    return inside if inside.is_dir() else _PACKAGE.parent / "rules"


def user_folder() -> Path | None:
    """The user's own rules, where there are any: ``~/.config/diagnoser/rules``."""
    base = os.environ.get("XDG_CONFIG_HOME")
    try:
        folder = (Path(base) if base else Path.home() / ".config") / "diagnoser" / "rules"
        return folder if folder.is_dir() else None
    except (RuntimeError, OSError):
        return None


def default_folders(extra: tuple[Path, ...] = ()) -> tuple[Path, ...]:
    """Built-in rules, then the user's, then those of the command line."""
    own = user_folder()
    return (builtin_folder(), *([own] if own else []), *extra)


@lru_cache(maxsize=8)
def pack_for(folders: tuple[Path, ...]) -> Pack:
    """The compiled pack of these folders. A rule that is wrong is left out and named in ``pack.problems``."""
    if folders == (builtin_folder(),) and (shipped := _pack(cache.read_shipped("pack", stamp()))):
        return shipped
    key = cache.key_of([__version__, str(FORMAT), *fingerprint(*folders, *_COMPILES)])
    if kept := _pack(cache.read_plain("pack", key)):
        return kept
    pack = compiled(folders)
    cache.write_plain("pack", key, pack.as_plain())
    return pack


def _pack(plain: object) -> Pack | None:
    try:
        return Pack.from_plain(plain) if isinstance(plain, list) else None
    except (ValueError, TypeError, IndexError):
        return None


def compiled(folders: tuple[Path, ...]) -> Pack:
    """The pack of these folders, read from their YAML files."""
    from diagnoser.facts.registry import kinds
    from diagnoser.rulebook.compile import compile_pack
    from diagnoser.rulebook.load import load

    pack, _ = compile_pack(load(list(folders)), kinds())
    for cause in pack.causes.values():
        # The pack of a wheel was compiled elsewhere: where a rule stands is told from the rules' folder on.
        if Path(cause["file"]).is_relative_to(builtin_folder()):
            cause["file"] = Path(cause["file"]).relative_to(builtin_folder()).as_posix()
    return pack


def rule_file(cause: Mapping[str, Any]) -> Path:
    """The file that a cause of the pack was read from."""
    return builtin_folder() / str(cause["file"])


@once
def stamp() -> str:
    """What the shipped tables must have been made from to be used.

    An installed package does not change: its version is enough. In a checkout it is every file's time and size.
    """
    folder = builtin_folder()
    if folder.parent == _PACKAGE:
        return __version__
    return cache.key_of([__version__, str(FORMAT), *fingerprint(folder, *_COMPILES, "parsers")])


def fingerprint(*places: str | Path) -> list[str]:
    """What changes when a file in these folders changes; names without a slash are parts of the package."""
    folders = [str(place) if isinstance(place, Path) else str(_PACKAGE / place) for place in places]
    return [f"{name}:{size}:{changed}" for folder in folders for name, size, changed in _listing(folder)]


def _listing(folder: str) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = []
    waiting = [folder]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif entry.name.endswith((".yaml", ".py")):
                try:
                    status = entry.stat()
                except OSError:
                    found.append((entry.path, 0, 0))  # a link to nothing
                    continue
                found.append((entry.path, status.st_size, status.st_mtime_ns))
    return sorted(found)
