"""A small docker for PATH: containers are JSON files in a folder, their processes are real.

It knows inspect, start, stop, rm, logs and run with the options that tests use; images are not needed. Nothing else of
docker is in it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(os.environ["FAKE_DOCKER"])
SWITCHES = ("-d", "--privileged", "--init", "--tty", "--read-only")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text())
    found["State"]["Running"] = bool(found["State"].get("Pid")) and alive(found["State"]["Pid"])
    return found


def write(name: str, made: dict[str, Any]) -> None:
    (HERE / f"{name}.json").write_text(json.dumps(made))


def start(name: str) -> int:
    made = read(name)
    if made["State"]["Running"]:
        return 0
    config = made["Config"]
    words = [*(config["Entrypoint"] or ()), *config["Cmd"]]
    with (HERE / f"{name}.{time.time():.0f}.log").open("ab") as log:
        child = subprocess.Popen(
            words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            env=dict(pair.partition("=")[::2] for pair in config["Env"]),
        )  # fmt: skip
    made["State"]["Pid"] = child.pid
    write(name, made)
    return 0


def stop(name: str) -> int:
    made = read(name)
    if made["State"]["Running"]:
        os.kill(made["State"]["Pid"], signal.SIGTERM)
        while alive(made["State"]["Pid"]):
            time.sleep(0.02)
    return 0


def run(words: list[str]) -> int:
    options: dict[str, str] = {}
    while words[0].startswith("-"):
        option = words.pop(0)
        options[option] = "" if option in SWITCHES else words.pop(0)
    env = Path(options["--env-file"]).read_text().splitlines()
    entry = [options["--entrypoint"]] if "--entrypoint" in options else []
    name = options["--name"]
    (HERE / "runs.txt").open("a").write(json.dumps(options) + "\n")
    write(name, {"Name": f"/{name}", "Config": {"Image": words[0], "Entrypoint": entry, "Cmd": words[1:], "Env": env},
                 "HostConfig": {}, "State": {}})  # fmt: skip
    return start(name)


def main(words: list[str]) -> int:
    verb, name = words[0], words[-1]
    if verb == "run":
        return run(words[1:])
    if not (HERE / f"{name}.json").exists():
        print(f"Error: No such container: {name}", file=sys.stderr)
        return 1
    if verb == "inspect":
        made = read(name)
        print(str(made["State"]["Running"]).lower() if "-f" in words else json.dumps([made]))
    elif verb == "start":
        return start(name)
    elif verb == "stop":
        return stop(name)
    elif verb == "rm":
        stop(name)
        (HERE / f"{name}.json").unlink()
    elif verb == "logs":
        since = float(words[words.index("--since") + 1])
        for file in sorted(HERE.glob(f"{name}.*.log")):
            if float(file.name.split(".")[-2]) >= since:
                sys.stdout.write(file.read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
