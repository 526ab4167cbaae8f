"""numpy where it is installed and pays: a paste never imports it, a large log is read in columns with it.

Everything that uses it has a twin without it that gives the same answer.
"""

import sys
from functools import cache
from os import environ
from types import ModuleType

MIN_BYTES = 2 << 20
"""A smaller text is read before numpy would be imported (0.1 s)."""

MIN_LOADED = 64 << 10
"""Once it is imported, smaller texts gain too."""


def numpy_for(size_bytes: int) -> ModuleType | None:
    """numpy for a text of this size; None where it is not installed, would not pay, or is switched off.

    DIAGNOSER_NO_NUMPY=1 in the environment switches it off.
    """
    if size_bytes < (MIN_LOADED if "numpy" in sys.modules else MIN_BYTES):
        return None
    return _numpy()


def count_lines(data: bytes) -> int:
    """How many line ends there are."""
    np = numpy_for(len(data))
    if np is None:
        return data.count(b"\n")
    return int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n")))


@cache
def _numpy() -> ModuleType | None:
    if environ.get("DIAGNOSER_NO_NUMPY"):
        return None
    try:
        import numpy as np
    except ImportError:
        return None
    return np
