"""The tables that travel with the package are used only when they are whole and of this very checkout."""

from pathlib import Path

import pytest

from diagnoser.inference import shipped
from diagnoser.rulebook import book, cache


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cache, "SHIPPED", tmp_path / "compiled")
    monkeypatch.setenv("DIAGNOSER_CACHE", str(tmp_path / "cache"))
    shipped.write(tmp_path / "compiled", book.stamp())
    return tmp_path


def pack() -> object:
    book.pack_for.cache_clear()
    return book.pack_for((book.builtin_folder(),)).as_plain()


def kept(tables: Path) -> list[Path]:
    """What the user's cache holds: nothing as long as the shipped tables are used."""
    return list((tables / "cache").glob("*.pack"))


def test_shipped_tables_spare_the_compilation(tables: Path) -> None:
    assert pack() == book.compiled((book.builtin_folder(),)).as_plain()
    assert kept(tables) == []


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b"", lambda b: b[:40] + bytes([b[40] ^ 1]) + b[41:]]
)
def test_damaged_tables_are_ignored(tables: Path, damage: object) -> None:
    table = tables / "compiled" / "pack"
    table.write_bytes(damage(table.read_bytes()))  # type: ignore[operator]
    assert pack() == book.compiled((book.builtin_folder(),)).as_plain()
    assert len(kept(tables)) == 1


def test_tables_of_another_checkout_are_ignored(tables: Path) -> None:
    shipped.write(tables / "compiled", "another")
    pack()
    assert len(kept(tables)) == 1
