"""One shell script for places where nobody may log in: its output is pasted into `diagnose`."""

from diagnoser.sources.hosts.readonly import COMMANDS, PATHS

_PLAIN = ("smi.table", "smi.q", "smi.topo", "smi.nvlink", "smi.samples", "kernel", "host")
_OF_SERVER = ("server.limits", "server.packages")

_SERVERS = r"""
for f in $(grep -l -a -E 'sglang.launch_server|sglang serve|vllm serve|vllm.entrypoints|llama-server|trtllm-serve' \
  /proc/[0-9]*/cmdline 2>/dev/null); do
  pid=${f#/proc/}; pid=${pid%/cmdline}
  [ "$pid" = "$$" ] || [ ! -r "$f" ] && continue
  echo; echo "$ ps -o args= -p $pid"; tr '\0' ' ' < "$f"; echo
  OF_SERVER
  log=$(readlink "/proc/$pid/fd/1" 2>/dev/null)
  case "$log" in
    /dev/*|'') ;;
    /*)
      if [ "$(wc -c < "$log")" -lt 3000000 ]; then echo; echo "$ cat $log"; cat "$log"
      else
        echo; echo "$ head -c 300000 $log"; head -c 300000 "$log"
        echo; echo "$ tail -n 3000 $log"; tail -n 3000 "$log"
      fi ;;
  esac
done
"""


def script() -> str:
    """POSIX shell; it reads and prints, and changes nothing."""
    parts = [
        "#!/bin/sh",
        "# Prints what diagnose looks at on a machine. It only reads. Run it with sh, as root if you can, and paste",
        "# what it prints, or send it: sh collect.sh > seen.txt; diagnose seen.txt",
        f"PATH=$PATH:{PATHS}; LC_ALL=C; export PATH LC_ALL",
    ]
    for name in _PLAIN:
        command = COMMANDS[name]
        parts += [
            f"\n# {command.shows}",
            f"echo; echo {_title(command.line)!r}",
            f"( {command.line.strip()}\n) 2>&1",
        ]
    inner = "\n".join(
        f"( {COMMANDS[name].line.strip()}\n  ) 2>&1".replace("{pid}", "$pid")
        .replace("{{", "{")
        .replace("}}", "}")
        for name in _OF_SERVER
    )
    parts.append(_SERVERS.replace("OF_SERVER", inner))
    return "\n".join(parts) + "\n"


def _title(line: str) -> str:
    """The command as a shell shows it behind its prompt; of a longer one the first words."""
    first = line.strip().partition("\n")[0]
    return f"$ {first if first.startswith('nvidia-smi') else 'sh'}"[:200]
