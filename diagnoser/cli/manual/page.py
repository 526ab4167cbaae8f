"""The manual page, in roff (man(7)) and as Markdown."""

from collections.abc import Iterator

from diagnoser.cli.manual.grammar import Command, Option
from diagnoser.report import markup
from diagnoser.version import __version__

FILES = (
    ("~/.config/diagnoser/config.toml", "defaults: format, quiet, rules, no_color, year, tail, workers"),
    ("~/.config/diagnoser/rules/", "further rules"),
    ("~/.local/state/diagnoser/", "the journals of experiments, and what was kept with --save"),
)

VARIABLES = (
    ("DIAGNOSER_CONFIG", "the config file, instead of the one above"),
    ("DIAGNOSER_STATE", "the state folder, instead of the one above"),
    ("DIAGNOSER_API_KEY", "the key of a server that is measured"),
    ("DIAGNOSER_POST_SECRET, DIAGNOSER_POST_AUTHORIZATION", "see --post"),
    ("PAGERDUTY_ROUTING_KEY", "see --format pagerduty"),
    ("NO_COLOR, COLUMNS", "as everywhere"),
    ("DIAGNOSER_DEBUG", "show where a fault of the tool lies"),
)


def as_man(main: Command) -> str:
    """One page for all commands, diagnose(1)."""
    return "\n".join(_man(main)) + "\n"


def _man(main: Command) -> Iterator[str]:
    yield f'.TH DIAGNOSE 1 "" "diagnoser {__version__}" "User Commands"'
    yield ".SH NAME\ndiagnose \\- why an LLM inference server is slow or will not start"
    yield ".SH SYNOPSIS"
    yield f".B diagnose\n{_roff(_synopsis(main))}"
    yield f".br\n.B diagnose\n.I COMMAND\n{_roff('...')}"
    yield f".SH DESCRIPTION\n{_roff(main.description)}"
    yield ".SH OPTIONS"
    yield from _man_options(main)
    yield from _man_notes(main)
    yield ".SH COMMANDS"
    for top in main.commands:
        for command in top.walk():
            yield f".SS diagnose {_roff(' '.join(command.words))} {_roff(_synopsis(command))}"
            if command.description:
                yield _roff(command.description)
            yield from _man_options(command)
            yield from _man_notes(command)
    yield ".SH FILES"
    yield from (f".TP\n.I {_roff(name)}\n{_roff(what)}" for name, what in FILES)
    yield ".SH ENVIRONMENT"
    yield from (f".TP\n.B {_roff(name)}\n{_roff(what)}" for name, what in VARIABLES)


def _man_options(command: Command) -> Iterator[str]:
    for option in (*command.positionals, *command.options):
        yield f".TP\n{_man_names(option)}"
        yield _roff(option.help or "see above")


def _man_names(option: Option) -> str:
    if not option.names:
        return f".I {_roff(option.value or '')}"
    names = ", ".join(f"\\fB{_roff(name)}\\fR" for name in option.names)
    return f"{names} \\fI{_roff(option.value)}\\fR" if option.value else names


def _man_notes(command: Command) -> Iterator[str]:
    """What stands behind the options in --help: exit codes and examples, as they are laid out there."""
    if command.epilog:
        yield ".PP\n.nf"
        yield from map(_roff, command.epilog.split("\n"))
        yield ".fi"


def _roff(text: str) -> str:
    """Text that roff prints as it is: no escape, no hyphenated dash, no request at its beginning."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def as_markdown(main: Command) -> str:
    """The same for the documentation."""
    return "\n".join(_markdown(main)) + "\n"


def _markdown(main: Command) -> Iterator[str]:
    yield "# Every command\n"
    yield "Written by `diagnose manual --format markdown`; the same stands in `man diagnose`.\n"
    for command in main.walk():
        yield f"## {markup.plain(' '.join(('diagnose', *command.words)))}\n"
        if command.description:
            yield f"{markup.plain(command.description)}\n"
        yield f"    diagnose {' '.join((*command.words, _synopsis(command)))}\n"
        rows = [
            f"| {markup.code(_names(one).replace('|', ' or '))} | {markup.plain(one.help)} |"
            for one in (*command.positionals, *command.options)
            if "--help" not in one.names
        ]
        if rows:
            yield "\n".join(["| option | |", "|---|---|", *rows, ""])
        if command.epilog:
            yield "\n".join(f"    {line}".rstrip() for line in command.epilog.split("\n")) + "\n"
    yield "## Files and variables\n"
    yield "\n".join(f"- {markup.code(name)}: {markup.plain(what)}" for name, what in (*FILES, *VARIABLES))


def _names(option: Option) -> str:
    return " ".join(filter(None, (", ".join(option.names), option.value)))


def _synopsis(command: Command) -> str:
    words = ["[OPTION]..."] if command.options else []
    words += [f"[{one.value}]..." if one.many else str(one.value) for one in command.positionals]
    return " ".join([*words, *(["COMMAND ..."] if command.commands and command.words else [])])
