"""Where an answer goes: to a file that is there whole or not at all, or to standard output; and how failure is told."""

import os
import stat
import sys
from pathlib import Path

from diagnoser.sources import printable


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all. Links lead to what they name, and rights stay.

    A pipe, a device or a file that has other names too (hard links) is written in place. Raises OSError.
    """
    target = Path(os.path.realpath(path)) if path.is_symlink() and not _of_process(path) else path
    try:
        before = target.stat()
    except FileNotFoundError:
        before = None
    if _of_process(path) or (before and (not stat.S_ISREG(before.st_mode) or before.st_nlink > 1)):
        target.write_text(text, "utf-8")
        return
    import tempfile

    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".diagnose-")
    partial = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        partial.chmod(stat.S_IMODE(before.st_mode) if before else 0o666 & ~_umask())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _of_process(path: Path) -> bool:
    """/dev/stdout and the like name an open file, which is written to and never replaced."""
    return path.parent == Path("/dev") or os.path.realpath(path.parent).startswith(("/proc/", "/dev/fd"))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def give(text: str, output: str | None) -> str | None:
    """Write the answer; the sentence why it could not be, or None."""
    try:
        if output is None:
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            write_whole(Path(output), text)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"--output {output}" if output is not None else "standard output"
        return f"{where}: cannot be written: {error.strerror or error}"
    return None


def fail(sentence: str, program: str = "diagnose") -> int:
    """Tell what went wrong; exit code 2. What the user gave may hold anything, so no terminal sees it raw."""
    print(f"{program}: {printable(sentence)}", file=sys.stderr)
    return 2
