"""What differs between two configurations, in pieces that can be reverted one by one."""

from collections.abc import Mapping
from typing import NamedTuple

from diagnoser.experiment.change import Change, Changes, Config

INERT = frozenset([
    "host", "port", "log_level", "log_level_http", "log_requests", "log_requests_level", "served_model_name", "api_key",
    "admin_api_key", "random_seed", "seed", "nccl_port", "dist_init_addr", "show_time_cost", "crash_dump_folder",
    "uvicorn_log_level", "disable_log_requests", "disable_log_stats", "decode_log_interval", "collect_tokens_histogram",
    "alias", "log_file", "log_prefix", "log_timestamps", "no_webui", "model_path", "tokenizer_path", "model",
])  # fmt: skip
"""What makes no server faster or slower, and what makes it another server altogether."""

INERT_VARIABLES = frozenset(
    ["PWD", "OLDPWD", "SHLVL", "_", "TERM", "LOGNAME", "USER", "HOME", "LANG", "LS_COLORS", "HISTFILE"]
)

TOGETHER = (frozenset(["CUDA_HOME", "CUDA_PATH", "TRITON_PTXAS_PATH", "LD_LIBRARY_PATH"]),)
"""Variables of one toolkit: half of them changed is no configuration that anybody would run."""

Value = str | int | float | bool | None


class Difference(NamedTuple):
    """One difference. name: as it is told. revert: the changes that make the bad configuration good in this point."""

    name: str
    good: str
    bad: str
    revert: Changes

    def __str__(self) -> str:
        return f"{self.name}: {self.good} (good), {self.bad} (bad)"


def of_configs(good: Config, bad: Config) -> list[Difference]:
    """Between two commands with their environments."""
    ours, theirs = _flags(good.command), _flags(bad.command)
    found = []
    for name in [*dict.fromkeys([*theirs, *ours])]:
        if _plain(name) in INERT or ours.get(name) == theirs.get(name):
            continue
        found.append(_flag(name, ours.get(name), theirs.get(name)))
    return found + _variables(dict(good.environment), dict(bad.environment))


def of_flags(good: Mapping[str, Value], bad: Mapping[str, Value]) -> list[Difference]:
    """Between the flags that two logs tell, by their names with underscores; also what only one of them tells."""
    found = []
    for name in sorted(good.keys() | bad.keys()):
        before, after = good.get(name), bad.get(name)
        if before == after or name in INERT:
            continue
        found.append(_flag(f"--{name.replace('_', '-')}", _words(before), _words(after)))
    return found


def _words(value: Value) -> str | None:
    """A value as it is given on a command line; "" for a switch, None for what is not given."""
    if value is None or value is False:
        return None
    return "" if value is True else str(value)


def _flag(name: str, good: str | None, bad: str | None) -> Difference:
    change = Change("unset_flag", name) if good is None else Change("set_flag", name, good or None)
    return Difference(name, _told(good), _told(bad), (change,))


def _told(value: str | None) -> str:
    return "not given" if value is None else value or "given"


def _variables(good: Mapping[str, str | None], bad: Mapping[str, str | None]) -> list[Difference]:
    differ = [
        name
        for name in sorted(good.keys() | bad.keys())
        if good.get(name) != bad.get(name) and name not in INERT_VARIABLES
    ]
    groups: dict[frozenset[str], list[str]] = {}
    for name in differ:
        groups.setdefault(next((one for one in TOGETHER if name in one), frozenset([name])), []).append(name)
    return [
        Difference(
            " and ".join(names),
            ", ".join(_told(good.get(name)) for name in names),
            ", ".join(_told(bad.get(name)) for name in names),
            tuple(
                Change("unset_env", name)
                if (value := good.get(name)) is None
                else Change("set_env", name, value)
                for name in names
            ),
        )
        for names in groups.values()
    ]


def _plain(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _flags(command: tuple[str, ...]) -> dict[str, str]:
    """The flags of a command; "" for a switch."""
    found: dict[str, str] = {}
    last: str | None = None
    for word in command[1:]:
        if word.startswith("-") and not word.lstrip("-")[:1].isdigit():
            name, sign, value = word.partition("=")
            found[name] = value
            last = None if sign else name
        elif last is not None:
            found[last] = word
            last = None
    return found
