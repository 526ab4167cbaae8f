"""Every parser of the house. A new module is added to the names here and nowhere else.

Importing all of them costs more than a diagnosis, so callers keep a table of `entries` and load a module only
when one of its literals stands in the text.
"""

from functools import cache
from importlib import import_module
from typing import NamedTuple

from diagnoser.parsers.base import Parser

MODULES = (
    "nvidia_smi",
    "kernel",
    "nccl",
    "loader",
    "cuda_errors",
    "traceback",
    "host",
    "lspci",
    "packages",
    "sglang",
    "vllm",
    "llamacpp",
    "other_engines",
    "bench_text",
    "json_documents",
    "metrics",
)


class Entry(NamedTuple):
    """What is known of a parser without importing it: its module, its name, its literals, and its document."""

    module: str
    name: str
    literals: tuple[str, ...]
    document: str | None


def entries() -> list[Entry]:
    """All parsers; imports every module."""
    return [
        Entry(module, parser.name, parser.literals, parser.document)
        for module in MODULES
        for parser in _parsers(module).values()
    ]


def load(module: str, name: str) -> Parser:
    """One parser."""
    return _parsers(module)[name]


@cache
def _parsers(module: str) -> dict[str, Parser]:
    parsers: tuple[Parser, ...] = import_module(f"diagnoser.parsers.{module}").PARSERS
    return {parser.name: parser for parser in parsers}
