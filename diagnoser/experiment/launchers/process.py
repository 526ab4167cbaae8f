"""A server that is a process: started from a command, with its folder and environment."""

import re
import shlex
from typing import Any, NamedTuple

from diagnoser.experiment.change import Changes, Config, applied, told
from diagnoser.experiment.launchers.base import GRACE_S, KILL_S, LauncherError, quote

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a shell can export; functions that bash hides in variables are left out."""

_UP = r"""
up() {
  [ -r /proc/$p/stat ] || return 1
  set -- $(sed 's/.*) //' /proc/$p/stat 2>/dev/null)
  case ${1:-Z} in Z|X) return 1 ;; esac
  g=$3; shift 19; [ "$1" = "$s" ]
}
"""
"""p: a process, s: when it was started, in clock ticks since boot, which tells it from a later one of the same number;
g becomes its group."""


class ProcessLauncher(NamedTuple):
    """A command. Its process is in the file "server" of the folder, with the time of its start."""

    config: Config
    grace_s: float = GRACE_S
    kind: str = "process"

    @property
    def original(self) -> str:
        return shlex.join(self.config.command)

    def lacks(self, changes: Changes) -> str | None:
        if applied(self.config, changes) == self.config:
            return f"the server has the change already: {told(changes)}"
        return None

    def start(self, changes: Changes, folder: str, log: str) -> str:
        config = applied(self.config, changes)
        # A file, so that no list of processes shows the environment.
        return f"""umask 077
f={quote(folder)}
rm -f "$f/server"
printf %s {quote(_starter(config, folder))} > "$f/start.sh" || exit 3
setsid /bin/sh "$f/start.sh" </dev/null >>{quote(log)} 2>&1 &
n=0
until [ -s "$f/server" ]; do
  n=$((n + 1)); [ $n -gt 100 ] && {{ tail -n 1 {quote(log)} >&2; exit 3; }}
  sleep 0.05
done
cat "$f/server"
"""

    def stop(self, folder: str) -> str:
        return f"""{_UP}
read -r p s 2>/dev/null < {quote(folder)}/server || exit 0
up || exit 0
kill -TERM "$p"
n=0; while up && [ $n -lt {self.grace_s * 10:.0f} ]; do sleep 0.1; n=$((n + 1)); done
if up; then
  if [ "$g" = "$p" ]; then kill -KILL -- "-$g"; else kill -KILL "$p"; fi
  n=0; while up && [ $n -lt {KILL_S * 10:.0f} ]; do sleep 0.1; n=$((n + 1)); done
fi
up && {{ echo "process $p does not end, not even when it is killed" >&2; exit 4; }}
[ "$g" = "$p" ] && kill -KILL -- "-$g" 2>/dev/null  # workers that it left behind
exit 0
"""

    def alive(self, folder: str) -> str:
        return f"{_UP}read -r p s 2>/dev/null < {quote(folder)}/server && up\n"

    def log(self, folder: str, log: str) -> str:
        return f"cat {quote(log)}"

    def plain(self) -> dict[str, Any]:
        return {"kind": self.kind, "config": self.config.plain(), "grace_s": self.grace_s}

    @staticmethod
    def from_plain(kept: dict[str, Any]) -> "ProcessLauncher":
        return ProcessLauncher(Config.from_plain(kept["config"]), kept["grace_s"])


def adopt(folder: str, pid: int, started: int) -> str:
    """The script that makes a running process the server of an experiment."""
    return f"umask 077; echo {pid} {started} > {quote(folder)}/server"


def _log(link: bytes) -> str | None:
    """The file that standard output goes to; None for a pipe, a terminal, or a file without a name."""
    path = link.decode("utf-8", "surrogateescape").strip()
    return path if path.startswith("/") and not path.startswith("/dev/") and "(deleted)" not in path else None


_FORGET = r"""for v in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
  unset "$v" 2>/dev/null
done
unset v"""
"""The environment of the shell that starts it is not the server's."""


def _starter(config: Config, folder: str) -> str:
    """The script that becomes the server; it writes down who it is first."""
    lines = [
        f"cd {quote(config.folder)} || exit 3",
        f"f={quote(folder)}",
        "s=$(sed 's/.*) //' /proc/$$/stat | cut -d' ' -f20)",
        'echo "$$ $s" > "$f/server.new" && mv "$f/server.new" "$f/server" || exit 3',
        "unset f s",
    ]
    if config.whole:
        lines.append(_FORGET)
    for name, value in config.environment:
        if _NAME.fullmatch(name):
            lines.append(f"unset {name}" if value is None else f"export {name}={quote(value)}")
    lines.append(f"exec {shlex.join(config.command)}")
    return "\n".join(lines) + "\n"


_LOOK = r"""
p=/proc/PID
[ -d $p ] || exit 7
cat $p/cmdline && printf '\036' && cat $p/environ && printf '\036' && readlink $p/cwd && printf '\036' || exit 8
sed 's/.*) //' $p/stat | cut -d' ' -f1,20
printf '\036'; readlink $p/fd/1
true
"""


def look(pid: int) -> str:
    """The script that reads how a running process was started."""
    return _LOOK.replace("PID", str(pid))


def read(pid: int, exit_code: int | None, output: bytes) -> tuple[Config, int, str | None]:
    """The configuration of a running process from what `look` printed, when it was started, and its log.

    Raises `LauncherError`.
    """
    if exit_code == 7:
        raise LauncherError(f"--pid {pid}: there is no such process on the machine")
    parts = output.split(b"\x1e")
    if exit_code != 0 or len(parts) != 5:
        raise LauncherError(f"--pid {pid}: it cannot be read; run as its user or as root")
    words, pairs, folder, (state, started), output_to = (*parts[:3], parts[3].split(), parts[4])
    if state in (b"Z", b"X") or not words:
        raise LauncherError(f"--pid {pid}: the process has ended")

    def split(data: bytes) -> list[str]:
        return [one.decode("utf-8", "surrogateescape") for one in data.rstrip(b"\0").split(b"\0")]

    named = (pair.partition("=") for pair in split(pairs))
    environment = tuple((name, value) for name, _, value in named if _NAME.fullmatch(name))
    place = folder.decode("utf-8", "surrogateescape").rstrip("\n")
    return Config(tuple(split(words)), place, environment, whole=True), int(started), _log(output_to)
