"""What the user named becomes a sorted list of files: folders, globs and links are followed with care."""

import os
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from diagnoser.sources.base import Limits, Unreadable
from diagnoser.sources.clean import label
from diagnoser.sources.streams import refuse

STDIN = "-"
_HIDDEN = "it is hidden (its name begins with a dot); name it to have it read"


class Candidate(NamedTuple):
    """A file to open. path as given to the system, real: where it really lies, link: whether path is a link."""

    name: str
    path: str
    real: str
    link: bool = False


Item = Candidate | Unreadable


def gather(paths: Sequence[str | Path], limits: Limits) -> list[Item]:
    """Every file that `paths` name, once, sorted by name. A file found twice goes by the name that is no link."""
    found: list[Item] = []
    for path in dict.fromkeys(os.fspath(path) for path in paths):
        for item in _named(path):
            if len(found) > limits.files:
                words = f"more than {limits.files} files were found; give the folders that matter"
                return [*_unique(found), Unreadable(label(path), words)]
            found.append(item)
    return _unique(found)


def _unique(found: list[Item]) -> list[Item]:
    files: dict[str, Candidate] = {}
    others: dict[Unreadable, None] = {}
    for item in found:
        if isinstance(item, Unreadable):
            others[item] = None
        elif item.real not in files or (item.link, item.name) < (
            files[item.real].link,
            files[item.real].name,
        ):
            files[item.real] = item
    return sorted([*files.values(), *others], key=lambda item: item.name)


def _named(path: str) -> Iterator[Item]:
    if path == STDIN:
        yield Candidate("stdin", STDIN, STDIN)
    elif path.startswith(("http://", "https://")):
        yield Unreadable(label(path), "addresses are not opened here; save the text and give the file")
    elif not path or "\0" in path:
        yield Unreadable(label(path), "this is no file name; check the path")
    elif os.path.lexists(path) or not _magic(path):
        yield from _file_or_folder(os.path.normpath(path))
    else:
        matches = sorted(_expand(path))
        for match in matches:
            yield from _file_or_folder(match)
        if not matches:
            yield Unreadable(label(path), "no file matches this pattern; check the path")


def _file_or_folder(path: str) -> Iterator[Item]:
    try:
        mode = os.stat(path).st_mode
        real = os.path.realpath(path)
    except OSError as error:
        yield Unreadable(label(path), refuse(error))
        return
    if stat.S_ISDIR(mode):
        yield from _folder(path, real)
    else:
        yield Candidate(label(path), path, real)


def _folder(top: str, real_top: str) -> Iterator[Item]:
    folders = [(top, real_top)]
    while folders:
        folder, real = folders.pop()
        try:
            with os.scandir(folder) as listing:
                for entry in listing:
                    path = os.path.normpath(entry.path)
                    if entry.name.startswith("."):
                        yield Unreadable(label(path), _HIDDEN)
                    elif entry.is_symlink():
                        yield from _link(path, real_top)
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append((path, os.path.join(real, entry.name)))
                    else:
                        yield Candidate(label(path), path, os.path.join(real, entry.name))
        except OSError as error:
            yield Unreadable(label(folder), refuse(error))


def _link(path: str, real_top: str) -> Iterator[Item]:
    """A link inside a folder: to a file in it (read under the file's own name, if that is seen), or refused."""
    real = os.path.realpath(path)
    if not os.path.exists(real):
        yield Unreadable(label(path), "it is a link to nothing; check where it should lead")
    elif os.path.commonpath([real, real_top]) != real_top:
        yield Unreadable(
            label(path), "it is a link that leads out of the given folder; name it to have it read"
        )
    elif not os.path.isdir(real):
        yield Candidate(label(path), path, real, link=True)


def _magic(part: str) -> bool:
    return any(sign in part for sign in "*?[")


def _expand(pattern: str) -> Iterator[str]:
    """Paths that match a shell pattern. ``**`` spans folders and follows no links; ``*`` leaves hidden files out."""
    anchor = Path(pattern).anchor
    parts = [part for part in pattern[len(anchor) :].split("/") if part not in ("", ".")]
    yield from _match(anchor, parts)


def _match(base: str, parts: list[str]) -> Iterator[str]:
    if not parts:
        if base:
            yield os.path.normpath(base)
        return
    first, rest = parts[0], parts[1:]
    if first == "**":
        for folder in _below(base):
            yield from _match(folder, rest or ["*"])
    elif not _magic(first):
        path = os.path.join(base, first)
        if os.path.lexists(path):
            yield from _match(path, rest)
    else:
        for name in _names(base):
            if fnmatchcase(name, first) and (first.startswith(".") or not name.startswith(".")):
                yield from _match(os.path.join(base, name), rest)


def _below(base: str) -> Iterator[str]:
    folders = [base]
    while folders:
        folder = folders.pop()
        yield folder
        for name in _names(folder):
            path = os.path.join(folder, name)
            if not name.startswith(".") and os.path.isdir(path) and not os.path.islink(path):
                folders.append(path)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder or ".")
    except OSError:
        return []
