"""The command line: `diagnose`."""

import atexit
import gc
import io
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import NoReturn

from diagnoser.version import __version__

COMMANDS = (
    "bench",
    "bisect",
    "collect",
    "compare",
    "completions",
    "confirm",
    "digest",
    "gate",
    "history",
    "manual",
    "mcp",
    "probes",
    "rules",
    "scan",
    "schema",
    "serve",
    "upgrade",
)


def entry() -> None:
    """The console script."""
    # pydantic looks for plugins in every installed package, which takes longer than a diagnosis.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # The default looks through all objects dozens of times while modules are imported, and finds nothing.
    gc.set_threshold(100_000, 20, 20)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        print("diagnose: standard output is closed; give it a file or a terminal", file=sys.stderr)
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Log lines hold any character; a narrow locale must not end in an error.
            stream.reconfigure(errors="backslashreplace")
    _leave(main(sys.argv[1:]))


def _leave(code: int) -> NoReturn:
    """End the process; freeing every object one by one would take a fifth of a paste's time."""
    if threading.active_count() > 1 or "multiprocessing" in sys.modules:
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def main(arguments: Sequence[str]) -> int:
    """Run one command line; exit code 0: nothing above info, 1: a cause, 2: wrong call or nothing read.

    130: interrupted, 141: the reader of our output has gone.
    """
    if list(arguments) in (["--version"], ["-V"]):
        # Answered before anything is imported: shells and scripts ask this often.
        print(f"diagnose {__version__}")
        return 0
    try:
        code = _run(list(arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("diagnose: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _drop_output()
        return 128 + 13
    except OSError as error:
        _drop_output()
        from diagnoser.cli.output import fail

        return fail(f"{error.filename or 'standard output'}: {error.strerror or error}")
    except Exception as error:
        # Exit code 1 means "a cause was found", so what nobody foresaw must never end in a bare traceback.
        if os.environ.get("DIAGNOSER_DEBUG"):
            raise
        words = f"{type(error).__name__}: {error!s:.500}".encode("unicode_escape").decode("ascii")
        print(f"diagnose: {words}", file=sys.stderr)
        print("  this is a fault of the tool; DIAGNOSER_DEBUG=1 shows where", file=sys.stderr)
        return 2
    return code


def _drop_output() -> None:
    """What is still buffered cannot be written either; the interpreter must not try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
    if arguments and arguments[0] in COMMANDS:
        from importlib import import_module

        run: Callable[[list[str]], int] = import_module(f"diagnoser.cli.{arguments[0]}").run
        return run(arguments[1:])
    from diagnoser.cli import diagnose

    return diagnose.run(arguments)


if __name__ == "__main__":
    entry()
