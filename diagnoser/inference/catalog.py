"""Joins parsers and rule packs into one table of literals, so that a text is scanned once for everything."""

from functools import lru_cache
from typing import NamedTuple

from diagnoser.inference.quoting import QUOTES, Quote
from diagnoser.parsers import registry
from diagnoser.parsers.base import Parser
from diagnoser.rulebook import cache
from diagnoser.rulebook.book import fingerprint, stamp
from diagnoser.rulebook.pack import Pack
from diagnoser.scan.scanner import HyperscanScanner, NaiveScanner, Scanner, fast_available
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
    """The literal table with what each literal leads to, and a scanner over it. quotes: see `quoting`."""

    literals: list[bytes]
    targets: list[Target]
    scanner: Scanner
    pack: Pack
    quotes: dict[int, Quote]


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
    targets = [
        Target(
            tuple(wordings.get(literal, ())),
            tuple(parsers.get(literal, ())),
            literal in secrets,
            literal in odd,
        )
        for literal in literals
    ]
    opens = {number: quotes[literal] for number, literal in enumerate(literals) if literal in quotes}
    return Catalog(literals, targets, _scanner(literals, naive), pack, opens)


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


def _scanner(literals: list[bytes], naive: bool) -> Scanner:
    if naive or not fast_available():
        return NaiveScanner(literals)
    import hyperscan

    key = cache.key_of(
        ["hyperscan", str(getattr(hyperscan, "__version__", "")), *(literal.hex() for literal in literals)]
    )
    kept = cache.read("hyperscan", key)
    if kept is not None:
        try:
            return HyperscanScanner(literals, kept)
        except hyperscan.error:
            pass
    scanner = HyperscanScanner(literals)
    cache.write("hyperscan", key, scanner.serialize())
    return scanner
