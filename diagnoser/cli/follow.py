"""`diagnose --follow`: a log that is being written, here or on a machine."""

import argparse
import io
import json
import shutil
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from diagnoser.cli.output import fail
from diagnoser.sources import SourceError, escaped, label

if TYPE_CHECKING:
    from diagnoser.agent.follow import Change, Followed
    from diagnoser.agent.session import Options
    from diagnoser.inference.diagnosis import Finding
    from diagnoser.sources.tails import Tail

REDRAW_S = 1.0
"""A view in which only counts moved is drawn so often."""


def run(options: argparse.Namespace, settings: "Options") -> int:
    """Until Ctrl-C. Exit code 0: nothing above info at the end, 1: a cause, 2: it cannot be followed."""
    from diagnoser.agent.follow import Follower, follow
    from diagnoser.agent.session import catalog_of

    if options.output or options.explain or options.format == "markdown":
        return fail(
            "--follow shows what it finds as it finds it; it goes without --output, --explain and markdown"
        )
    if settings.window != type(settings.window)():
        return fail("--follow reads all of a log; it goes without --since, --until and --tail")
    try:
        tail, host = _tail(options)
    except SourceError as error:
        return fail(str(error))
    follower = Follower(catalog_of(settings), tail.name, host, settings)
    view = _Screen(tail.name, options) if _is_terminal(options) else _Events(options)
    try:
        follow(tail, follower, view.show)
    except SourceError as error:
        return fail(str(error))
    except KeyboardInterrupt:
        view.end()
    finally:
        tail.close()
    return int(view.causes)


def _is_terminal(options: argparse.Namespace) -> bool:
    return sys.stdout.isatty() and options.format in (None, "auto", "text")


def _tail(options: argparse.Namespace) -> "tuple[Tail, str | None]":
    """What to follow, and the machine it lies on. Raises SourceError."""
    from diagnoser.sources.tails import FileTail, HostTail

    if options.host or options.hosts_file:
        from diagnoser.cli import hosts

        named = hosts.targets(options)
        if isinstance(named, str) or len(named) != 1 or options.paths:
            raise SourceError("--follow goes with one file, or with one --host")
        host = hosts.opener(options)(named[0])
        path = options.log[0] if options.log else _log_of_server(host)
        return HostTail(host, path), host.name
    if len(options.paths) != 1 or options.paths[0] == "-":
        raise SourceError("--follow goes with one file, or with one --host")
    return FileTail(options.paths[0]), None


def _log_of_server(host: "object") -> str:
    from diagnoser.sources.hosts.readonly import ReadOnlyHost
    from diagnoser.sources.hosts.servers import read_servers

    assert isinstance(host, ReadOnlyHost)
    logs = [server.log for server in read_servers(host.run("servers").stdout) if server.log]
    if len(set(logs)) != 1:
        found = (
            f"several logs are written there ({', '.join(sorted(set(logs)))})"
            if logs
            else "no log is found there"
        )
        raise SourceError(f"{host.name}: {found}; --log PATH names the one to follow")
    return logs[0]


class _Events:
    """One line for each finding that comes or goes; with ``-f json`` one object a line."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._json = options.format == "json"
        self._known: dict[str, Finding] = {}
        self.causes = False

    def show(self, followed: "Followed") -> None:
        from diagnoser.agent.follow import changes

        news, self._known = changes(self._known, followed.judged)
        self.causes = bool(self._known)
        for change in news:
            print(self._line(change), flush=True)

    def _line(self, change: "Change") -> str:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        finding = change.finding
        if self._json:
            told = {"at": at, "event": change.event, "finding": finding.model_dump(mode="json")}
            return escaped(json.dumps(told, ensure_ascii=False))
        place = finding.evidence[0] if finding.evidence else None
        proof = f"  {label(place.document)}:{place.line}  {label(place.text)[:200]}" if place else ""
        sign = "+" if change.event == "found" else "-"
        return f"{at} {sign} {finding.severity} {finding.confidence:.0%} {label(finding.title)} [{finding.rule}]{proof}"

    def end(self) -> None:
        pass


class _Screen:
    """The diagnosis as it stands, drawn in place."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self._name = name
        self._options = options
        self._drawn = ("", 0.0)
        self._body = ""
        self.causes = False

    def show(self, followed: "Followed") -> None:
        from diagnoser.report import terminal

        diagnosis = followed.judged.diagnosis
        self.causes = bool(diagnosis.causes)
        told = _Terminal()
        terminal.show(
            diagnosis, told, color=False if self._options.no_color else None, quiet=bool(self._options.quiet)
        )
        self._body = told.getvalue()
        now = time.monotonic()
        if self._body == self._drawn[0] and now - self._drawn[1] < REDRAW_S:
            return
        self._drawn = (self._body, now)
        clock = time.strftime("%H:%M:%S")
        head = f"following {label(self._name)}: {followed.lines} lines, {clock}, Ctrl-C ends"
        rows = [head, "", *self._body.splitlines()]
        height = shutil.get_terminal_size().lines
        if len(rows) > height - 1:
            rows = [*rows[: height - 2], f"... {len(rows) - height + 2} more lines; Ctrl-C shows all"]
        sys.stdout.write("\x1b[H" + "".join(f"{row}\x1b[K\n" for row in rows) + "\x1b[J")
        sys.stdout.flush()

    def end(self) -> None:
        """Leave the whole diagnosis on the terminal."""
        sys.stdout.write("\x1b[H\x1b[J" + self._body)
        sys.stdout.flush()


class _Terminal(io.StringIO):
    """Text that is meant for the terminal, in memory."""

    def isatty(self) -> bool:
        return True
