"""A GPU host made of real files and small executables that print captures, and a real process that looks like a server."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SMI = FIXTURES / "gpu_host"
TABLE = SMI / "t07_table_580_8x_rtxpro6000_idle.txt"
QUERY = SMI / "q01_q_595_rtxpro6000_idle_gen1.txt"
TOPOLOGY = SMI / "p01_topo_m_8x_pcie_ansi.txt"
STORY = FIXTURES / "story" / "step6-triton-default.log"


def executable(file: Path, text: str) -> None:
    file.write_text("#!/bin/sh\n" + text)
    file.chmod(0o755)


def commands(folder: Path, *, full: bool = True) -> Path:
    """A folder for PATH with an nvidia-smi and a dmesg that print captures."""
    folder.mkdir(parents=True, exist_ok=True)
    executable(
        folder / "nvidia-smi",
        f'case "$*" in\n  "") cat {TABLE} ;;\n'
        + (f'  -q) cat {QUERY} ;;\n  "topo -m") cat {TOPOLOGY} ;;\n' if full else "")
        + '  *) echo "Invalid combination of input arguments." >&2; exit 2 ;;\nesac\n',
    )
    executable(folder / "dmesg", "exit 1\n")
    executable(folder / "journalctl", "exit 1\n")
    return folder


@contextmanager
def server(log: Path, *arguments: str, **environment: str) -> Iterator[int]:
    """A process with the command line of an SGLang server whose output goes to ``log``."""
    words = arguments or ("--model-path", "/models/kimi", "--tp", "8")
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)", "-m", "sglang.launch_server", *words],
            stdout=output,
            stderr=output,
            env={**os.environ, **environment},
        )
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()
