"""`diagnose probes`: everything that --host may run on a machine."""

import argparse
import json

from diagnoser.cli.output import fail, give


def run(arguments: list[str]) -> int:
    """List the probes; exit code 0."""
    options = argparse.ArgumentParser(
        prog="diagnose probes",
        description="List what is run on a machine by --host. All of it reads; nothing else is ever run.",
        allow_abbrev=False,
    )
    options.add_argument("--json", action="store_true")
    options.add_argument("--commands", action="store_true", help="show each command line")
    chosen = options.parse_args(arguments)
    from diagnoser.sources.hosts.collect import PROBES
    from diagnoser.sources.hosts.readonly import COMMANDS, GETS

    if chosen.json:
        rows = [probe._asdict() for probe in PROBES]
        commands = [command._asdict() for command in COMMANDS.values()]
        text = json.dumps({"probes": rows, "commands": commands, "gets": sorted(GETS)}, indent=2) + "\n"
    elif chosen.commands:
        text = "\n".join(f"# {one.id}: {one.shows}\n{one.line.strip()}\n" for one in COMMANDS.values())
        text += "\n# asked of a server over HTTP, through the connection\n"
        text += "".join(f"GET {path}\n" for path in sorted(GETS))
    else:
        text = "".join(
            f"{probe.id:<12} {probe.document:<22} about {probe.cost_s:g} s"
            f"{', for each server' if probe.server else ''}: {', '.join(probe.gives)}\n"
            for probe in PROBES
        )
    sentence = give(text, None)
    return fail(sentence) if sentence else 0
