"""`diagnose scan`: many logs, each judged by itself, and what the fleet has in common."""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from diagnoser.cli.output import fail, give
from diagnoser.cli.rule_folders import rule_folders

if TYPE_CHECKING:
    from diagnoser.agent.scan.local import LocalEngine
    from diagnoser.agent.scan.on_ray import RayEngine

EPILOG = """\
One incident is one file, or with --by folder all files of a folder. Folders and shell patterns are expanded, also
behind URLs (s3://bucket/logs/, gs://, hdfs://, ...; pip install 'diagnoser[cluster]' and the driver of the file
system). Exit code: 0 no cause, 1 a cause, 2 nothing could be read. docs/scale.md says more.
"""


def _parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="diagnose scan",
        description="Diagnose many logs at once: a row for each incident, and the digest of the fleet.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument("paths", nargs="+", metavar="PATH_OR_URL", help="files, folders, patterns, URLs")
    options.add_argument("--by", choices=("file", "folder"), default="file", help="what one incident is")
    options.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="who works: processes of this machine, or Ray",
    )
    options.add_argument("--workers", type=int, metavar="N", help="processes (default: one a core)")
    options.add_argument("--address", help="of a running Ray cluster (auto, host:6379, ray://host:10001)")
    options.add_argument(
        "--state", type=Path, metavar="FILE", help="keep what is done here, and go on from it"
    )
    options.add_argument(
        "--attempts", type=int, default=3, metavar="N", help="tries for an incident (default: 3)"
    )
    options.add_argument(
        "--timeout", type=float, default=900.0, metavar="S", help="seconds for one try (default: 900)"
    )
    options.add_argument("--rules", action="append", metavar="DIR", help="a further folder of rules")
    options.add_argument("--year", type=int, metavar="YYYY", help="the year of time stamps that have none")
    options.add_argument("-f", "--format", choices=("text", "json"), default="text")
    options.add_argument("-o", "--output", metavar="FILE", help="write the answer to FILE instead")
    return options


def run(arguments: list[str]) -> int:
    """Exit code as of the main command."""
    options = _parser().parse_args(arguments)
    for name, least in (("workers", 1), ("attempts", 1), ("timeout", 0.001)):
        value = getattr(options, name)
        if value is not None and value < least:
            return fail(f"--{name} {value}: it must be above 0")
    if options.address and options.engine != "ray":
        return fail("--address goes with --engine ray")
    folders = rule_folders(options.rules)
    if isinstance(folders, str):
        return fail(folders)
    from diagnoser.agent.scan.engines import EngineError, Policy
    from diagnoser.agent.scan.incidents import Settings
    from diagnoser.agent.scan.run import scan
    from diagnoser.agent.session import year_now
    from diagnoser.report import scan as report
    from diagnoser.sources import SourceError

    settings = Settings(tuple(str(folder.absolute()) for folder in folders), options.year or year_now())
    bar = _Progress()
    engine = None
    try:
        engine = _engine(options)
        found = scan(
            options.paths,
            engine,
            settings,
            by=options.by,
            policy=Policy(options.attempts, options.timeout),
            state=options.state,
            progress=bar.update,
        )
    except (SourceError, EngineError) as error:
        return fail(str(error))
    finally:
        bar.clear()
        if engine is not None:
            engine.close()
    if not found.rows:
        return fail("\n  ".join(["nothing could be read", *found.unreadable]))
    sentence = give((report.as_json if options.format == "json" else report.as_text)(found), options.output)
    if sentence:
        return fail(sentence)
    if found.digest.failed == len(found.rows):
        return 2
    return int(found.digest.with_cause > 0)


def _engine(options: argparse.Namespace) -> "LocalEngine | RayEngine":
    if options.engine == "ray":
        from diagnoser.agent.scan.on_ray import RayEngine

        return RayEngine(options.address, options.workers)
    from diagnoser.agent.scan.local import LocalEngine

    return LocalEngine(options.workers or os.cpu_count() or 1)


class _Progress:
    """How far it is, in one line on a terminal."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._began = time.monotonic()
        self._drawn = 0.0

    def update(self, done: int, count: int, size: int) -> None:
        now = time.monotonic()
        if not self._terminal or (now - self._drawn < 0.2 and done < count):
            return
        self._drawn = now
        left = (now - self._began) / done * (count - done)
        told = f"{done}/{count} incidents, {size / 1e6 / max(now - self._began, 0.001):.0f} MB/s, {left:.0f} s left"
        print(f"\r\x1b[K{told}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
