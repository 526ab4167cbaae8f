"""The speed of one pass over a log, and what a pack of twice the size costs it; `throughput.py` has whole diagnoses.

Prints MB/s and ratios; nothing here fails a build. Size of the log: first argument in MB (default 200).
"""

import sys
import tempfile
import time
from pathlib import Path

from logs import START_UPS, make_log

from diagnoser.rulebook.book import default_folders, pack_for
from diagnoser.scan.scanner import HyperscanScanner, NaiveScanner, Scanner

CHUNK = 4 << 20


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
        for engine in START_UPS:
            log = make_log(engine, megabytes, folder / "server.log")
            data = log.read_bytes()
            full_speed, half_speed = (scan_mb_s(HyperscanScanner(table), data) for table in (literals, half))
            print(f"{engine} log of {megabytes} MB")
            print(f"  one hyperscan pass, {len(literals)} literals   {full_speed:8.0f} MB/s")
            print(f"  one hyperscan pass, {len(half)} literals   {half_speed:8.0f} MB/s")
            print(f"  a pack of twice the size scans at {full_speed / half_speed:.2f} of the speed")
            sample = data[: 4 << 20]
            print(f"  naive twin, first 4 MB {scan_mb_s(NaiveScanner(literals), sample):8.0f} MB/s")


if __name__ == "__main__":
    main()
