"""From the arguments of `diagnose confirm` to a plan, or to the sentence why there is none."""

import argparse
import re
import shlex
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from diagnoser.experiment import history
from diagnoser.experiment.bisect.differences import Difference, of_configs, of_flags
from diagnoser.experiment.change import ACTIONS, Change, Changes, Config
from diagnoser.experiment.hands import Hands, over_ssh, this_machine
from diagnoser.experiment.launchers import container, process, systemd
from diagnoser.experiment.launchers.base import Launcher, LauncherError
from diagnoser.experiment.launchers.custom import CustomLauncher
from diagnoser.experiment.launchers.process import ProcessLauncher
from diagnoser.experiment.load.bench import Plan as Load
from diagnoser.experiment.load.client import UnusableError
from diagnoser.experiment.plan import DEFAULT_WORKLOAD, WORKLOADS, Plan
from diagnoser.experiment.starting import connections
from diagnoser.experiment.statistics import FLOORS

_HERE = ("local", "localhost", "127.0.0.1")


class Server(NamedTuple):
    """The server that was named. running: its process and when that was started."""

    launcher: Launcher
    running: tuple[int, int] | None
    up: bool
    log: str | None = None


def hands_of(options: argparse.Namespace) -> Hands:
    """The machine that was named; nothing is dialled yet."""
    name = options.host
    if name is None or name in (*_HERE, socket.gethostname()):
        return this_machine()
    return over_ssh(name)


def plan_of(options: argparse.Namespace, hands: Hands) -> Plan | str:
    """The experiment that the call means. Raises `ChannelError` where the machine cannot be reached."""
    if not options.url:
        return "--url is needed: where the server answers"
    changes, workload, sentence = _changes(options)
    if sentence:
        return sentence
    try:
        server = server_of(options, hands)
    except LauncherError as error:
        return str(error)
    lacks = server.launcher.lacks(changes) if changes else None
    if lacks:
        return lacks
    return _planned(options, hands, server, changes, workload)


def _planned(
    options: argparse.Namespace, hands: Hands, server: Server, changes: Changes, workload: str
) -> Plan | str:
    load = load_of(options, workload)
    if isinstance(load, str):
        return load
    name, metric, chosen, given = load
    try:
        gap = float(options.gap.rstrip("%")) / 100 if options.gap else None
    except ValueError:
        return f"--gap {options.gap} is no percentage"
    return Plan(
        host=hands.name, url=options.url, launcher=server.launcher, changes=changes, workload=name, metric=metric,
        load=chosen, gap=gap, running=server.running, was_up=server.up, keep_fix=options.keep_fix,
        remote=not hands.local, dead_man_s=options.dead_man, noise=history.noise(hands.name)(metric),
        running_log=server.log, chain=options.chain, given=given,
    )  # fmt: skip


def bisection_of(
    options: argparse.Namespace, hands: Hands
) -> tuple[Plan, list[Difference], list[float]] | str:
    """The plan of a bisection, its differences and the suspicion of each; or the sentence why there is none.

    Raises `ChannelError` where the machine cannot be reached.
    """
    from diagnoser.agent.causes import flags_of, suspicion

    if not options.url:
        return "--url is needed: where the server answers"
    logs = [Path(text) for text in (options.good, options.bad) if _exists(text)]
    try:
        if len(logs) == 2:
            server = server_of(options, hands)
            good, bad = flags_of(logs[0]), flags_of(logs[1])
            for log, flags in zip(logs, (good, bad), strict=True):
                if not flags:
                    return f"{log}: it tells no flags of a server"
            differences = of_flags(good, bad)
        elif logs:
            return f"{logs[0]} is a log and the other side is none; give two logs or two commands"
        else:
            if any(getattr(options, name) is not None for name in _NAMES):
                return "--good and --bad are commands, which say what is started; a server is named beside logs only"
            folder = options.cwd or (str(Path.cwd()) if hands.local else ".")
            variables_ = variables(options.env)
            sides = [Config(_split(name, text), folder, variables_) for name, text in
                     (("--good", options.good), ("--bad", options.bad))]  # fmt: skip
            differences = of_configs(_named(sides[0]), _named(sides[1]))
            server = Server(ProcessLauncher(_named(sides[1])), None, False)
    except LauncherError as error:
        return str(error)
    if not differences:
        return "the two configurations differ in nothing that can matter"
    prior = suspicion([one.name for one in differences], logs[1] if len(logs) == 2 else None)
    changes = tuple(change for one in differences for change in one.revert)
    plan = _planned(options, hands, server, changes, DEFAULT_WORKLOAD)
    return plan if isinstance(plan, str) else (plan, differences, prior)


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False


def _named(config: Config) -> Config:
    """Variables before a command (``A=1 serve``) as its environment."""
    words = list(config.command)
    pairs: list[tuple[str, str | None]] = []
    while words and (found := re.fullmatch(r"([A-Za-z_]\w*)=(.*)", words[0], re.S)):
        pairs.append((found[1], found[2]))
        words.pop(0)
    if not words:
        raise LauncherError(f"{config.command[0]} is no command")
    return config._replace(command=tuple(words), environment=(*config.environment, *pairs))


def load_of(options: argparse.Namespace, workload: str) -> tuple[str, str, Load, dict[str, Any]] | str:
    """The name of the workload, the metric, the load, and what of it was asked for; or why there is none."""
    name = options.workload or workload
    if name not in WORKLOADS:
        return f"the workload {name!r} cannot be measured here; known: {', '.join(WORKLOADS)}"
    metric, load = WORKLOADS[name]
    given = {
        key: value
        for key in ("prompt_tokens", "output_tokens", "concurrency", "requests", "runs")
        if (value := getattr(options, key)) is not None
    }
    wanted = options.metric or metric
    if wanted not in FLOORS:
        return f"--metric {wanted} is not known; known: {', '.join(FLOORS)}"
    try:
        return name, wanted, replace(load, **given), given
    except UnusableError as error:
        return str(error)


