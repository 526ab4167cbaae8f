"""Whole diagnoses of large logs beside ripgrep: ratios, workers, packed files, memory, growth, a doubled pack.

    python benchmarks/throughput.py             # 300 MB a log
    python benchmarks/throughput.py --large     # 1 GB a log
    python benchmarks/throughput.py --runs 3 --engine vllm

Each figure is the median of --runs (default 5) runs of a fresh process, start-up included; runs of what is compared
take turns, so that a busy machine slows all alike. CPU seconds stand beside wall seconds: where other programs hold
the cores, the first still tell. Prints; fails nothing.
"""

import argparse
import codecs
import gzip
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from logs import make_log

from diagnoser.rulebook.book import default_folders, pack_for

WARM_UP_MB = 3  # makes the first call load what a large log needs


class Cost(NamedTuple):
    wall_s: float
    cpu_s: float
    peak_mb: float


def run(command: Sequence[str | Path]) -> Cost:
    """What a command costs, with the children it waits for; peak_mb: of its largest process."""
    began = time.perf_counter()
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen([str(part) for part in command], stdout=nowhere, stderr=nowhere)
        _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return Cost(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def middle(costs: Sequence[Cost]) -> Cost:
    return Cost(*(median(column) for column in zip(*costs, strict=True)))


def in_turn(commands: dict[str, Sequence[str | Path]], runs: int) -> dict[str, Cost]:
    """The median cost of each command; they take turns."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            costs[name].append(run(command))
    return {name: middle(of_one) for name, of_one in costs.items()}


def searcher(patterns: Path, log: Path) -> tuple[str, list[str | Path]]:
    """ripgrep, or grep where it is not installed."""
    beside = Path(sys.executable).with_name("rg")
    found = str(beside) if beside.exists() else shutil.which("rg")
    if found:
        return "ripgrep", [found, "-F", "-c", "-f", patterns, log]
    return "grep", ["grep", "-F", "-c", "-f", patterns, log]


def diagnose(*arguments: str | Path) -> list[str | Path]:
    return [sys.executable, "-m", "diagnoser", "--year", "2026", "-f", "json", *arguments]


def child(*arguments: str | Path) -> list[str | Path]:
    return [sys.executable, __file__, "--child", *arguments]


def reading_s(log: Path, runs: int, *extra: str) -> float:
    """Median processor seconds to read a log in a process that has read a small one before."""
    measured = []
    for _ in range(runs):
        said = subprocess.run(child(log, *extra), capture_output=True, text=True, check=True).stdout
        measured.append(float(said))
    return median(measured)


def measure(log: Path, doubled: bool) -> float:
    """Processor seconds to read a log in this process. Judging it is left out: that is done once, whatever its size."""
    from diagnoser.agent.session import Options, read_source
    from diagnoser.inference.catalog import build
    from diagnoser.sources import Source, open_sources

    pack = pack_for(default_folders())
    if doubled:
        # Other letters in the same words: as many literals again, as long as before, which occur nowhere.
        other = [
            one._replace(literal=codecs.encode(one.literal, "rot13"), plan=None, pattern="^\\b$")
            for one in pack.wordings
        ]
        pack = pack._replace(wordings=[*pack.wordings, *other])
    catalog = build(pack)
    options = Options(year=2026)

    def once(path: Path) -> None:
        for source in open_sources([path]):
            assert isinstance(source, Source)
            read_source(source, catalog, options)

    with tempfile.TemporaryDirectory() as name:
        once(make_log("sglang", WARM_UP_MB, Path(name) / "warm.log"))
    began = time.process_time()
    once(log)
    return time.process_time() - began


def pack_file(log: Path, form: str) -> Path:
    path = log.with_name(log.name + "." + form)
    with log.open("rb") as source, path.open("wb") as target:
        if form == "gz":
            with gzip.GzipFile(fileobj=target, mode="wb", compresslevel=6) as packed:
                shutil.copyfileobj(source, packed, 1 << 20)
        else:
            import zstandard

            zstandard.ZstdCompressor(level=3).copy_stream(source, target)
    return path


def show(name: str, cost: Cost, megabytes: float) -> None:
    print(
        f"  {name:<34}{cost.wall_s:7.2f} s {megabytes / cost.wall_s:7.0f} MB/s   cpu {cost.cpu_s:6.2f} s"
        f"   peak {cost.peak_mb:4.0f} MB"
    )


def beside_ripgrep(engine: str, log: Path, patterns: Path, runs: int) -> None:
    megabytes = log.stat().st_size / 1e6
    name, search = searcher(patterns, log)
    costs = in_turn(
        {
            name: search,
            "diagnose, 1 worker": diagnose(log),
            "diagnose, 2 workers": diagnose("--workers", "2", log),
        },
        runs,
    )
    print(f"{engine} log of {megabytes:.0f} MB; {name} -F -c -f the pack's literals on the same file")
    for label, cost in costs.items():
        show(label, cost, megabytes)
    base, one, two = costs.values()
    print(
        f"  throughput of 1 worker   {base.wall_s / one.wall_s:5.2f} of {name}  (by cpu {base.cpu_s / one.cpu_s:.2f})"
    )
    print(f"  throughput of 2 workers  {base.wall_s / two.wall_s:5.2f} of {name}")
    print(
        f"  1 to 2 workers           {one.wall_s / two.wall_s:5.2f} times  "
        f"(by cpu, on two free cores {2 * one.cpu_s / two.cpu_s:.2f} at most)"
    )


def packed(log: Path, runs: int) -> None:
    print("packed, beside a pipe of the same bytes")
    for form, tool in (("zst", "zstdcat"), ("gz", "zcat")):
        if shutil.which(tool) is None:
            print(f"  .{form:<4} {tool} is not installed")
            continue
        path = pack_file(log, form)
        piped = " ".join(str(part) for part in diagnose("-"))
        costs = in_turn({"file": diagnose(path), "pipe": ["sh", "-c", f"{tool} {path} | {piped}"]}, runs)
        for label, cost in costs.items():
            show(f".{form}, {label if label == 'file' else tool + ' |'}", cost, log.stat().st_size / 1e6)
        print(
            f"  .{form:<4} takes {costs['file'].wall_s / costs['pipe'].wall_s:.2f} times as long as {tool} |"
        )
        path.unlink()


def growth(engine: str, sizes: Sequence[float], folder: Path, runs: int) -> None:
    """The exponent of time over size, by least squares on logarithms. In smaller logs the start-up (0.1 s) shows."""
    points = []
    for size in sizes:
        log = make_log(engine, size, folder / "growth.log")
        points.append((math.log(size), math.log(reading_s(log, runs))))
        print(f"  {size:6.0f} MB  {math.exp(points[-1][1]):7.2f} cpu s")
        log.unlink()
    mean_x, mean_y = (sum(column) / len(points) for column in zip(*points, strict=True))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    print(f"  time grows with size to the power of {slope:.3f}")


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--large", action="store_true", help="1 GB a log instead of 300 MB")
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--engine", choices=("sglang", "vllm"), action="append")
    options.add_argument("--only", choices=("ratios", "packed", "growth", "pack"), action="append")
    options.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--doubled", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.child:
        print(measure(given.child, given.doubled))
        return
    megabytes = 1000 if given.large else 300
    wanted = given.only or ("ratios", "packed", "growth", "pack")
    literals = dict.fromkeys(wording.literal for wording in pack_for(default_folders()).wordings)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        patterns = folder / "literals.txt"
        patterns.write_text("\n".join(literals) + "\n")
        parts: dict[str, Callable[[str, Path], None]] = {
            "ratios": lambda engine, log: beside_ripgrep(engine, log, patterns, given.runs),
            "packed": lambda _, log: packed(log, given.runs),
            "pack": lambda _, log: doubled_pack(log, given.runs),
        }
        for engine in given.engine or ("sglang", "vllm"):
            log = make_log(engine, megabytes, folder / f"{engine}.log")
            for part, show_part in parts.items():
                if part in wanted:
                    show_part(engine, log)
            log.unlink()
            if "growth" in wanted:
                print(f"growth, {engine}")
                growth(engine, (50, 220, 1000) if given.large else (50, 120, 300), folder, min(3, given.runs))


def doubled_pack(log: Path, runs: int) -> None:
    one, two = reading_s(log, runs), reading_s(log, runs, "--doubled")
    print(f"a pack of twice the size: {two:.2f} instead of {one:.2f} cpu s, {two / one - 1:+.0%}")


if __name__ == "__main__":
    main()
