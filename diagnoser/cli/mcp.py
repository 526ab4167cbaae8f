"""`diagnose mcp`: tools for agents over standard input and output."""

import argparse
from pathlib import Path

from diagnoser.cli.output import fail

PROGRAM = "diagnose mcp"


def run(arguments: list[str]) -> int:
    """Exit code 0: the agent ended it; 2: wrong call."""
    options = argparse.ArgumentParser(
        prog=PROGRAM,
        description="A server of the Model Context Protocol on standard input and output: diagnose texts and files, "
        "look at a machine, explain a rule, compare benchmark results. Nothing in it changes a machine.",
        allow_abbrev=False,
    )
    options.add_argument(
        "--skill", action="store_true", help="print a skill file that teaches an agent the use"
    )
    if options.parse_args(arguments).skill:
        print((Path(__file__).resolve().parent.parent / "serve" / "SKILL.md").read_text("utf-8"), end="")
        return 0
    try:
        from diagnoser.serve.tools import server
    except ImportError as error:
        return fail(f"{error.name} is not installed; pip install 'diagnoser[mcp]'", PROGRAM)
    server().run("stdio")
    return 0
