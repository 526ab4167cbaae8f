"""The tables that travel with the package, made when it is built (`hatch_build.py`)."""

from pathlib import Path

from diagnoser.parsers import registry
from diagnoser.rulebook import book, cache


def write(target: Path, stamp: str) -> None:
    """Compile the built-in rules and the table of parsers into ``target``. Raises OSError.

    stamp: the version for a wheel, `book.stamp` for a checkout.
    """
    pack = book.compiled((book.builtin_folder(),))
    cache.write_shipped(target, "pack", stamp, pack.as_plain())
    cache.write_shipped(target, "parsers", stamp, [tuple(entry) for entry in registry.entries()])
