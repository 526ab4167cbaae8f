"""All commands with their options, as the parsers of the command line know them."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple
from unittest import mock

from diagnoser.cli.main import COMMANDS

FILES = frozenset(["PATH", "FILE", "DIR", "LOG", "JOURNAL", "GOOD", "BAD", "A", "B", "CASES", "LOG|CMD"])
"""Metavars whose value is a file or a folder."""


class Option(NamedTuple):
    """names: as on the command line; empty for a positional. value: its metavar, None for a switch. many: it may be
    given, or take values, several times."""

    names: tuple[str, ...]
    value: str | None
    choices: tuple[str, ...]
    help: str
    many: bool = False

    @property
    def file(self) -> bool:
        """Whether its value is a file or a folder."""
        return self.value in FILES


class Command(NamedTuple):
    """A command with its own commands. words: as typed behind the program's name; empty for the main command."""

    words: tuple[str, ...]
    description: str
    epilog: str
    options: tuple[Option, ...]
    positionals: tuple[Option, ...]
    commands: tuple["Command", ...]

    def walk(self) -> Iterator["Command"]:
        """This command and all below it."""
        yield self
        for one in self.commands:
            yield from one.walk()


class _Caught(BaseException):
    """Carries a parser out of the command that would have used it."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def grammar() -> Command:
    """Every command. Each builds its parser when it runs, so each is run up to there."""
    main = _command((), _parser("diagnose"))
    return main._replace(commands=tuple(_command((name,), _parser(name)) for name in COMMANDS))


def _parser(module: str) -> argparse.ArgumentParser:
    with _catching():
        try:
            import_module(f"diagnoser.cli.{module}").run([])
        except _Caught as caught:
            return caught.parser
    raise RuntimeError(f"the command {module} parses no arguments")


@contextmanager
def _catching() -> Iterator[None]:
    def caught(self: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        raise _Caught(self)

    with mock.patch.object(argparse.ArgumentParser, "parse_args", caught):
        yield


def _command(words: tuple[str, ...], parser: argparse.ArgumentParser) -> Command:
    options: list[Option] = []
    positionals: list[Option] = []
    commands: list[Command] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, inner in action.choices.items():
                made = _command((*words, name), inner)
                commands.append(made._replace(description=made.description or helps.get(name, "")))
        elif action.help != argparse.SUPPRESS:
            (options if action.option_strings else positionals).append(_option(action, parser))
    return Command(
        words,
        " ".join((parser.description or "").split()),
        (parser.epilog or "").strip("\n"),
        tuple(options),
        tuple(positionals),
        tuple(commands),
    )


def _option(action: argparse.Action, parser: argparse.ArgumentParser) -> Option:
    takes = action.nargs != 0
    choices = tuple(map(str, action.choices or ()))
    value = _metavar(action, choices) if takes else None
    told = parser._get_formatter()._expand_help(action) if action.help else ""
    many = action.nargs in ("*", "+") or isinstance(action, argparse._AppendAction)
    return Option(tuple(action.option_strings), value, choices, " ".join(told.split()), many)


def _metavar(action: argparse.Action, choices: Sequence[str]) -> str:
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar:
        return action.metavar
    return f"{{{','.join(choices)}}}" if choices else action.dest.upper().replace("_", "-")