_NAMES = ("pid", "command", "unit", "user_unit", "container", "launcher")


def server_of(options: argparse.Namespace, hands: Hands) -> Server:
    """The server that was named. Raises `LauncherError`, `ChannelError`."""
    named = [name for name in _NAMES if getattr(options, name) is not None]
    if len(named) != 1:
        raise LauncherError(
            "exactly one of --pid, --command, --unit, --user-unit, --container and --launcher is needed"
        )
    sudo = options.sudo
    if options.pid is not None:
        output = hands.run(process.look(options.pid), "read how the server was started")
        config, started, log = process.read(options.pid, output.exit_code, output.stdout)
        return Server(ProcessLauncher(config), (options.pid, started), True, log)
    if options.unit is not None or options.user_unit is not None:
        user = options.unit is None
        unit = _name(options.user_unit if user else options.unit)
        unit = unit if "." in unit else f"{unit}.service"
        output = hands.run(systemd.look(unit, user=user, sudo=sudo), "read what the unit starts")
        found, up = systemd.read(unit, output.stdout, user=user, sudo=sudo)
        return Server(found, None, up, found.log_file)
    if options.container is not None:
        name = _name(options.container)
        output = hands.run(container.look(name, sudo=sudo), "read how the container was made")
        made, up = container.read(name, output.stdout, sudo=sudo)
        return Server(made, None, up)
    if options.launcher is not None:
        custom = CustomLauncher(_split("--launcher", options.launcher))
        up = hands.run(custom.alive(""), "see whether the server runs").exit_code == 0
        return Server(custom, None, up)
    folder = options.cwd or (str(Path.cwd()) if hands.local else ".")
    config = Config(_split("--command", options.command), folder, variables(options.env))
    return Server(ProcessLauncher(config), None, False)


def _split(option: str, text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise LauncherError(f"{option} cannot be read: {error}") from error
    if not words:
        raise LauncherError(f"{option} is empty")
    return words


def _name(text: str) -> str:
    """The name of a unit or container; nothing that could be taken for an option."""
    if not re.fullmatch(r"[A-Za-z0-9_][\w@.:\\-]{0,200}", text):
        raise LauncherError(f"{text[:80]!r} is no name of a unit or container")
    return text


def variables(given: list[str] | None) -> tuple[tuple[str, str | None], ...]:
    """``NAME=VALUE`` words as pairs. Raises `LauncherError`."""
    pairs = [word.partition("=") for word in given or ()]
    for name, sign, _ in pairs:
        if not sign or not name.isidentifier():
            raise LauncherError(f"--env {name}: it needs NAME=VALUE")
    return tuple((name, value) for name, _, value in pairs)


def _changes(options: argparse.Namespace) -> tuple[Changes, str, str]:
    """The change, the workload that exercises it, and the sentence why there is none."""
    given = [(action, getattr(options, action)) for action in ACTIONS if getattr(options, action)]
    if len(given) > 1:
        return (), "", "one change at a time: two at once prove nothing about either"
    if given:
        action, text = given[0]
        name, _, value = str(text).partition("=")
        if action == "set_env" and not value:
            return (), "", "--set-env needs NAME=VALUE"
        if action.endswith("flag") and not name.startswith("-"):
            name = f"--{name}"
        return (Change(action, name, value or None),), DEFAULT_WORKLOAD, ""
    if options.chain and (not options.paths or _start_failed(options.paths)):
        return (), DEFAULT_WORKLOAD, ""  # the logs of the starts will tell
    if not options.paths:
        return (), "", "a log whose cause has a fix is needed, or a change such as --set-flag"
    from diagnoser.agent.causes import proposed

    found = proposed(options.paths)
    if isinstance(found, str):
        return (), "", found
    return found.changes, found.workload, ""


def _start_failed(paths: list[str]) -> bool:
    from diagnoser.agent.causes import fatal

    return any(Path(path).is_file() and fatal(Path(path)) for path in paths)


def refused(plan: Plan, options: argparse.Namespace, hands: Hands) -> str | None:
    """The sentence why the experiment must not begin, or None. Raises `ChannelError`."""
    from diagnoser.experiment.outpost import Outpost

    address = urlsplit(plan.url if "://" in plan.url else f"http://{plan.url}")
    if hands.local and address.hostname not in ("localhost", "127.0.0.1", "::1", hands.name):
        return f"{plan.url} is not this machine; name its machine with --host"
    if hands.run("[ -e /etc/diagnoser/no-restart ]", "see whether restarts are forbidden").exit_code == 0:
        return f"/etc/diagnoser/no-restart forbids restarts on {hands.name}"
    busy = connections(Outpost(hands, plan.launcher, ""), plan.port)
    if not plan.was_up and busy:
        return f"port {plan.port} is in use; name the running server with --pid"
    if busy and not options.allow_serving:
        return f"{busy} connections use port {plan.port}: the server serves; --allow-serving goes on all the same"
    if options.yes:
        named = options.host if options.host not in _HERE else None
        return None if named == hands.name else f"--yes needs --host {hands.name}, the machine's name"
    if sys.stdin is None or not sys.stdin.isatty():
        return f"nobody can be asked; --yes --host {hands.name} does it without"
    print(
        f"\nThe server will be stopped and started. Type the machine's name ({hands.name}) to go on: ",
        end="",
        flush=True,
    )
    return None if sys.stdin.readline().strip() == hands.name else "the name was not given; nothing was done"
