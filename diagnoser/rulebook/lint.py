"""What a rule pack must hold before it may be used: every problem with its place and its cure."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from diagnoser.facts.base import Fact
from diagnoser.rulebook import template
from diagnoser.rulebook.compile import CAPTURE_TYPES, compile_pack
from diagnoser.rulebook.load import Loaded, line_of, load
from diagnoser.rulebook.models import Cause, Message
from diagnoser.rulebook.problems import Problem
from diagnoser.rulebook.signs import SignError, compile_sign, hint, leaves
from diagnoser.rulebook.words import ARCHS, EFFECTS, ENGINES, PACKAGES


def lint(folders: list[Path], kinds: dict[str, type[Fact]], beside: Sequence[Path] = ()) -> list[Problem]:
    """All problems of the rules in these folders, sorted by place.

    beside: folders whose rules these may name, and whose own problems are not asked for.
    """
    resolved = [folder.resolve() for folder in folders]
    others = [other for other in beside if other.resolve() not in resolved]
    loaded = load([*others, *folders])
    _, problems = compile_pack(loaded, kinds)
    problems = [problem for problem in problems if not problem.what.startswith("unknown fact")]
    problems += _messages(loaded, kinds)
    problems += _causes(loaded, kinds)
    problems += _cycles(loaded)
    if others:
        inside = [str(folder) for folder in folders]
        problems = [
            one for one in problems if any(Path(one.file).is_relative_to(folder) for folder in inside)
        ]
    return sorted(set(problems))


def _messages(loaded: Loaded, kinds: dict[str, type[Fact]]) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for message, file in loaded.messages:
        if message.id in seen:
            yield Problem(
                file,
                _line(file, message.id),
                f"message id {message.id!r} is used twice",
                f"first in {seen[message.id]}",
            )
        seen[message.id] = file
        captured = _captures(message)
        for wording in message.wordings:
            if (
                wording.literal is not None
                and template.letters(wording.literal) < template.MIN_LITERAL_LETTERS
            ):
                yield Problem(
                    file,
                    _line(file, message.id),
                    f"message {message.id}: the literal {wording.literal!r} is too short",
                    "give a fixed text of at least 8 letters",
                )
            if wording.pattern is not None:
                yield from _pattern(message, file, wording.pattern)
        for gives in message.gives:
            yield from _gives(message, file, gives, captured, kinds)


def _pattern(message: Message, file: str, pattern: str) -> Iterator[Problem]:
    try:
        re.compile(pattern)
    except re.error as error:
        yield Problem(file, _line(file, message.id), f"message {message.id}: no regular expression: {error}")
        return
    if re.search(r"\([^()]*[+*][^()]*\)[+*]", pattern):
        yield Problem(
            file,
            _line(file, message.id),
            f"message {message.id}: a repeated group holds a repetition, which can run away",
            "bound one of them, as in (?:a{1,40}b){1,8}",
        )


def _captures(message: Message) -> set[str]:
    names: set[str] = set()
    for wording in message.wordings:
        try:
            names |= (
                template.names(template.parse(wording.text, CAPTURE_TYPES))
                if wording.text
                else template.pattern_names(wording.pattern or "")
            )
        except (template.TemplateError, re.error):
            continue
    return names


def _gives(
    message: Message, file: str, gives: dict[str, object], captured: set[str], kinds: dict[str, type[Fact]]
) -> Iterator[Problem]:
    line = _line(file, message.id)
    kind = str(gives.get("fact", ""))
    if kind not in kinds:
        yield Problem(
            file, line, f"message {message.id} gives an unknown fact {kind!r}", hint(kind, list(kinds))
        )
        return
    for field, value in gives.items():
        if field == "fact":
            continue
        if field not in kinds[kind].model_fields:
            yield Problem(
                file,
                line,
                f"message {message.id}: fact {kind!r} has no field {field!r}",
                hint(field, list(kinds[kind].model_fields)),
            )
        if (
            isinstance(value, str)
            and value.startswith("<")
            and value.endswith(">")
            and value[1:-1] not in captured
        ):
            yield Problem(
                file,
                line,
                f"message {message.id}: no wording captures {value}",
                hint(value[1:-1], sorted(captured)),
            )


def _causes(loaded: Loaded, kinds: dict[str, type[Fact]]) -> Iterator[Problem]:
    messages = {message.id for message, _ in loaded.messages}
    ids = [cause.id for cause, _ in loaded.causes]
    for cause, file in loaded.causes:
        yield from _applies(cause, file)
        yield from _signs(cause, file, messages, kinds)
        for field in ("explains", "excludes"):
            for target in getattr(cause, field):
                known = ids + (list(EFFECTS) if field == "explains" else [])
                if target not in known:
                    yield Problem(
                        file,
                        _at(file, field),
                        f"{field} names an unknown rule {target!r}",
                        hint(target, known),
                    )
        if cause.status in ("deprecated", "withdrawn", "experimental"):
            continue
        if not any(test.fires for test in cause.tests):
            yield Problem(file, _at(file, "tests"), "no test fires this rule", "add a test with fires: true")
        if all(test.fires for test in cause.tests):
            yield Problem(
                file, _at(file, "tests"), "no near-miss among the tests", "add a test with fires: false"
            )
        if not cause.references:
            yield Problem(
                file,
                _at(file, "references"),
                "no reference",
                "say where it is known from: a file and version, an issue, a capture",
            )


def _signs(cause: Cause, file: str, messages: set[str], kinds: dict[str, type[Fact]]) -> Iterator[Problem]:
    groups = [*cause.when.all, *cause.when.any, *cause.when.none, *cause.supports, *cause.weakens]
    groups += [raised.when for raised in cause.severity_if]
    for sign in groups:
        try:
            compiled = compile_sign(sign, kinds)
        except SignError as error:
            yield Problem(file, _at(file, "when"), str(error))
            continue
        for form, name, *_ in leaves(compiled):
            if form == "message" and name not in messages:
                yield Problem(
                    file, _at(file, "when"), f"unknown message {name!r}", hint(name, sorted(messages))
                )


def _applies(cause: Cause, file: str) -> Iterator[Problem]:
    known = [*ENGINES, *PACKAGES, "gpu", "model", "driver", "engine"]
    for name, wanted in cause.applies.items():
        if name not in known:
            yield Problem(
                file, _at(file, "applies"), f"applies names an unknown package {name!r}", hint(name, known)
            )
        if name == "gpu" and isinstance(wanted, dict):
            archs = wanted.get("arch", [])
            for arch in archs if isinstance(archs, list) else [archs]:
                if arch not in ARCHS:
                    yield Problem(
                        file,
                        _at(file, "applies"),
                        f"unknown GPU architecture {arch!r}",
                        hint(str(arch), list(ARCHS)),
                    )
        if name in (*ENGINES, *PACKAGES, "driver") and wanted != "*" and not _is_range(str(wanted)):
            yield Problem(
                file,
                _at(file, "applies"),
                f"{wanted!r} is no version range",
                'write ">=0.5.5,<0.5.11" or "*"',
            )


def _is_range(text: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return True


def _cycles(loaded: Loaded) -> Iterator[Problem]:
    import networkx

    graph: Any = networkx.DiGraph()
    files = {cause.id: file for cause, file in loaded.causes}
    for cause, _ in loaded.causes:
        graph.add_edges_from((cause.id, target) for target in cause.explains if target in files)
    for cycle in networkx.simple_cycles(graph):
        first = min(cycle)
        yield Problem(
            files[first],
            _at(files[first], "explains"),
            f"explains runs in a circle: {' -> '.join([*cycle, cycle[0]])}",
            "one of them must be the cause",
        )


def _at(file: str, key: str) -> int:
    return line_of(Path(file), (key,))


def _line(file: str, identifier: str) -> int:
    wanted = re.compile(rf"\bid:\s*['\"]?{re.escape(identifier)}['\"]?\s*(?:#.*)?$")
    for number, line in enumerate(Path(file).read_text("utf-8", "replace").splitlines(), 1):
        if wanted.search(line):
            return number
    return 0
