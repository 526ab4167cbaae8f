"""Scanning and reading speed beside ripgrep, and what a pack of twice the size costs, in one run.

Prints MB/s and ratios; nothing here fails a build. Size of the log: first argument in MB (default 200).
"""

import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from diagnoser.agent.session import Options, run
from diagnoser.rulebook.book import default_folders, pack_for
from diagnoser.scan.scanner import HyperscanScanner, NaiveScanner, Scanner

ROOT = Path(__file__).resolve().parent.parent
LOGS = {
    "sglang": ROOT / "fixtures" / "captures" / "sglang_h200" / "triton.log",
    "vllm": ROOT / "fixtures" / "captures" / "cpu_servers" / "vllm_default.log",
}
CHUNK = 4 << 20


def make_log(engine: str, megabytes: int, folder: Path) -> Path:
    """A real start-up and then its own running lines, shuffled, again and again."""
    lines = LOGS[engine].read_bytes().splitlines(keepends=True)
    marks = (b"] Decode batch", b"] Prefill batch", b"HTTP/1.1", b"Avg prompt throughput")
    running = [line for line in lines if any(mark in line for mark in marks)]
    random.Random(7).shuffle(running)
    block = b"".join(running)
    path = folder / f"{engine}.log"
    with path.open("wb") as file:
        file.write(b"".join(lines))
        while file.tell() < megabytes << 20:
            file.write(block)
    return path


def scan_mb_s(scanner: Scanner, data: bytes) -> float:
    began = time.perf_counter()
    for at in range(0, len(data), CHUNK):
        scanner.scan(data[at : at + CHUNK])
    return len(data) / (time.perf_counter() - began) / 1e6


def main() -> None:
    """Print the tables."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    literals = list(dict.fromkeys(w.literal.encode() for w in pack_for(default_folders()).wordings))
    half = literals[: len(literals) // 2]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for engine in LOGS:
            log = make_log(engine, megabytes, folder)
            data = log.read_bytes()
            full_speed, half_speed = (scan_mb_s(HyperscanScanner(table), data) for table in (literals, half))
            print(f"{engine} log of {megabytes} MB")
            print(f"  one hyperscan pass, {len(literals)} literals   {full_speed:8.0f} MB/s")
            print(f"  one hyperscan pass, {len(half)} literals   {half_speed:8.0f} MB/s")
            print(f"  a pack of twice the size scans at {full_speed / half_speed:.2f} of the speed")
            sample = data[: 4 << 20]
            print(f"  naive twin, first 4 MB {scan_mb_s(NaiveScanner(literals), sample):8.0f} MB/s")
            began = time.perf_counter()
            run([log], Options(with_facts=False))
            whole = len(data) / (time.perf_counter() - began) / 1e6
            print(f"  whole diagnosis, one worker      {whole:8.0f} MB/s")
            ripgrep = shutil.which("rg")
            if ripgrep:
                patterns = folder / "literals.txt"
                patterns.write_bytes(b"\n".join(literals) + b"\n")
                began = time.perf_counter()
                subprocess.run(
                    [ripgrep, "-F", "-c", "-f", patterns, log], stdout=subprocess.DEVNULL, check=False
                )
                speed = len(data) / (time.perf_counter() - began) / 1e6
                print(f"  ripgrep -F -c -f the literals    {speed:8.0f} MB/s")
                print(f"  the whole diagnosis is {whole / speed:.2f} of ripgrep")


if __name__ == "__main__":
    main()
