"""Completions for bash, zsh and fish.

Libraries for this know parsers whose first word is a command; here it may be a file as well.
"""

import shlex
from collections.abc import Iterator

from diagnoser.cli.manual.grammar import Command, Option


def completions(main: Command, shell: str) -> str:
    """The text of the file that a shell loads."""
    return "\n".join({"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](main)) + "\n"


def _bash(main: Command) -> Iterator[str]:
    every = list(main.walk())
    nested = [one for one in every if one.commands and one.words]
    yield "# Completions of diagnose for bash"
    yield "_diagnose() {"
    yield '    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command="" words=""'
    yield "    COMPREPLY=()"
    yield "    if ((COMP_CWORD > 1)); then"
    yield f"        case ${{COMP_WORDS[1]}} in {_either(main.commands)}) command=${{COMP_WORDS[1]}} ;; esac"
    yield "    fi"
    yield "    if ((COMP_CWORD > 2)); then"
    yield "        case $command in"
    for one in nested:
        inner = _either(one.commands)
        yield f'        {one.words[-1]}) case ${{COMP_WORDS[2]}} in {inner}) command+=" ${{COMP_WORDS[2]}}" ;; esac ;;'
    yield "        esac"
    yield "    fi"
    yield '    case "$command:$prev" in'
    for one in every:
        for option in one.options:
            if option.value is None:
                continue
            patterns = "|".join(f'"{" ".join(one.words)}:{name}"' for name in option.names)
            if option.choices:
                found = f'COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$cur"))'
            elif option.file:
                found = "compopt -o default 2>/dev/null"
            else:
                found = ":"
            yield f"    {patterns}) {found}; return ;;"
    yield "    esac"
    yield '    case "$command" in'
    for one in every:
        names = " ".join(name for option in one.options for name in option.names if name.startswith("--"))
        inner = " ".join(command.words[-1] for command in one.commands)
        choices = " ".join(choice for option in one.positionals for choice in option.choices)
        behind = max(1, len(one.words) + 1)
        yield f'    "{" ".join(one.words)}") words="{names}"'
        if first := " ".join(filter(None, (inner, choices))):
            yield f"        if [[ $cur != -* ]] && ((COMP_CWORD == {behind})); then"
            yield f'            words="{first}"'
            yield "        fi"
        yield "        ;;"
    yield "    esac"
    yield '    if [[ $cur == -* ]] || [[ $words != -* ]]; then COMPREPLY=($(compgen -W "$words" -- "$cur")); fi'
    yield "    if [[ $cur != -* ]]; then compopt -o default 2>/dev/null; fi"
    yield '    if ((COMP_CWORD == 1)) && [[ $cur != -* ]]; then COMPREPLY+=($(compgen -f -- "$cur")); fi'
    yield "}"
    yield "complete -o bashdefault -F _diagnose diagnose"


def _either(commands: tuple[Command, ...]) -> str:
    return "|".join(one.words[-1] for one in commands)


def _zsh(main: Command) -> Iterator[str]:
    yield "#compdef diagnose"
    yield "# Completions of diagnose for zsh"
    for command in main.walk():
        yield from _zsh_function(command)
    yield '_diagnose "$@"'


def _zsh_function(command: Command) -> Iterator[str]:
    name = "_".join(("_diagnose", *command.words)).replace("-", "_")
    yield f"{name}() {{"
    if command.commands:
        yield "    local -a commands"
        rows = " ".join(shlex.quote(f"{one.words[-1]}:{_short(one.description)}") for one in command.commands)
        yield f"    commands=({rows})"
        yield "    if (( CURRENT == 2 )); then"
        yield "        _describe -t commands command commands"
        yield "        [[ $PREFIX == -* ]] || _files"
        yield "    fi"
        yield "    case $words[2] in"
        for one in command.commands:
            inner = "_".join(("_diagnose", *one.words)).replace("-", "_")
            yield f"    {one.words[-1]})"
            yield f"        if (( CURRENT > 2 )); then shift words; (( CURRENT-- )); {inner}; return; fi ;;"
        yield "    esac"
    specifications = [*_zsh_options(command), *_zsh_positionals(command)]
    yield f"    _arguments -s {' '.join(specifications)}" if specifications else "    _files"
    yield "}"


def _zsh_options(command: Command) -> Iterator[str]:
    for option in command.options:
        for name in option.names:
            others = "*" if option.many else f"({' '.join(option.names)})"
            helped = _short(option.help).replace("[", "(").replace("]", ")").replace(":", "\\:")
            value = f":{(option.value or '').replace(':', '')}:{_zsh_values(option)}" if option.value else ""
            yield shlex.quote(f"{others}{name}[{helped}]{value}")


def _zsh_positionals(command: Command) -> Iterator[str]:
    for option in command.positionals:
        yield shlex.quote(f"{'*' if option.many else ''}:{option.value}:{_zsh_values(option)}")


def _zsh_values(option: Option) -> str:
    if option.choices:
        return f"({' '.join(option.choices)})"
    return "_files" if option.file else " "


def _fish(main: Command) -> Iterator[str]:
    yield "# Completions of diagnose for fish"
    first = "__fish_is_nth_token 1"
    for top in main.commands:
        yield f"complete -c diagnose -n {_quoted(first)} -a {top.words[0]} -d {_quoted(_short(top.description))}"
    for command in main.walk():
        yield from _fish_command(command, main)


def _fish_command(command: Command, main: Command) -> Iterator[str]:
    if not command.words:
        names = " ".join(one.words[0] for one in main.commands)
        condition = f"not __fish_seen_subcommand_from {names}"
    else:
        condition = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.words)
    for inner in command.commands if command.words else ():
        words = " ".join(one.words[-1] for one in command.commands)
        when = f"{condition}; and not __fish_seen_subcommand_from {words}"
        yield f"complete -c diagnose -n {_quoted(when)} -f -a {inner.words[-1]} -d {_quoted(_short(inner.description))}"
    for option in command.options:
        names = " ".join(
            f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
        )
        value = ""
        if option.choices:
            value = f" -x -a {_quoted(' '.join(option.choices))}"
        elif option.value is not None:
            value = " -r -F" if option.file else " -x"
        yield f"complete -c diagnose -n {_quoted(condition)} {names}{value} -d {_quoted(_short(option.help))}"
    for option in command.positionals:
        if option.choices:
            yield f"complete -c diagnose -n {_quoted(condition)} -f -a {_quoted(' '.join(option.choices))}"


def _quoted(text: str) -> str:
    """In fish's single quotes only the quote and the backslash have a meaning."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _short(text: str) -> str:
    """The first clause, on one line."""
    first = text.split(". ", maxsplit=1)[0].split("; ", maxsplit=1)[0].rstrip(".")
    return first if len(first) <= 70 else first[:67].rstrip() + "..."
