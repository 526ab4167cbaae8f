"""`diagnose collect`: look at machines and keep what was seen in one file, or print a script that prints it."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from diagnoser.cli import hosts
from diagnoser.cli.output import fail, give

if TYPE_CHECKING:
    from diagnoser.sources.hosts.bundle import Seen


def run(arguments: list[str]) -> int:
    """Exit code 0; 2 when nothing could be collected or the call is wrong."""
    parser = argparse.ArgumentParser(
        prog="diagnose collect",
        description="Look at machines, read-only, and keep what was seen for later, with secrets masked.",
        allow_abbrev=False,
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="the bundle to write, such as gpu-07.tar.zst")
    parser.add_argument(
        "--script", action="store_true", help="print a shell script whose output can be pasted"
    )
    hosts.add(parser)
    options = parser.parse_args(arguments)
    if options.script:
        from diagnoser.sources.hosts.script import script

        sentence = give(script(), options.output)
        return fail(sentence) if sentence else 0
    if not options.output or not (options.host or options.hosts_file):
        return fail("collect needs --host and -o FILE, or --script")
    named = hosts.targets(options)
    if isinstance(named, str):
        return fail(named)
    return _collect(named, options)


def _collect(named: list[str], options: argparse.Namespace) -> int:
    from concurrent.futures import ThreadPoolExecutor

    from diagnoser.agent.fleet import AT_ONCE
    from diagnoser.agent.investigate import literals
    from diagnoser.agent.session import Options, catalog_of
    from diagnoser.sources.hosts import bundle
    from diagnoser.sources.hosts.channel import ChannelError
    from diagnoser.sources.hosts.collect import Collector

    reach, found = hosts.opener(options), literals(catalog_of(Options()))
    ticker = hosts.Ticker(len(named))

    def look(target: str) -> "Seen":
        try:
            host = reach(target)
            collector = Collector(
                host, found, options.log or (), lambda what: ticker.tell(f"{target}: {what}")
            )
            try:
                return bundle.Seen(target, collector.look(), collector.rows)
            finally:
                host.close()
        except ChannelError as error:
            return bundle.Seen(target, [], [], str(error))

    with ThreadPoolExecutor(min(AT_ONCE, len(named))) as pool:
        seen = list(pool.map(look, named))
    ticker.clear()
    if all(machine.error for machine in seen):
        return fail("; ".join(str(machine.error) for machine in seen))
    try:
        bundle.write(Path(options.output), seen)
    except OSError as error:
        return fail(f"--output {options.output}: cannot be written: {error.strerror or error}")
    for machine in seen:
        lost = [row for row in machine.rows if row.error]
        print(
            f"{machine.host}: "
            + (machine.error or f"{len(machine.items)} documents, {len(lost)} with a note")
        )
    print(f"{options.output} written; diagnose it with: diagnose {options.output}")
    return 0
