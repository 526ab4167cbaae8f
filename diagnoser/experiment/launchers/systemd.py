"""A server that is a systemd unit: changed by a drop-in file that a reboot takes away.

The drop-in lies in ``/run/systemd/system/UNIT.d`` (for a user's unit in ``$XDG_RUNTIME_DIR/systemd/user/UNIT.d``); the
unit file itself is never touched. ``systemd.unit(5)``, ``systemd.service(5)``.
"""

import re
import shlex
from typing import Any, NamedTuple

from diagnoser.experiment.change import Changes, Config, applied, told
from diagnoser.experiment.launchers.base import LauncherError, quote

_ARGV = re.compile(r"argv\[\]=(.*?) ; (?:ignore_errors|flags)=")
_LOG_FILE = re.compile(r"(?:append|file|truncate):(/.*)")


class SystemdLauncher(NamedTuple):
    """A unit. command: the words of its process, as it runs or as the unit says. log_file: where its output goes if not
    into the journal. user: a unit of the user's own manager. sudo: the manager is asked with ``sudo -n``."""

    unit: str
    command: tuple[str, ...]
    log_file: str | None = None
    user: bool = False
    sudo: bool = False
    kind: str = "systemd"

    @property
    def original(self) -> str:
        return f"{self._ctl} start {self.unit}"

    @property
    def _ctl(self) -> str:
        return f"{'sudo -n ' if self.sudo else ''}systemctl{' --user' if self.user else ''}"

    @property
    def _drop_in(self) -> str:
        place = '"$XDG_RUNTIME_DIR/systemd/user' if self.user else '"${DIAGNOSER_UNITS:-/run/systemd/system}'
        return f'{place}/"{quote(self.unit)}.d/zz-diagnoser.conf'

    def lacks(self, changes: Changes) -> str | None:
        config = Config(self.command, "/")
        flags = [change for change in changes if change.action.endswith("flag")]
        if flags and applied(config, flags) == config:
            return f"the server has the change already: {told(flags)}"
        return None

    def start(self, changes: Changes, folder: str, log: str) -> str:
        root = "sudo -n " if self.sudo else ""
        change = f"{root}rm -f {self._drop_in}"
        if changes:
            put = f'printf %s {quote(self._text(changes))} | {root}tee "$d" >/dev/null'
            change = f'{root}mkdir -p "${{d%/*}}" && {put} || exit 3'
        lines = [
            f"d={self._drop_in}",
            change,
            f"{self._ctl} daemon-reload || exit 3",
            f"date +%s > {quote(folder)}/since",
            *self._mark_file(folder),
            f"{self._ctl} start --no-block {self.unit}",
        ]
        return "\n".join(lines) + "\n"

    def stop(self, folder: str) -> str:
        return f"{self._ctl} stop {quote(self.unit)}\n"

    def alive(self, folder: str) -> str:
        return (
            f"s=$({self._ctl} show -p ActiveState -p SubState {quote(self.unit)}) || exit 1\n"
            'case "$s" in *auto-restart*) exit 1 ;; *=active*|*=activating*|*=reloading*) exit 0 ;; esac\nexit 1\n'
        )

    def log(self, folder: str, log: str) -> str:
        if self.log_file:
            return (
                f"tail -c +$(($(cat {quote(folder)}/skip 2>/dev/null || echo 0) + 1)) {quote(self.log_file)}"
            )
        which = "--user -u" if self.user else "-u"
        since = f'"@$(cat {quote(folder)}/since 2>/dev/null || echo 0)"'
        return f"journalctl {which} {quote(self.unit)} -o cat --no-pager --since {since}"

    def _mark_file(self, folder: str) -> list[str]:
        """A log file goes on from start to start."""
        if not self.log_file:
            return []
        return [f"{{ wc -c < {quote(self.log_file)} || echo 0; }} 2>/dev/null > {quote(folder)}/skip"]

    def _text(self, changes: Changes) -> str:
        """The drop-in. An empty ExecStart= takes away the one of the unit."""
        lines = ["[Service]", "Restart=no"]
        command = applied(Config(self.command, "/"), changes).command
        if command != self.command:
            lines += ["ExecStart=", f"ExecStart={' '.join(map(escaped, command))}"]
        for change in changes:
            if change.action == "set_env":
                lines.append("Environment=" + escaped(f"{change.name}={change.value or ''}"))
            elif change.action == "unset_env":
                lines.append(f"UnsetEnvironment={change.name}")
        return "\n".join(lines) + "\n"

    def plain(self) -> dict[str, Any]:
        return {**self._asdict(), "command": list(self.command)}

    @staticmethod
    def from_plain(kept: dict[str, Any]) -> "SystemdLauncher":
        return SystemdLauncher(**{**kept, "command": tuple(kept["command"])})


def escaped(word: str) -> str:
    """A word for ExecStart= or Environment=: quoted, with specifiers and variables as they stand."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return plain if re.fullmatch(r"[\w./:=,@+-]+", plain) else f'"{plain}"'


def look(unit: str, *, user: bool, sudo: bool) -> str:
    """The script that reads what a unit starts."""
    ctl = SystemdLauncher(unit, (), user=user, sudo=sudo)._ctl
    return (
        f"{ctl} show --no-pager -p LoadState -p ActiveState -p ExecStart -p StandardOutput {quote(unit)} || exit 1\n"
        f"p=$({ctl} show -p MainPID --value {quote(unit)}); printf '\\036'\n"
        '[ "${p:-0}" != 0 ] && cat "/proc/$p/cmdline" 2>/dev/null; exit 0\n'
    )


def read(unit: str, output: bytes, *, user: bool, sudo: bool) -> tuple[SystemdLauncher, bool]:
    """The launcher of a unit from what `look` printed, and whether it runs. Raises `LauncherError`."""
    shown, _, running = output.partition(b"\x1e")
    said = dict(line.partition("=")[::2] for line in shown.decode("utf-8", "replace").splitlines())
    if said.get("LoadState") != "loaded":
        raise LauncherError(
            f"--unit {unit}: systemd knows no such unit ({said.get('LoadState') or 'no answer'})"
        )
    starts = _ARGV.findall(said.get("ExecStart", ""))
    if len(starts) != 1:
        raise LauncherError(f"--unit {unit}: it starts {len(starts)} commands; exactly one can be changed")
    words = tuple(
        word.decode("utf-8", "surrogateescape") for word in running.rstrip(b"\0").split(b"\0") if running
    )
    plain = starts[0].strip()
    if words and " ".join(words) != plain:
        # A script before the server, or an interpreter: what the unit starts is not what takes the flags.
        if words[-len(plain.split()) :] != tuple(plain.split()):
            raise LauncherError(
                f"--unit {unit}: it starts {plain[:120]!r}, but the server's process is {shlex.join(words)[:120]!r}; "
                "give a --launcher"
            )
        words = tuple(plain.split())
    if not words:
        words = tuple(plain.split())
    file = _LOG_FILE.fullmatch(said.get("StandardOutput", ""))
    up = said.get("ActiveState") in ("active", "activating", "reloading")
    return SystemdLauncher(unit, words, file[1] if file else None, user, sudo), up
