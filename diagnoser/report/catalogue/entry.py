"""One rule as Markdown: what it says, how it is recognised, what undoes it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from diagnoser.inference.fixes import fix_text
from diagnoser.report.markup import code, linked, plain
from diagnoser.rulebook import template
from diagnoser.rulebook.describe import GROUPS, describe_applies, describe_leaf, describe_order, span
from diagnoser.rulebook.models import Message, Wording
from diagnoser.rulebook.words import EFFECTS, ENGINES

_WORDS = re.compile(r"[^\w.-]")


class Book(NamedTuple):
    """What an entry looks up: compiled causes by id, messages by id."""

    causes: Mapping[str, Mapping[str, Any]]
    messages: Mapping[str, Message]

    def pack_of(self, identifier: str) -> str:
        """The pack of a rule: the folder its file lies in."""
        return _WORDS.sub("-", Path(self.causes[identifier]["file"]).parent.name)

    def link(self, identifier: str) -> str:
        if identifier not in self.causes:
            return code(identifier)
        return f"[{code(identifier)}]({self.pack_of(identifier)}.md#{identifier})"

    def pointing_at(self, identifier: str, relation: str) -> list[str]:
        """The rules whose ``explains`` or ``excludes`` names this one."""
        return sorted(other for other, cause in self.causes.items() if identifier in cause[relation])


def effect_name(effect: str) -> str:
    return effect.replace("_", " ")


def entry(rule: Mapping[str, Any], book: Book) -> Iterator[str]:
    """The lines of one rule."""
    tags = [effect_name(rule["effect"]), rule["severity"], f"{rule['strength']} evidence", rule["status"]]
    yield f'<a id="{rule["id"]}"></a>'
    yield ""
    yield f"### {plain(rule['title'])}"
    yield ""
    yield f"{code(rule['id'])}: {rule['kind']}, {', '.join(tags)}"
    if rule["why"]:
        yield ""
        yield plain(rule["why"])
    for heading, lines in _sections(rule, book):
        if lines:
            yield ""
            yield f"**{heading}**"
            yield ""
            yield from lines


def _sections(rule: Mapping[str, Any], book: Book) -> Iterator[tuple[str, list[str]]]:
    for group, words in GROUPS.items():
        yield f"Recognised by {words}", _signs(rule[group], book)
    yield "Made likelier by", _signs(rule["supports"], book)
    yield "Made less likely by", _signs(rule["weakens"], book)
    yield (
        "Severity",
        [
            line
            for sign, severity in rule["severity_if"]
            for line in [f"- {severity} when", *_sign(sign, book, "  ")]
        ],
    )
    yield "Applies to", [f"- {plain(describe_applies({name: w}))}" for name, w in rule["applies"].items()]
    yield "Fixes", [line for fix in rule["fixes"] for line in _fix(fix, book)]
    yield "Gain", list(_gain(rule.get("gain")))
    yield "What would decide", [f"- {plain(ask['question'])} {code(ask['command'])}" for ask in rule["ask"]]
    yield "Explains", list(_explains(rule, book))
    yield "Excludes", _listed(rule["excludes"], book)
    yield "Explained by", _listed(book.pointing_at(rule["id"], "explains"), book)
    yield "Excluded by", _listed(book.pointing_at(rule["id"], "excludes"), book)
    yield "References", [f"- {linked(reference)}" for reference in rule["references"]]


def _signs(signs: Sequence[list[Any]], book: Book) -> list[str]:
    return [line for sign in signs for line in _sign(sign, book, "")]


def _sign(sign: list[Any], book: Book, indent: str) -> Iterator[str]:
    form, deeper = sign[0], indent + "  "
    if form in GROUPS or form == "sequence":
        yield f"{indent}- {GROUPS.get(form) or describe_order(sign)}"
        for inner in sign[1]:
            yield from _sign(inner, book, deeper)
    elif form == "absent":
        yield f"{indent}- after"
        yield from _sign(sign[1], book, deeper)
        yield f"{indent}- and not within {span(sign[3])}"
        yield from _sign(sign[2], book, deeper)
    elif form == "applies":
        yield f"{indent}- {plain(describe_applies(sign[1]))}"
    else:
        yield f"{indent}- {_leaf(sign)}"
        if form == "message" and sign[1] in book.messages:
            message = book.messages[sign[1]]
            yield from (f"{deeper}- {_wording(wording, message)}" for wording in message.wordings)


def _leaf(sign: list[Any]) -> str:
    text = describe_leaf(sign, quote=code)
    name = code(sign[1])
    return text.replace(name, f"[{name}](facts.md#{sign[1]})", 1) if sign[0] == "fact" else text


def _wording(wording: Wording, message: Message) -> str:
    said = code(wording.text) if wording.text is not None else f"pattern {code(wording.pattern or '')}"
    releases = _releases(wording.since, wording.until)
    engine = message.engine or template.engine_of(message.id)
    program = f"{engine} " if engine in ENGINES else ""
    return f"{said} ({program}{releases})" if releases else said


def _releases(since: str | None, until: str | None) -> str:
    if since and until:
        return since if since == until else f"{since} to {until}"
    return f"{since} and later" if since else (f"up to {until}" if until else "")


def _fix(fix: Mapping[str, Any], book: Book) -> Iterator[str]:
    shown = fix_text(fix)
    command = plain(shown.command) if shown.action == "do" else code(shown.command)
    details = [f"risk {shown.risk}", "restart needed" if shown.restart else "no restart"]
    if shown.undo:
        details.append(f"undo: {plain(shown.undo)}")
    yield f"- {command} ({'; '.join(details)})"
    if shown.note:
        yield f"  - {plain(shown.note)}"
    if fix.get("when"):
        yield "  - only when"
        yield from _sign(fix["when"], book, "    ")


def _gain(gain: Mapping[str, Any] | None) -> Iterator[str]:
    if gain:
        yield f"{plain(gain['change'])} {code(gain['metric'])}; {plain(gain['where'])} ({linked(gain['source'])})"


def _explains(rule: Mapping[str, Any], book: Book) -> Iterator[str]:
    effects = [word for word in rule["explains"] if word in EFFECTS]
    if rule["kind"] == "cause" and rule["effect"] != "none":
        effects.insert(0, rule["effect"])
    yield from _listed([word for word in rule["explains"] if word not in EFFECTS], book)
    for effect in dict.fromkeys(effects):
        yield f"- every [symptom](index.md#effects) of: {effect_name(effect)}"


def _listed(identifiers: Sequence[str], book: Book) -> list[str]:
    return [f"- {book.link(name)}" + _title(name, book) for name in identifiers]


def _title(identifier: str, book: Book) -> str:
    return f" {plain(book.causes[identifier]['title'])}" if identifier in book.causes else ""
