"""`diagnose --host`: look at machines over SSH, or at this one ("local")."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diagnoser.cli.output import fail, give

if TYPE_CHECKING:
    from diagnoser.agent.fleet import Fleet
    from diagnoser.agent.investigate import Investigation
    from diagnoser.agent.session import Options
    from diagnoser.inference.diagnosis import Question
    from diagnoser.sources.hosts.readonly import ReadOnlyHost


FEW = 4
"""Up to so many machines each is asked by several sessions at a time, which is quickest."""


def add(options: argparse.ArgumentParser) -> None:
    """The options about machines."""
    group = options.add_argument_group("machines (read-only; see `diagnose probes`)")
    group.add_argument(
        "--host", action="append", metavar="HOST", help="look there: host, user@host:port, an alias, or local"
    )
    group.add_argument("--hosts-file", metavar="FILE", help="one host a line; # begins a comment")
    group.add_argument(
        "--log", action="append", metavar="PATH", help="a log on the machine, if it is not found"
    )
    group.add_argument("--fast", action="store_true", help="look only where a question asks for it")
    group.add_argument("--interactive", action="store_true", help="ask before each further look")
    group.add_argument("--sudo", action="store_true", help="use sudo -n where a probe needs root")
    group.add_argument(
        "--accept-new-host-key", action="store_true", help="add the key of a host that is not known yet"
    )


def targets(options: argparse.Namespace) -> list[str] | str:
    """The machines that were named, each once; or the sentence why there are none."""
    named = list(options.host or ())
    if options.hosts_file:
        try:
            text = Path(options.hosts_file).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            return f"--hosts-file {options.hosts_file}: cannot be read: {getattr(error, 'strerror', None) or error}"
        named += [name for line in text.splitlines() if (name := line.partition("#")[0].strip())]
    return list(dict.fromkeys(named)) or f"--hosts-file {options.hosts_file}: it names no host"


def opener(options: argparse.Namespace) -> Callable[[str], "ReadOnlyHost"]:
    """How to reach a machine; every command is written to the audit log."""
    from diagnoser.sources.hosts.audit import Audited
    from diagnoser.sources.hosts.readonly import ReadOnlyHost
    from diagnoser.sources.hosts.ssh import ConnectOptions, connect

    several = len(options.host or ()) > 1 or options.hosts_file
    settings = ConnectOptions(
        accept_new_host_key=options.accept_new_host_key,
        # Several machines are reached at the same time; nobody could answer for all of them.
        ask=_secret if sys.stdin is not None and sys.stdin.isatty() and not several else None,
    )
    return lambda target: ReadOnlyHost(Audited(connect(target, settings)), sudo=options.sudo)


def _secret(question: str) -> str:
    import getpass

    return getpass.getpass(question)


def run(options: argparse.Namespace, settings: "Options") -> int:
    """Exit code as of the main command; 2 when no machine could be looked at."""
    from diagnoser.agent.fleet import survey
    from diagnoser.agent.investigate import investigate
    from diagnoser.agent.session import catalog_of
    from diagnoser.cli import diagnose
    from diagnoser.sources import open_sources
    from diagnoser.sources.hosts.collect import sources as collected

    named = targets(options)
    if isinstance(named, str):
        return fail(named)
    if options.interactive and (len(named) > 1 or sys.stdin is None or not sys.stdin.isatty()):
        return fail("--interactive needs a terminal and one host")
    if options.report and len(named) > 1:
        return fail("--report tells of one machine; name one host")
    catalog = catalog_of(settings)
    reach = opener(options)
    ticker = Ticker(len(named))

    def look(target: str) -> "Investigation":
        host = reach(target)
        try:
            return investigate(
                host,
                catalog,
                settings,
                logs=options.log or (),
                fast=options.fast,
                beside=list(open_sources(options.paths)) if options.paths and len(named) == 1 else (),
                thrifty=len(named) > FEW,
                ask=_ask if options.interactive else None,
                told=lambda what: ticker.tell(f"{target}: {what}"),
            )
        finally:
            host.close()

    found = survey(named, look, ticker.done)
    ticker.clear()
    if len(named) == 1:
        (one,) = found.machines
        if one.judged is None:
            return fail(f"{one.host}: {one.error}")
        return diagnose.answer(one.judged, options, settings, lambda: collected(one.items))
    return _show(found, options)


def _ask(question: "Question", probes: Sequence[str]) -> bool:
    print(f"\n{question.question} (decides: {', '.join(question.decides[:4])})", file=sys.stderr)
    print(f"  look at {', '.join(probes)}? [Y/n] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def run_bundle(path: Path, options: argparse.Namespace, settings: "Options") -> int:
    """Diagnose what `diagnose collect` kept, as if the machines were looked at now."""
    from diagnoser.agent.fleet import survey
    from diagnoser.agent.investigate import revisit
    from diagnoser.agent.session import catalog_of
    from diagnoser.cli import diagnose
    from diagnoser.sources import SourceError
    from diagnoser.sources.hosts import bundle
    from diagnoser.sources.hosts.collect import sources as collected

    try:
        seen = {machine.host: machine for machine in bundle.read(path)}
    except SourceError as error:
        return fail(str(error))
    catalog = catalog_of(settings)
    found = survey(list(seen), lambda host: revisit(seen[host], catalog, settings), at_once=1)
    one, *others = found.machines
    if one.judged is not None and not others:
        return diagnose.answer(one.judged, options, settings, lambda: collected(one.items))
    return _show(found, options)


def _show(fleet: "Fleet", options: argparse.Namespace) -> int:
    from diagnoser.report import fleet as report

    if options.report:
        return fail("--report tells of one machine; name one host")
    machines = fleet.machines
    rows = [report.Machine(one.host, one.judged and one.judged.diagnosis, one.error) for one in machines]
    show = report.as_json if options.format == "json" else report.as_text
    text = show(rows, fleet.deviations)
    sentence = give(text, options.output)
    if sentence:
        return fail(sentence)
    if all(machine.judged is None for machine in machines):
        return 2
    return int(any(machine.judged is not None and machine.judged.diagnosis.causes for machine in machines))


class Ticker:
    """What is being looked at, in one line on a terminal."""

    def __init__(self, machines: int) -> None:
        self._terminal = sys.stderr.isatty()
        self._machines = machines
        self._done = 0

    def tell(self, what: str) -> None:
        if self._terminal:
            count = f"{self._done}/{self._machines} " if self._machines > 1 else ""
            print(f"\r\x1b[K{count}{what[:100]}", end="", file=sys.stderr, flush=True)

    def done(self, machine: Any) -> None:
        self._done += 1
        self.tell(machine.host)

    def clear(self) -> None:
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
