"""`--save`: the result goes into the history, and is held against what is kept there of the same service."""

import argparse
import sys
from typing import TYPE_CHECKING

from diagnoser.cli.output import fail

if TYPE_CHECKING:
    from diagnoser.compare.history.entry import Entry
    from diagnoser.inference.diagnose import Judged


def add(options: argparse.ArgumentParser) -> None:
    """The options; --save-as alone saves too."""
    options.add_argument("--save", action="store_true", help="keep the result; see `diagnose history`")
    options.add_argument("--save-as", metavar="NAME", help="keep it under a name that --baseline NAME finds")


def wanted(options: argparse.Namespace) -> bool:
    """Whether the result is to be kept."""
    return bool(options.save or options.save_as)


def keep_diagnosis(judged: "Judged", options: argparse.Namespace, program: str = "diagnose") -> int:
    """Exit code 0, or 2 with a sentence where the history cannot be used."""
    from diagnoser.agent.history import Told, of_diagnosis
    from diagnoser.agent.session import CallError

    try:
        entry = of_diagnosis(judged, Told(options.save_as))
    except CallError as error:
        return fail(str(error), program)
    return keep(entry, program)


def keep(entry: "Entry", program: str = "diagnose") -> int:
    """As `keep_diagnosis`. What was kept is told on standard error, so that the answer stays as it is."""
    from diagnoser.agent.history import keep as into_history
    from diagnoser.agent.session import CallError
    from diagnoser.report.history import sentence

    try:
        number, past = into_history(entry)
    except CallError as error:
        return fail(str(error), program)
    print(f"kept as {number}; {sentence(past, entry.metric)}", file=sys.stderr)
    return 0
