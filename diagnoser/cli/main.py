"""The command line: `diagnose`."""

import io
import os
import sys
from collections.abc import Sequence

from diagnoser.version import __version__

COMMANDS = ("rules", "schema")


def entry() -> None:
    """The console script."""
    # pydantic looks for plugins in every installed package, which takes longer than a diagnosis.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Log lines hold any character; a narrow locale must not end in an error.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run one command line; exit code 0: nothing above info, 1: a cause, 2: wrong call or nothing read."""
    if list(arguments) in (["--version"], ["-V"]):
        # Answered before anything is imported: shells and scripts ask this often.
        print(f"diagnose {__version__}")
        return 0
    try:
        return _run(list(arguments))
    except KeyboardInterrupt:
        print("diagnose: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); that is no error of ours.
        sys.stderr.close()
        return 0
    except Exception as error:
        # Exit code 1 means "a cause was found", so what nobody foresaw must never end in a bare traceback.
        if os.environ.get("DIAGNOSER_DEBUG"):
            raise
        print(f"diagnose: {type(error).__name__}: {error}"[:500], file=sys.stderr)
        print("  this is a fault of the tool; DIAGNOSER_DEBUG=1 shows where", file=sys.stderr)
        return 2


def _run(arguments: list[str]) -> int:
    if arguments and arguments[0] in COMMANDS:
        from diagnoser.cli import rules, schema

        return {"rules": rules.run, "schema": schema.run}[arguments[0]](arguments[1:])
    from diagnoser.cli import diagnose

    return diagnose.run(arguments)


if __name__ == "__main__":
    entry()
