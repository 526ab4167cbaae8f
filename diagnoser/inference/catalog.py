"""Joins parsers and rule packs into one table of literals, so that a text is scanned once for everything."""

from functools import lru_cache
from typing import Literal, NamedTuple

from diagnoser.facts.lazy import lazy
from diagnoser.inference.quoting import QUOTES, Quote
from diagnoser.parsers import registry, series
from diagnoser.parsers.base import Parser
from diagnoser.rulebook import cache
from diagnoser.rulebook.book import fingerprint, stamp
from diagnoser.rulebook.pack import Pack
from diagnoser.scan.scanner import (
    AT_START,
    ONCE,
    HyperscanScanner,
    NaiveScanner,
    Scanner,
    Wanted,
    fast_available,
)
from diagnoser.sources import redaction

ODD_LITERALS = (
    b"WARNING",
    b"ERROR",
    b"CRITICAL",
    b"rror:",
    b"Warning:",
    b"FATAL",
    b" W ",
    b"level=WARN",
    b"level=ERROR",
)
"""What a line may hold that somebody meant as a warning. Candidates only; `reading` looks closer."""


_PLAIN = lazy(r"[\w :=,#-]+")
"""Texts that mean themselves as regular expressions."""


class Handle:
    """A parser that is imported on first use. block: it makes documents of its own."""

    __slots__ = ("_module", "_parser", "block", "document", "name")

    def __init__(self, module: str, name: str, document: str | None) -> None:
        self.name = name
        self.document = document
        self.block = document is not None
        self._module = module
        self._parser: Parser | None = None

    @property
    def parser(self) -> Parser:
        if self._parser is None:
            self._parser = registry.load(self._module, self.name)
        return self._parser


class Target(NamedTuple):
    """What one literal leads to; a literal may serve several."""

    wordings: tuple[int, ...]
    parsers: tuple[Handle, ...]
    secret: bool
    odd: bool


class Catalog(NamedTuple):
    """The literal table with what each literal leads to, and a scanner over it. quotes: see `quoting`.

    counted: numbers of the literals of `series.LITERALS`, of which a scan gives the first hit only.
    """

    literals: list[bytes]
    targets: list[Target]
    scanner: Scanner
    pack: Pack
    quotes: dict[int, Quote]
    counted: dict[int, bytes]


def build(pack: Pack, *, naive: bool = False) -> Catalog:
    """The catalog of a pack. ``naive`` forces the slow twin, which also serves platforms without hyperscan."""
    wordings: dict[bytes, list[int]] = {}
    for number, wording in enumerate(pack.wordings):
        wordings.setdefault(wording.literal.encode(), []).append(number)
    parsers: dict[bytes, list[Handle]] = {}
    for module, name, texts, document in _entries():
        handle = Handle(module, name, document)
        for text in texts:
            parsers.setdefault(text.encode(), []).append(handle)
    secrets, odd = set(redaction.LITERALS), set(ODD_LITERALS)
    quotes = {quote.literal: quote for quote in QUOTES}
    literals = list(dict.fromkeys([*wordings, *parsers, *redaction.LITERALS, *ODD_LITERALS, *quotes]))
    # Numbered apart, even where one is in the table already, for only the first hit of these is wanted.
    counted = dict(enumerate(series.LITERALS, len(literals)))
    targets = [
        Target(
            tuple(wordings.get(literal, ())),
            tuple(parsers.get(literal, ())),
            literal in secrets,
            literal in odd,
        )
        for literal in literals
    ] + [Target((), (), False, False)] * len(counted)
    opens = {number: quotes[literal] for number, literal in enumerate(literals) if literal in quotes}
    wanted: dict[int, Literal["once", "at start"]] = dict.fromkeys(counted, ONCE)
    for number, (literal, target) in enumerate(zip(literals, targets, strict=False)):
        if number not in opens and _begins_lines(literal, target, pack):
            wanted[number] = AT_START
    literals += counted.values()
    return Catalog(literals, targets, _scanner(literals, wanted, naive), pack, opens, counted)


def _begins_lines(literal: bytes, target: Target, pack: Pack) -> bool:
    """Whether a literal matters only where a line begins with it."""
    text = literal.decode("ascii", "replace")
    return (
        not (target.parsers or target.secret or target.odd)
        and _PLAIN.fullmatch(text) is not None
        and all(_at_start(pack.wordings[number].pattern or "", text) for number in target.wordings)
    )


@lru_cache(maxsize=4)
def catalog_for(folders: tuple[str, ...], naive: bool = False) -> Catalog:
    """The catalog of some rule folders, built once per process."""
    from pathlib import Path

    from diagnoser.rulebook.book import pack_for

    return build(pack_for(tuple(map(Path, folders))), naive=naive)


def _entries() -> list[registry.Entry]:
    """The table of parsers, from the cache where it can be."""
    shipped = cache.read_shipped("parsers", stamp())
    if shipped is not None:
        return [registry.Entry(*entry) for entry in shipped]
    key = cache.key_of(["parsers", *fingerprint("parsers")])
    plain = cache.read_plain("parsers", key)
    if plain is not None:
        return [registry.Entry(*entry) for entry in plain]
    found = registry.entries()
    cache.write_plain("parsers", key, [tuple(entry) for entry in found])
    return found


def _at_start(pattern: str, text: str) -> bool:
    return pattern.startswith("^" + text) and "|" not in pattern


def _scanner(literals: list[bytes], wanted: Wanted, naive: bool) -> Scanner:
    if naive or not fast_available():
        return NaiveScanner(literals, wanted)
    import hyperscan

    key = cache.key_of(
        [
            "hyperscan",
            str(getattr(hyperscan, "__version__", "")),
            *(f"{literal.hex()} {wanted.get(number, '')}" for number, literal in enumerate(literals)),
        ]
    )
    kept = cache.read("hyperscan", key)
    if kept is not None:
        try:
            return HyperscanScanner(literals, kept)
        except hyperscan.error:
            pass
    scanner = HyperscanScanner(literals, wanted=wanted)
    cache.write("hyperscan", key, scanner.serialize())
    return scanner
