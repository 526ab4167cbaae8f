"""The rules as Markdown pages: an index, a page per pack, and the facts that conditions may name."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from diagnoser.report.catalogue.entry import Book, effect_name, entry
from diagnoser.report.catalogue.fact_page import fact_page
from diagnoser.report.markup import plain
from diagnoser.rulebook.load import Loaded
from diagnoser.rulebook.pack import Pack
from diagnoser.rulebook.words import EFFECTS

MARK = "<!-- Written by `diagnose rules docs`; changes made here are lost. -->"
"""The first line of every page; only files that begin with it are ever replaced or removed."""

KINDS = {"cause": "Causes", "symptom": "Symptoms", "bystander": "Bystanders"}


def catalogue(loaded: Loaded, pack: Pack) -> dict[str, str]:
    """File name -> Markdown. The same rules give the same bytes."""
    book = Book(pack.causes, {message.id: message for message, _ in loaded.messages})
    rules: dict[str, list[Mapping[str, Any]]] = {}
    for identifier in sorted(pack.causes):
        rules.setdefault(book.pack_of(identifier), []).append(pack.causes[identifier])
    messages = Counter(Path(file).parent.name for _, file in loaded.messages)
    names = sorted({*rules, *messages})
    pages = {f"{name}.md": _page(name, rules.get(name, []), book) for name in names}
    pages["index.md"] = _index({name: rules.get(name, []) for name in names}, messages, book)
    pages["facts.md"] = fact_page(book.messages)
    return {name: f"{MARK}\n\n{text}" for name, text in sorted(pages.items())}


def _index(packs: Mapping[str, Sequence[Mapping[str, Any]]], messages: Counter[str], book: Book) -> str:
    return "\n".join(_index_lines(packs, messages, book)) + "\n"


def _index_lines(
    packs: Mapping[str, Sequence[Mapping[str, Any]]], messages: Counter[str], book: Book
) -> Iterator[str]:
    everything = [rule for rules in packs.values() for rule in rules]
    wordings = sum(len(message.wordings) for message in book.messages.values())
    yield "# Rules"
    yield ""
    yield f"{_counted(everything)}; {sum(messages.values())} messages in {wordings} wordings."
    yield "What conditions may name is listed under [facts](facts.md)."
    yield ""
    yield "| pack | causes | symptoms | bystanders | messages |"
    yield "|---|---:|---:|---:|---:|"
    for name, rules in packs.items():
        counts = [sum(rule["kind"] == kind for rule in rules) for kind in KINDS]
        yield f"| [{plain(name)}]({name}.md) | {' | '.join(map(str, counts))} | {messages[name]} |"
    yield ""
    yield "## Effects"
    yield ""
    yield "A cause explains every symptom of its own effect."
    yield ""
    yield "| effect | causes | symptoms |"
    yield "|---|---:|---|"
    for effect in EFFECTS:
        causes = sum(rule["kind"] == "cause" and rule["effect"] == effect for rule in everything)
        shown = ", ".join(
            book.link(rule["id"])
            for rule in everything
            if rule["kind"] == "symptom" and rule["effect"] == effect
        )
        if causes or shown:
            yield f"| {effect_name(effect)} | {causes} | {shown} |"


def _page(name: str, rules: Sequence[Mapping[str, Any]], book: Book) -> str:
    return "\n".join(_page_lines(name, rules, book)) + "\n"


def _page_lines(name: str, rules: Sequence[Mapping[str, Any]], book: Book) -> Iterator[str]:
    yield f"# Rules: {plain(name)}"
    yield ""
    yield f"{_counted(rules)}. [All packs](index.md)"
    for kind, heading in KINDS.items():
        chosen = [rule for rule in rules if rule["kind"] == kind]
        if not chosen:
            continue
        yield ""
        yield f"## {heading}"
        yield ""
        yield from (f"- [{plain(rule['title'])}](#{rule['id']})" for rule in chosen)
        for rule in chosen:
            yield ""
            yield from entry(rule, book)


def _counted(rules: Sequence[Mapping[str, Any]]) -> str:
    counts = Counter(rule["kind"] for rule in rules)
    parts = [f"{counts[kind]} {word.lower() if counts[kind] != 1 else kind}" for kind, word in KINDS.items()]
    return ", ".join(parts)
