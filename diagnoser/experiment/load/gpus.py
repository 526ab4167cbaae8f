"""The GPUs of this machine, when the server runs on it."""

import csv
import ipaddress
import shutil
import subprocess
from urllib.parse import urlsplit

from diagnoser.experiment.results import Gpu

_FIELDS = "name,uuid,driver_version,clocks.sm,clocks.mem,enforced.power.limit"
WAIT_S = 10.0


def local(url: str) -> bool:
    """Whether a URL names this machine's loopback."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def gpus() -> list[Gpu]:
    """As nvidia-smi lists them; empty without it or when it fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    command = [tool, f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=WAIT_S, check=True, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[cell.strip() for cell in row] for row in csv.reader(done.stdout.splitlines())]
    return [
        Gpu(
            name=row[0],
            uuid=row[1],
            driver=row[2],
            sm_clock_mhz=_number(row[3]),
            memory_clock_mhz=_number(row[4]),
            power_limit_w=_number(row[5]),
        )
        for row in rows
        if len(row) == len(_FIELDS.split(","))
    ]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
