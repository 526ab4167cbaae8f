"""Start-up and paste times beside bare Python and ripgrep, in one run.

Prints medians of whole processes and the ratios that matter; nothing here fails a build.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / "fixtures" / "captures" / "sglang_h200" / "triton.log"
RUNS = 15


def seconds(command: list[str], env: dict[str, str], stdin: Path | None = None) -> float:
    """Wall time of one process, output thrown away."""
    with open(stdin or os.devnull, "rb") as given:
        began = time.perf_counter()
        subprocess.run(
            command, stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, check=False
        )
        return time.perf_counter() - began


def median(command: list[str], env: dict[str, str], stdin: Path | None = None) -> float:
    return statistics.median(seconds(command, env, stdin) for _ in range(RUNS))


def paste(lines: int, folder: Path) -> Path:
    """A log of so many lines: a real one, its tail repeated."""
    text = LOG.read_text("utf-8", "replace").splitlines()
    tail = [line for line in text if "Decode batch" in line or "Prefill batch" in line or "HTTP/1.1" in line]
    while len(text) < lines:
        text += tail
    path = folder / "paste.log"
    path.write_text("\n".join(text[:lines]) + "\n", "utf-8")
    return path


def main() -> None:
    """Print the table."""
    diagnose = str(Path(sys.executable).with_name("diagnose"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = paste(2000, folder)
        env = {**os.environ, "DIAGNOSER_CACHE": str(folder / "cache")}
        # An installed package has its bytecode; without it every call would compile a hundred modules.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        first = seconds([diagnose, "-"], env, log)
        rows = [
            ("python -c pass", median([sys.executable, "-c", "pass"], env)),
            ("diagnose --version", median([diagnose, "--version"], env)),
            ("diagnose, 2,000-line paste, first call", first),
            ("diagnose, 2,000-line paste, later calls", median([diagnose, "-"], env, log)),
        ]
        ripgrep = shutil.which("rg")
        if ripgrep:
            rows.append(("rg -c error, same paste", median([ripgrep, "-c", "error", str(log)], env)))
        bare = rows[0][1]
        for title, took in rows:
            print(f"{title:<44} {took * 1000:8.1f} ms  {took / bare:6.1f} x python -c pass")
        if not ripgrep:
            print("rg is not installed; its row is left out")


if __name__ == "__main__":
    main()
