"""The list of everything that is ever run on a machine to look at it. Nothing else is: this is the one place.

Every command reads. Parameters are checked against a shape and quoted. POSIX shell only: a machine may have
neither bash nor Python.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from diagnoser.sources.hosts.channel import MIB, Channel, ChannelError, Output, Reply

_PATH = r"/[^\0\n]{0,4000}"
_PID = r"[1-9]\d{0,9}"
_SHAPES: Mapping[str, str] = {
    "pid": _PID,
    "path": _PATH,
    "container": r"[A-Za-z0-9][\w.-]{0,127}",
    "unit": r"[A-Za-z0-9@_][\w@.:\\-]{0,200}",
    "count": r"[1-9]\d{0,8}",
    "offset": r"[1-9]\d{0,15}",
}
PATHS = "/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin:/snap/bin"
"""Where a shell that is no login shell may not look: nvidia-smi, docker and dmesg are often there."""

_SETTING = f"PATH=$PATH:{PATHS} LC_ALL=C LANG=C; export PATH LC_ALL LANG; "

GETS = frozenset(
    ["/health", "/v1/models", "/server_info", "/get_server_info", "/metrics", "/version", "/props"]
)
"""What is asked of a server over HTTP; none of it makes the model work."""


Parameters = Mapping[str, str | int]


class Command(NamedTuple):
    """One thing that may be run. shows: what for, in words. root: other users' processes and the kernel need it."""

    id: str
    line: str
    shows: str
    root: bool = False
    timeout_s: float = 20.0
    limit_bytes: int = 8 * MIB


_SMI_FIELDS = (
    "timestamp,index,name,driver_version,pstate,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,"
    "pcie.link.width.max,temperature.gpu,utilization.gpu,utilization.memory,memory.total,memory.used,power.draw,"
    "power.limit,clocks.current.sm,clocks.max.sm,clocks.current.memory"
)
_PROCESS = "sglang|vllm|VLLM|llama-server|text-generation|trtllm|ollama|tritonserver|dynamo|lmdeploy"
_VARIABLES = (
    "CUDA|NCCL|SGLANG|SGL|VLLM|FLASHINFER|TORCH|PYTORCH|TORCHINDUCTOR|TRITON|GGML|LLAMA|OLLAMA|TLLM|TRTLLM|UCX|OMP|MKL|"
    "KMP|HF|TRANSFORMERS|NVIDIA|LD|GLOO|NVSHMEM|DG|DYN|TOKENIZERS"
)
_EACH_SERVER = r"""
for f in $(grep -l -a -E 'PROCESS' /proc/[0-9]*/cmdline 2>/dev/null); do
  p=${f%/cmdline}; n=${p#/proc/}
  [ "$n" = "$$" ] && continue
  printf '\036%s\035' "$n"
  tr '\0\n' '\037 ' < "$f" 2>/dev/null; printf '\035'
  sed -n 's/^PPid:[[:space:]]*//p' "$p/status" 2>/dev/null; printf '\035'
  readlink "$p/cwd" 2>/dev/null; printf '\035'
  readlink "$p/exe" 2>/dev/null; printf '\035'
  cat "$p/cgroup" 2>/dev/null; printf '\035'
  readlink "$p/fd/1" 2>/dev/null; readlink "$p/fd/2" 2>/dev/null; printf '\035'
  cat "$p/net/tcp" "$p/net/tcp6" 2>/dev/null | while read -r _ here _ state _ _ _ _ _ inode _; do
    [ "$state" = 0A ] && echo "$here $inode"; done; printf '\035'
  ls -l "$p/fd" 2>/dev/null | sed -n 's/.* -> \(socket:.*\|\/.*\.log.*\)$/\1/p'; printf '\035'
  tr '\0' '\n' < "$p/environ" 2>/dev/null | grep -E '^(VARIABLES)_[A-Z0-9_]*='
done
true
""".replace("PROCESS", _PROCESS).replace("VARIABLES", _VARIABLES)

_HOST = r"""
for f in /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor /sys/devices/system/cpu/cpu0/cpufreq/scaling_driver \
  /sys/devices/system/cpu/cpu0/cpufreq/energy_performance_preference /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu.stat \
  /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us /proc/sys/kernel/numa_balancing \
  /sys/devices/system/clocksource/clocksource0/current_clocksource /sys/kernel/mm/transparent_hugepage/enabled; do
  [ -r "$f" ] && echo "== $f" && cat "$f"; done
echo "== df -h /dev/shm"; df -h /dev/shm; echo "== free -m"; free -m
echo "== lscpu"; lscpu; echo "== uname -a"; uname -a
true
"""

