"""What an experiment keeps on the machine whose server it restarts: the undo, the lock, and a dead-man.

A folder that only the user can read holds ``undo.sh``, which ends whatever form of the server runs and starts it as
found. Everybody undoes by this script: the experiment itself, the watcher, a later ``--rollback``, the dead-man, or a
person by hand. Whoever makes the folder ``undoing`` does it, so that it is done once.

The dead-man is a shell loop of its own session on the machine. It waits for signs of life (``beat``); when none came
for a while it undoes, and starts the server again, up to `RETRIES` times, if that ends within a minute.
"""

import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from diagnoser.experiment.hands import Hands, HandsError
from diagnoser.experiment.launchers.base import GRACE_S, KILL_S, Launcher, quote
from diagnoser.sources.hosts.channel import ChannelError

DEAD_MAN_S = 60.0
"""Without a sign of life for so long the dead-man acts."""

RETRIES = 3

UNDO_S = GRACE_S + KILL_S + 60.0
"""The longest that undo.sh takes: a stop and a start."""

_STATE = "${DIAGNOSER_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/diagnoser}"
_LOCK = "${DIAGNOSER_STATE:-/tmp}/diagnoser.lock"
"""One for all users of the machine, in the one place that all can write to."""


class BusyError(RuntimeError):
    """Another experiment is under way, or an earlier one was not undone; the message is one sentence."""


class Outpost(NamedTuple):
    """The folder of an experiment on a machine."""

    hands: Hands
    launcher: Launcher
    folder: str

    def log(self, name: str) -> str:
        return f"{self.folder}/{name}.log"

    def equip(self, *, dead_man_s: float | None, down: bool = False) -> None:
        """Lock the machine and put the undo there; with dead_man_s start the dead-man. down: as for `write_undo`.

        Raises `BusyError` where another experiment has the machine, `HandsError`, `ChannelError`.
        """
        self.lock()
        self.write_undo(down=down)
        launcher, folder = self.launcher, self.folder
        if dead_man_s is not None:
            loop = _DEAD_MAN.format(
                folder=quote(folder),
                limit=f"{dead_man_s:.0f}",
                retries=RETRIES,
                alive=launcher.alive(folder),
                start=launcher.start((), folder, self.log("restored")),
            )
            self.hands.do(
                f'umask 077; cd / && f={quote(folder)}; date +%s > "$f/beat" && '
                f'printf %s {quote(loop)} > "$f/dead-man.sh" && '
                '{ setsid /bin/sh "$f/dead-man.sh" </dev/null >>"$f/dead-man.log" 2>&1 & }',
                "start the dead-man",
            )

    def write_undo(self, *, down: bool) -> None:
        """Put the undo there. down: nothing is to run afterwards. Raises `HandsError`, `ChannelError`."""
        launcher, folder = self.launcher, self.folder
        undo = _UNDO.format(
            folder=quote(folder),
            stop=launcher.stop(folder),
            start=f': > "{folder}/down"' if down else launcher.start((), folder, self.log("restored")),
        )
        script = f"umask 077; rm -rf {quote(folder)}/undoing {quote(folder)}/undone; "
        script += f"printf %s {quote(undo)} > {quote(folder)}/undo.sh.new && "
        script += f"mv {quote(folder)}/undo.sh.new {quote(folder)}/undo.sh"
        self.hands.do(script, "write down how the server is brought back")

    def lock(self) -> None:
        """Take the machine. Raises `BusyError` where it is taken by an experiment that was neither ended nor undone."""
        held = self.hands.do(_TAKE.format(lock=_LOCK, folder=quote(self.folder)), "lock the machine").strip()
        if held:
            raise BusyError(f"{self.hands.name}: another experiment has this machine ({held})")

    def beat(self) -> None:
        self.hands.run(
            f"date +%s > {quote(self.folder)}/beat", "give a sign of life", timeout_s=10, often=True
        )

    def undo(self) -> None:
        """Bring back the server as found. Raises `HandsError`, `ChannelError`."""
        self.hands.do(f"sh {quote(self.folder)}/undo.sh", "bring the server back", timeout_s=UNDO_S)

    def undone(self) -> bool:
        """Whether somebody brought it back already."""
        return (
            self.hands.run(f"[ -e {quote(self.folder)}/undone ]", "see whether it was undone").exit_code == 0
        )

    def end(self) -> None:
        """Nothing is to be undone any more: stop the dead-man and give the machine free."""
        self.hands.do(
            f'f={quote(self.folder)}; : > "$f/ended"; '
            f'[ "$(cat "{_LOCK}/owner" 2>/dev/null)" = "$f" ] && rm -rf "{_LOCK}"; '
            'rm -f "$f/start.sh" "$f/undo.sh" "$f/dead-man.sh"; exit 0',
            "give the machine free",
        )


