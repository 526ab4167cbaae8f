"""From the arguments of `diagnose confirm` to a plan, or to the sentence why there is none."""

import argparse
import shlex
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from diagnoser.experiment.change import ACTIONS, Change, Changes, Config
from diagnoser.experiment.hands import Hands, over_ssh, this_machine
from diagnoser.experiment.launchers import process
from diagnoser.experiment.launchers.base import Launcher, LauncherError
from diagnoser.experiment.launchers.process import ProcessLauncher
from diagnoser.experiment.load.bench import Plan as Load
from diagnoser.experiment.load.client import UnusableError
from diagnoser.experiment.plan import DEFAULT_WORKLOAD, WORKLOADS, Plan
from diagnoser.experiment.starting import connections
from diagnoser.experiment.statistics import FLOORS, Noise

_HERE = ("local", "localhost", "127.0.0.1")


class Server(NamedTuple):
    """The server that was named. running: its process and when that was started."""

    launcher: Launcher
    running: tuple[int, int] | None
    up: bool


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
    lacks = server.launcher.lacks(changes)
    if lacks:
        return lacks
    load = load_of(options, workload)
    if isinstance(load, str):
        return load
    name, metric, chosen = load
    try:
        gap = float(options.gap.rstrip("%")) / 100 if options.gap else None
    except ValueError:
        return f"--gap {options.gap} is no percentage"
    return Plan(
        host=hands.name, url=options.url, launcher=server.launcher, changes=changes, workload=name, metric=metric,
        load=chosen, gap=gap, running=server.running, was_up=server.up, keep_fix=options.keep_fix,
        remote=not hands.local, dead_man_s=options.dead_man, noise=Noise(FLOORS.get(metric, 0.0075)),
    )  # fmt: skip


def load_of(options: argparse.Namespace, workload: str) -> tuple[str, str, Load] | str:
    """The name of the workload, the metric and the load; or the sentence why there is none."""
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
        return name, wanted, replace(load, **given)
    except UnusableError as error:
        return str(error)


def server_of(options: argparse.Namespace, hands: Hands) -> Server:
    """The server that was named. Raises `LauncherError`, `ChannelError`."""
    if (options.pid is None) == (options.command is None):
        raise LauncherError("either --pid or --command is needed: the running server, or how to start it")
    if options.pid is not None:
        output = hands.run(process.look(options.pid), "read how the server was started")
        config, started = process.read(options.pid, output.exit_code, output.stdout)
        return Server(ProcessLauncher(config), (options.pid, started), True)
    try:
        command = tuple(shlex.split(options.command))
    except ValueError as error:
        raise LauncherError(f"--command cannot be read: {error}") from error
    if not command:
        raise LauncherError("--command is empty")
    folder = options.cwd or (str(Path.cwd()) if hands.local else ".")
    return Server(ProcessLauncher(Config(command, folder, variables(options.env))), None, False)


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
    if not options.paths:
        return (), "", "a log whose cause has a fix is needed, or a change such as --set-flag"
    from diagnoser.agent.causes import proposed

    found = proposed(options.paths)
    if isinstance(found, str):
        return (), "", found
    return found.changes, found.workload, ""


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
