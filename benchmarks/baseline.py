"""Two large logs held beside each other: how fast, beside reading one, and in how much memory.

    python benchmarks/baseline.py             # 100 and 300 MB a log
    python benchmarks/baseline.py --large     # 300 MB and 1 GB a log

Each figure is the median of --runs (default 3) runs of a fresh process, start-up included, in turn. Speed is bytes read
a second: a comparison reads both logs. Memory is flat when it does not grow with the logs. Prints; fails nothing.
"""

import argparse
import tempfile
from pathlib import Path

from logs import make_log
from throughput import WARM_UP_MB, diagnose, in_turn, run


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--large", action="store_true", help="300 MB and 1 GB a log")
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--engine", choices=("sglang", "vllm"), default="sglang")
    options.add_argument("--folder", type=Path, help="where the logs are made (default: a temporary folder)")
    chosen = options.parse_args()
    sizes = (300.0, 1000.0) if chosen.large else (100.0, 300.0)
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        warm = make_log(chosen.engine, WARM_UP_MB, Path(folder) / "warm.log")
        run(diagnose("--baseline", warm, warm))
        print(f"{'log MB':>8} {'':<22} {'wall s':>8} {'CPU s':>8} {'MB/s':>8} {'peak MB':>8}")
        for size in sizes:
            one = make_log(chosen.engine, size, Path(folder) / "one.log")
            other = Path(folder) / "other.log"
            with one.open("rb") as lines, other.open("wb") as changed:
                # Line by line: a child's peak memory begins with that of the process it was forked from.
                changed.writelines(line.replace(b"backend='triton'", b"backend='fa3'") for line in lines)
            read = one.stat().st_size / 1e6, (one.stat().st_size + other.stat().st_size) / 1e6
            costs = in_turn({"one": diagnose(one), "both": diagnose("--baseline", one, other)}, chosen.runs)
            for name, megabytes in zip(("one", "both"), read, strict=True):
                cost = costs[name]
                print(
                    f"{size:>8.0f} {'reading one' if name == 'one' else '--baseline of two':<22} {cost.wall_s:>8.2f} "
                    f"{cost.cpu_s:>8.2f} {megabytes / cost.wall_s:>8.0f} {cost.peak_mb:>8.0f}"
                )
            by_wall = read[1] / costs["both"].wall_s / (read[0] / costs["one"].wall_s)
            by_cpu = read[1] / costs["both"].cpu_s / (read[0] / costs["one"].cpu_s)
            print(
                f"{size:>8.0f} speed of both beside one: {by_wall:.2f} by wall time, {by_cpu:.2f} by CPU time"
            )


if __name__ == "__main__":
    main()