def settle(hands: Hands, launcher: Launcher) -> Outpost:
    """Make a folder for a new experiment. Raises `HandsError`, `ChannelError`."""
    name = f"{uuid.uuid4().hex[:12]}"
    made = hands.do(
        f'umask 077; d="{_STATE}/experiments/on-host-{name}"; mkdir -p "$d" && cd "$d" && pwd',
        "make a folder for the experiment",
    )
    return Outpost(hands, launcher, made.strip())


class Heart:
    """Signs of life from here, in a thread, while an experiment is under way; a context manager.

    Nothing is raised when the machine is lost: the next step of the experiment will tell.
    """

    def __init__(self, outpost: Outpost, every_s: float, lost: Callable[[], None] = lambda: None) -> None:
        self._outpost = outpost
        self._every_s = every_s
        self._lost = lost
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go, daemon=True)

    def __enter__(self) -> "Heart":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(15)

    def _go(self) -> None:
        while not self._ended.wait(self._every_s):
            with suppress(ChannelError, HandsError):
                self._outpost.beat()


_TAKE = """l="{lock}"; f={folder}
b=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)
for n in 1 2 3; do
  if mkdir "$l" 2>/dev/null; then
    chmod 755 "$l"; (umask 022; echo "$f" > "$l/owner"; echo "$b" > "$l/boot"); exit 0
  fi
  o=$(cat "$l/owner" 2>/dev/null)
  [ "$o" = "$f" ] && exit 0
  if [ -z "$o" ]; then sleep 1; [ -s "$l/owner" ] || rm -rf "$l"; continue; fi
  over=
  if [ "$(cat "$l/boot")" != "$b" ] || [ -e "$o/ended" ] || [ -e "$o/undone" ]; then over=1; fi
  if [ -r "${{o%/*}}" ] && [ ! -d "$o" ]; then over=1; fi
  [ -n "$over" ] || {{ echo "$o"; exit 0; }}
  rm -rf "$l"
done
echo "$l"
"""
"""A lock of an earlier boot, or of an experiment that was ended or undone, is none."""

_UNDO = """#!/bin/sh
# Brings the server back as the experiment found it. May be run by hand, and twice.
f={folder}
n=0
until mkdir "$f/undoing" 2>/dev/null; do
  [ -e "$f/undone" ] && exit 0
  o=$(cat "$f/undoing/pid" 2>/dev/null)
  if [ -n "$o" ] && ! kill -0 "$o" 2>/dev/null; then rm -rf "$f/undoing"; continue; fi
  n=$((n + 1)); [ $n -gt 1800 ] && {{ echo "another process brings it back and does not end" >&2; exit 5; }}
  sleep 0.1
done
echo $$ > "$f/undoing/pid"
( {stop}
) || {{ rm -rf "$f/undoing"; exit 4; }}
( {start}
) || {{ rm -rf "$f/undoing"; exit 3; }}
: > "$f/undone"
rm -rf "$f/undoing"
"""

_DEAD_MAN = """f={folder}
while :; do
  sleep 1
  [ -e "$f/ended" ] && exit 0
  [ -d "$f" ] || exit 0
  b=$(cat "$f/beat" 2>/dev/null); now=$(date +%s)
  [ $((now - ${{b:-0}})) -gt {limit} ] && break
done
echo "no sign of life for {limit} s: bringing the server back"
sh "$f/undo.sh" || exit 1
[ -e "$f/down" ] && exit 0
n=0
while [ $n -lt {retries} ]; do
  t=0
  while [ $t -lt 60 ]; do
    sleep 1; t=$((t + 1)); [ -e "$f/ended" ] && exit 0
    ( {alive}
    ) || break
  done
  [ $t -ge 60 ] && exit 0
  n=$((n + 1)); echo "it ended; started again"
  ( {start}
  )
done
"""
