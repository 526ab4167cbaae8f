"""`--report FILE`: the postmortem beside the answer."""

import argparse
import io
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from diagnoser.cli.output import give

if TYPE_CHECKING:
    from diagnoser.agent.session import Options
    from diagnoser.compare.regression import Regression
    from diagnoser.inference.diagnose import Judged
    from diagnoser.sources import Source, Unreadable

    Again = Callable[[], Iterable[Source | Unreadable]]

KEPT_INPUT = 64 << 20
"""Bytes of standard input that are kept, to show the lines around the evidence."""

_REPEATED = ("host", "log", "baseline", "rules")
_SINGLE = ("hosts_file", "since", "until", "tail", "launch", "year")
_SWITCHES = ("fast", "sudo", "naive")


def add(options: argparse.ArgumentParser) -> None:
    """The options of the postmortem."""
    options.add_argument("--report", metavar="FILE", help="write the postmortem too: FILE.html or FILE.md")
    options.add_argument(
        "--proof",
        metavar="JOURNAL",
        help="with --report: the experiment that proved the fix (`diagnose confirm`)",
    )


def check(options: argparse.Namespace) -> str | None:
    """The sentence why no postmortem can be written as asked, before anything is read; None where it can."""
    if not options.report:
        return "--proof belongs to --report FILE" if options.proof else None
    if options.output and os.path.realpath(options.output) == os.path.realpath(options.report):
        return "--output and --report name the same file"
    from diagnoser.agent import postmortem
    from diagnoser.agent.session import CallError

    try:
        postmortem.check(Path(options.report), _path(options.proof))
    except CallError as error:
        return str(error)
    return None


def hold_input(given: Sequence[str]) -> "Again":
    """Makes the sources readable a second time, standard input too where it is not too long."""
    from diagnoser.sources import open_sources

    data = b""
    if "-" in given:
        data = sys.stdin.buffer.read(KEPT_INPUT + 1)
        whole = len(data) <= KEPT_INPUT
        sys.stdin = _reader(io.BytesIO(data) if whole else io.BufferedReader(_Joined(data, sys.stdin.buffer)))
        if not whole:
            given = [path for path in given if path != "-"]

    def again() -> "Iterable[Source | Unreadable]":
        if "-" in given:
            sys.stdin = _reader(io.BytesIO(data))
        return open_sources(given)

    return again


def write(
    judged: "Judged",
    options: argparse.Namespace,
    settings: "Options",
    again: "Again | None" = None,
    regression: "Regression | None" = None,
) -> str | None:
    """Write the postmortem; the sentence why it could not be, or None."""
    from diagnoser.agent import postmortem
    from diagnoser.agent.session import CallError

    paths = [path for path in options.paths if Path(path).is_file()]
    order = postmortem.Order(
        Path(options.report),
        call(options),
        paths,
        again() if again else (),
        _path(options.proof),
        regression,
    )
    try:
        text = postmortem.write(judged, order, settings)
    except CallError as error:
        return str(error)
    sentence = give(text, options.report)
    return sentence.replace("--output", "--report", 1) if sentence else None


def call(options: argparse.Namespace) -> list[str]:
    """The words that give the same diagnosis again."""
    words: list[str] = []
    for name in _REPEATED:
        for value in getattr(options, name) or ():
            words += [f"--{name}", value]
    for name in _SINGLE:
        value = getattr(options, name)
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    words += [f"--{name}" for name in _SWITCHES if getattr(options, name)]
    paths = options.paths or ([] if options.host or options.hosts_file else ["-"])
    return [*words, *(["--"] if any(path.startswith("-") and path != "-" for path in paths) else []), *paths]


def _path(name: str | None) -> Path | None:
    return Path(name) if name else None


def _reader(buffer: "io.BytesIO | io.BufferedReader") -> io.TextIOWrapper:
    return io.TextIOWrapper(buffer, encoding="utf-8", errors="surrogateescape")


class _Joined(io.RawIOBase):
    """Bytes that were read already, and then the rest of a stream."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = memoryview(head)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        view = memoryview(buffer).cast("B")
        if self._head:
            count = min(len(view), len(self._head))
            view[:count] = self._head[:count]
            self._head = self._head[count:]
            return count
        part = self._rest.read(len(view))
        view[: len(part)] = part
        return len(part)
