"""Rule files -> validated models."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from diagnoser.rulebook.models import Cause, Message, MessagesFile
from diagnoser.rulebook.problems import Problem

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

MAX_FILE = 4 << 20
MAX_PROBLEMS = 20
"""How many problems of one file are told."""

M = TypeVar("M", bound=BaseModel)


class Loaded(NamedTuple):
    """All of some rule folders: messages and causes with the file each came from, and what was wrong."""

    messages: list[tuple[Message, str]]
    causes: list[tuple[Cause, str]]
    problems: list[Problem]


def rule_files(folders: list[Path]) -> list[Path]:
    """The rule files of some folders, sorted, so that the pack does not depend on the file system."""
    return sorted(path for folder in folders for path in folder.rglob("*.yaml"))


def load(folders: list[Path]) -> Loaded:
    """Read and validate; a wrong file is a problem, never an exception."""
    loaded = Loaded([], [], [])
    for path in rule_files(folders):
        try:
            data = yaml.load(_text(path), Loader=_Loader)
        except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
            mark = getattr(error, "problem_mark", None)
            line = mark.line + 1 if mark else 0
            what = getattr(error, "problem", None) or getattr(error, "strerror", None) or str(error)
            loaded.problems.append(Problem(str(path), line, f"not readable as YAML: {what}"))
            continue
        if path.stem.startswith("messages"):
            _messages(path, data, loaded)
        else:
            _cause(path, data, loaded)
    return loaded


def _text(path: Path) -> bytes:
    """Raises OSError; ValueError for what is no file of rules."""
    if not path.is_file():
        raise ValueError("it is no file" if path.exists() else "it is a link to nothing")
    if path.stat().st_size > MAX_FILE:
        raise ValueError(f"it is larger than {MAX_FILE >> 20} MiB; one rule is a page of text")
    return path.read_bytes()


def _messages(path: Path, data: Any, loaded: Loaded) -> None:
    if isinstance(data, list):
        data = {"messages": data}
    file = _validated(MessagesFile, path, data, loaded)
    if file is None:
        return
    for message in file.messages:
        owned = (
            message
            if message.engine or not file.engine
            else message.model_copy(update={"engine": file.engine})
        )
        loaded.messages.append((owned, str(path)))


def _cause(path: Path, data: Any, loaded: Loaded) -> None:
    cause = _validated(Cause, path, data, loaded)
    if cause is None:
        return
    loaded.causes.append((cause, str(path)))
    loaded.messages.extend((message, str(path)) for message in cause.messages)


def _validated(model: type[M], path: Path, data: Any, loaded: Loaded) -> M | None:
    if not isinstance(data, dict):
        loaded.problems.append(Problem(str(path), 1, "the file is empty or is not a mapping"))
        return None
    try:
        return model.model_validate(data)
    except ValidationError as error:
        loaded.problems.extend(_explain(path, error))
        return None


def _explain(path: Path, error: ValidationError) -> Iterator[Problem]:
    node = _composed(path)
    for entry in error.errors(include_url=False)[:MAX_PROBLEMS]:
        where = ".".join(str(part) for part in entry["loc"])
        what = str(entry["msg"]).removeprefix("Value error, ")
        yield Problem(str(path), _line_in(node, entry["loc"]), f"{where}: {what}" if where else what)


def line_of(path: Path, keys: tuple[int | str, ...]) -> int:
    """The line of a value inside a YAML file, as far down the keys as the file goes."""
    return _line_in(_composed(path), keys)


def _composed(path: Path) -> Any:
    try:
        return yaml.compose(path.read_bytes(), Loader=_Loader)
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return None


def _line_in(node: Any, keys: tuple[int | str, ...]) -> int:
    line = 1
    for key in keys:
        if isinstance(node, yaml.MappingNode):
            pairs = {pair[0].value: pair for pair in node.value}
            if str(key) not in pairs:
                break
            line, node = pairs[str(key)][0].start_mark.line + 1, pairs[str(key)][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
            line = node.start_mark.line + 1
        else:
            break
    return line
