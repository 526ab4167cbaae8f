"""The loads that speeds are kept under: numbers of running requests, and how long their contexts are."""

from bisect import bisect_right

CONTEXTS = (0, 1024, 4096, 16384, 65536, 262144)
"""Ranges of tokens held by a request, by their lower ends: attention's part of a step grows with them, and within a
range by no more than the range is wide."""

CELL = 1 << 32
"""What the numbers of `cell` count ranges in."""


def group(running: int) -> int:
    """The number of running requests that samples are kept by: exact to 64, then two leading digits.

    >>> group(58), group(137), group(1184)
    (58, 130, 1100)
    """
    if running <= 64:
        return running
    step: int = 10 ** (len(str(running)) - 2)
    return running // step * step


def cell(running: int, tokens: int | None) -> int:
    """Under which number samples of so many running requests, which hold so many tokens together, are kept.

    The low 32 bits are `group`, the rest is the place of the range in `CONTEXTS` from 1 on; 0: not known.

    >>> cell(4, 8000) == 2 * 2**32 + 4, cell(4, None), cell(0, 100)
    (True, 4, 0)
    """
    if tokens is None or running <= 0:
        return group(running)
    return bisect_right(CONTEXTS, tokens // running) * CELL + group(running)
