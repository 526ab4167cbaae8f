"""Validated models -> the compiled pack."""

from typing import Any

from diagnoser.facts.base import Fact
from diagnoser.rulebook import template
from diagnoser.rulebook.load import Loaded
from diagnoser.rulebook.models import Cause, Message
from diagnoser.rulebook.pack import CompiledMessage, CompiledWording, Pack
from diagnoser.rulebook.problems import Problem
from diagnoser.rulebook.signs import SignError, compile_sign, leaves
from diagnoser.rulebook.words import EFFECTS, ENGINES

CAPTURE_TYPES = frozenset(["", "lower", "int", "float", "word", "name", "quoted"])

_DROPPED = {"messages", "tests", "when", "supports", "weakens", "severity_if"}


def compile_pack(loaded: Loaded, kinds: dict[str, type[Fact]]) -> tuple[Pack, list[Problem]]:
    """The pack of everything that is right, and the problems of what is wrong and was left out."""
    problems = list(loaded.problems)
    causes: dict[str, dict[str, Any]] = {}
    pack = Pack([], [], causes, {}, {}, [])
    for message, file in loaded.messages:
        _add_message(pack, message, file, problems)
    for cause, file in loaded.causes:
        if cause.id in causes:
            problems.append(Problem(file, 0, f"the id {cause.id!r} is used twice"))
            continue
        if cause.status == "withdrawn":
            continue
        try:
            causes[cause.id] = _plain_cause(cause, file, kinds)
        except SignError as error:
            problems.append(Problem(file, 0, str(error)))
    _resolve(pack)
    _sampled(pack)
    pack.problems.extend(str(problem) for problem in problems)
    return pack, problems


def _add_message(pack: Pack, message: Message, file: str, problems: list[Problem]) -> None:
    wordings = []
    for wording in message.wordings:
        try:
            plan = template.parse(wording.text, CAPTURE_TYPES) if wording.text is not None else None
            literal = wording.literal or template.literal(plan or ())
        except template.TemplateError as error:
            problems.append(Problem(file, 0, f"message {message.id}: {error}"))
            continue
        wordings.append((literal, plan, wording))
    engine = message.engine or template.engine_of(message.id)
    number = len(pack.messages)
    pack.messages.append(
        CompiledMessage(
            message.id,
            engine if engine in ENGINES else None,
            message.marks,
            tuple(message.gives),
            message.about,
        )
    )
    pack.wordings.extend(
        CompiledWording(number, literal, plan, wording.pattern, wording.since, wording.until)
        for literal, plan, wording in wordings
    )


def _plain_cause(cause: Cause, file: str, kinds: dict[str, type[Fact]]) -> dict[str, Any]:
    plain = cause.model_dump(exclude=_DROPPED, exclude_none=True)
    plain["file"] = file
    for group in ("all", "any", "none"):
        plain[group] = [compile_sign(sign, kinds) for sign in getattr(cause.when, group)]
    for field in ("supports", "weakens"):
        plain[field] = [compile_sign(sign, kinds) for sign in getattr(cause, field)]
    plain["severity_if"] = [
        [compile_sign(raised.when, kinds), raised.severity] for raised in cause.severity_if
    ]
    for fix, model in zip(plain["fixes"], cause.fixes, strict=True):
        if model.when is not None:
            fix["when"] = compile_sign(model.when, kinds)
    return plain


def _resolve(pack: Pack) -> None:
    """Effects in ``explains`` become the ids of the symptoms with that effect; the watchers are indexed."""
    symptoms: dict[str, list[str]] = {}
    for identifier, cause in pack.causes.items():
        if cause["kind"] == "symptom":
            symptoms.setdefault(cause["effect"], []).append(identifier)
    for identifier, cause in pack.causes.items():
        explained = [
            target
            for word in cause["explains"]
            for target in (symptoms.get(word, []) if word in EFFECTS else [word])
        ]
        if cause["kind"] == "cause":
            explained += symptoms.get(cause["effect"], [])
        cause["explained"] = sorted(set(explained) - {identifier})
        for sign in cause["all"] + cause["any"]:
            for form, name, *_ in leaves(sign):
                watched = f"message:{name}" if form == "message" else name
                watchers = pack.watchers.setdefault(watched, [])
                if identifier not in watchers:
                    watchers.append(identifier)


def _sampled(pack: Pack) -> None:
    releases: dict[str, set[str]] = {}
    for wording in pack.wordings:
        engine = pack.messages[wording.message].engine
        if engine is not None:
            releases.setdefault(engine, set()).update(
                release for release in (wording.since, wording.until) if release is not None
            )
    pack.releases.update({engine: sorted(found) for engine, found in sorted(releases.items())})
