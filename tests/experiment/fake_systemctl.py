"""A small systemctl and journalctl for PATH: units are files in a folder, their processes are real.

It knows what the launcher asks: show, start, stop, daemon-reload, and ``-o cat`` of the journal; drop-ins change a unit
only after daemon-reload, as systemd has it. Nothing else of systemd is in it.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(os.environ["FAKE_SYSTEMD"])
DROP_INS = Path(os.environ["DIAGNOSER_UNITS"])


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def loaded(unit: str) -> dict[str, object]:
    return dict(json.loads((HERE / f"{unit}.json").read_text()))


def reload() -> None:
    for file in HERE.glob("*.service"):
        command, environment = "", {}
        drop_ins = sorted((DROP_INS / f"{file.name}.d").glob("*.conf"))
        for line in "\n".join(one.read_text() for one in (file, *drop_ins)).splitlines():
            key, _, value = line.partition("=")
            if key == "ExecStart":
                command = value
            elif key == "Environment":
                name, _, text = shlex.split(value)[0].partition("=")
                environment[name] = text
        plain = command.replace("%%", "%").replace("$$", "$")
        (HERE / f"{file.name}.json").write_text(
            json.dumps({"command": shlex.split(plain), "environment": environment})
        )


def pid_of(unit: str) -> int:
    file = HERE / f"{unit}.pid"
    pid = int(file.read_text()) if file.exists() else 0
    return pid if pid and alive(pid) else 0


def main(words: list[str]) -> int:
    if Path(sys.argv[0]).name == "journalctl":
        unit = words[words.index("-u") + 1]
        since = float(words[words.index("--since") + 1].lstrip("@"))
        for file in sorted(HERE.glob(f"{unit}.*.log")):
            if float(file.name.split(".")[-2]) >= since:
                sys.stdout.write(file.read_text())
        return 0
    verb, unit = words[0], words[-1]
    if verb == "daemon-reload":
        reload()
        return 0
    known = (HERE / unit).exists()
    if verb == "show":
        pid = pid_of(unit)
        argv = " ".join(loaded(unit)["command"]) if known else ""  # type: ignore[arg-type]
        said = {
            "LoadState": "loaded" if known else "not-found",
            "ActiveState": "active" if pid else "inactive",
            "SubState": "running" if pid else "dead",
            "MainPID": str(pid),
            "ExecStart": f"{{ path=/x ; argv[]={argv} ; ignore_errors=no ; start_time=[n/a] }}",
            "StandardOutput": "journal",
        }
        wanted = [words[at + 1] for at, word in enumerate(words) if word == "-p"]
        for name in wanted:
            print(said[name] if "--value" in words else f"{name}={said[name]}")
        return 0
    if verb == "start" and not pid_of(unit):
        made = loaded(unit)
        with (HERE / f"{unit}.{int(time.time())}.log").open("ab") as log:
            child = subprocess.Popen(
                made["command"], stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,  # type: ignore[call-overload]
                env={"PATH": "/usr/bin:/bin", **made["environment"]},  # type: ignore[dict-item]
            )  # fmt: skip
        (HERE / f"{unit}.pid").write_text(str(child.pid))
        return 0
    if verb == "stop" and (pid := pid_of(unit)):
        os.kill(pid, signal.SIGTERM)
        while alive(pid):
            time.sleep(0.02)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
