"""Helpers to read whatever `open_sources` gives."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from diagnoser.sources import Limits, Unreadable, open_sources


class Read(NamedTuple):
    """Texts and notes by name, in order, and the reasons of what could not be read."""

    texts: dict[str, bytes]
    notes: dict[str, list[str]]
    reasons: dict[str, str]


Reader = Callable[..., Read]


def read_all(*paths: str | Path, limits: Limits | None = None) -> Read:
    read = Read({}, {}, {})
    for source in open_sources(paths, limits=limits):
        if isinstance(source, Unreadable):
            assert source.name not in read.reasons
            read.reasons[source.name] = source.reason
            continue
        assert source.name not in read.texts
        chunks = list(source.chunks())
        assert [chunk.last for chunk in chunks].count(True) == 1
        read.texts[source.name] = b"".join(chunk.data for chunk in chunks)
        read.notes[source.name] = [str(note) for note in source.notes]
    return read


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Reader:
    """Reads relative to `tmp_path`, so that names are short."""
    monkeypatch.chdir(tmp_path)
    return read_all