_SERVER_LIMITS = r"""
g=$(sed -n 's/^0:://p' /proc/{pid}/cgroup 2>/dev/null | head -n 1)
for f in "/sys/fs/cgroup$g/cpu.max" "/sys/fs/cgroup$g/cpu.stat"; do [ -r "$f" ] && echo "== $f" && cat "$f"; done
l=$(sed -n 's/^Max locked memory *\([^ ]*\).*/\1/p' /proc/{pid}/limits 2>/dev/null)
case "$l" in '') ;; unlimited) echo "== ulimit -l"; echo unlimited ;; *) echo "== ulimit -l"; echo $((l / 1024)) ;; esac
s=$(df -h /proc/{pid}/root/dev/shm 2>/dev/null | sed -n '2s, [^ ]*$, /dev/shm,p')
[ -n "$s" ] && echo "== df -h /dev/shm" && echo "Filesystem      Size  Used Avail Use% Mounted on" && echo "$s"
true
"""

_PACKAGES = r"""
e=$(readlink /proc/{pid}/exe 2>/dev/null); r=/proc/{pid}/root
v=$(tr '\0' '\n' < /proc/{pid}/environ 2>/dev/null | sed -n 's/^VIRTUAL_ENV=//p' | head -n 1)
a=$(tr '\0' '\n' < /proc/{pid}/cmdline 2>/dev/null | head -n 1); case "$a" in /*) ;; *) a=$e ;; esac
for b in "$v" "${{a%/bin/*}}" "${{e%/bin/*}}" /usr /usr/local; do
  [ -n "$b" ] || continue
  found=
  for s in "$r$b"/lib/python3*/site-packages "$r$b"/lib/python3*/dist-packages \
    "$r$b"/local/lib/python3*/dist-packages; do
    [ -d "$s" ] && found=1 && ls -1 "$s" 2>/dev/null
  done
  [ -n "$found" ] && break
done | sed -n 's/^\([A-Za-z0-9_.]*\)-\([0-9][^-]*\)\.dist-info$/\1==\2/p' | sort -u
true
"""

_LOG = r"""
f={path}; [ -r "$f" ] || {{ echo "it cannot be read by this user" >&2; exit 3; }}
z() {{ if command -v gzip >/dev/null 2>&1; then gzip -1c; else cat; fi; }}
{{
  echo "$(wc -c < "$f") $(wc -l < "$f")"
  printf '\036'; head -c {head} "$f"
  printf '\036'; tail -c {tail} "$f"
  printf '\036'; grep -a -n -F -B 2 -A 12 -m {most} -f - "$f"
}} | z
"""

_LOG_NEW = r"""
f={path}; [ -r "$f" ] || {{ echo "it cannot be read by this user" >&2; exit 3; }}
stat -L -c '%i %s' "$f"; printf '\036'; tail -c +{offset} "$f" | head -c 4194304
"""

COMMANDS: Mapping[str, Command] = {
    command.id: command
    for command in (
        Command("servers", _EACH_SERVER, "inference servers, their flags, variables, ports and logs", root=True),
        Command("smi.table", "nvidia-smi", "state of the GPUs", timeout_s=60),
        Command("smi.q", "nvidia-smi -q", "state of the GPUs in full", timeout_s=90),
        Command("smi.topo", "nvidia-smi topo -m", "how the GPUs are connected", timeout_s=60),
        Command("smi.nvlink", "nvidia-smi nvlink -s", "state of the NVLinks", timeout_s=60),
        Command(
            "smi.samples",
            f"nvidia-smi --query-gpu={_SMI_FIELDS} --format=csv && for i in 1 2 3; do sleep 1; "
            f"nvidia-smi --query-gpu={_SMI_FIELDS} --format=csv,noheader; done",
            "clocks, links, power and load over some seconds",
            timeout_s=60,
        ),
        Command(
            "kernel",
            "{ dmesg -T 2>/dev/null || journalctl -k --no-pager -n 20000 2>/dev/null || "
            "tail -n 20000 /var/log/kern.log; } | tail -n 20000",
            "kernel log: Xids, OOM killer, PCIe errors",
            root=True,
        ),
        Command("host", _HOST, "CPU clocks, quotas, memory, /dev/shm, clock source, NUMA"),
        Command("server.limits", _SERVER_LIMITS, "quota, locked memory and /dev/shm of the server", root=True),
        Command("server.packages", _PACKAGES, "packages in the server's own environment", root=True),
        Command(
            "server.libraries",
            "sed -n 's/.* \\(\\/.*\\.so[.0-9]*\\)$/\\1/p' /proc/{pid}/maps | sort -u | "
            "grep -E 'cuda|cudnn|nccl|nvrtc|cublas|nvjit|torch'; true",
            "CUDA libraries that the server has loaded",
            root=True,
        ),
        Command("file", "head -c 200000 {path}", "a small file: the model's config.json", root=True),
        Command("log", _LOG, "a log: its beginning, its end, and the lines that messages hit", root=True, timeout_s=120,
                limit_bytes=32 * MIB),
        Command("log.new", _LOG_NEW, "what a log has new since the last look, for --follow", root=True),
        Command("log.docker", "docker logs --tail {count} {container} 2>&1", "a container's log", True, 60),
        Command("log.podman", "podman logs --tail {count} {container} 2>&1", "a container's log", True, 60),
        Command("log.journal", "journalctl -u {unit} --no-pager -o short-iso -n {count}", "a unit's log", root=True,
                timeout_s=60),
    )
}  # fmt: skip


class ReadOnlyHost:
    """A machine that can only be looked at.

    sudo: commands that need root are run with ``sudo -n``.
    """

    def __init__(self, channel: Channel, *, sudo: bool = False) -> None:
        self.name = channel.name
        self._channel = channel
        self._sudo = sudo

    def run(self, command: str, parameters: Parameters = MappingProxyType({}), stdin: bytes = b"") -> Output:
        """Run a command of the list. Raises `ChannelError` for anything else, before it reaches the machine."""
        known = COMMANDS.get(command)
        if known is None:
            raise ChannelError(f"{command!r} is not on the list of what may be run")
        line = known.line
        if parameters:
            line = line.format(**{name: _checked(command, name, value) for name, value in parameters.items()})
        return self._channel.execute(
            f"{_SETTING}{self._rooted(known, line)}",
            timeout_s=known.timeout_s,
            limit_bytes=known.limit_bytes,
            stdin=stdin,
        )

    def run_all(self, commands: Sequence[str]) -> dict[str, Output]:
        """Several commands without parameters in one session, one after the other: a session costs a login.

        Standard error is told only of commands that fail.
        """
        known = [COMMANDS[command] for command in commands]
        parts = [
            f"printf '\\036%s\\035' {one.id}; {self._rooted(one, one.line, ' 2>&1')}; printf '\\035%s' $?"
            for one in known
        ]
        output = self._channel.execute(
            f"{_SETTING}{'; '.join(parts)}",
            timeout_s=max(one.timeout_s for one in known) + 2 * len(known),
            limit_bytes=sum(one.limit_bytes for one in known),
        )
        found = dict.fromkeys(commands, output)
        for record in output.stdout.split(b"\x1e")[1:]:
            name, _, rest = record.partition(b"\x1d")
            text, _, code = rest.rpartition(b"\x1d")
            exit_code = int(code) if code.isdigit() else None
            failed = exit_code != 0
            found[name.decode()] = replace(
                output, stdout=b"" if failed else text, stderr=text if failed else b"", exit_code=exit_code
            )
        return found

    def _rooted(self, command: Command, line: str, errors: str = "") -> str:
        if command.root and self._sudo:
            return f"sudo -n /bin/sh -c {shlex.quote(line)}{errors}"
        return f"( {line.strip()}\n){errors}"

    def get(self, port: int, path: str) -> Reply:
        """Ask a server of the machine. Raises `ChannelError` for a path that is not on the list."""
        if path not in GETS:
            raise ChannelError(f"{path!r} is not on the list of what may be asked")
        return self._channel.fetch(port, path)

    def close(self) -> None:
        self._channel.close()


def _checked(command: str, name: str, value: str | int) -> str:
    text = str(value)
    shape = _SHAPES.get(name, _SHAPES["count"])
    if not re.fullmatch(shape, text):
        raise ChannelError(f"{text[:80]!r} is no {name} for {command!r}")
    return shlex.quote(text)
