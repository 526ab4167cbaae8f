"""Regular expressions that are compiled on first use.

Hundreds of patterns take longer to compile than a paste takes to diagnose, and most are not needed for it.
"""

import re
from typing import Any, AnyStr, cast

_METHODS = ("match", "search", "fullmatch", "finditer", "findall", "sub", "subn", "split")


class _Lazy:
    """Looks like a compiled pattern; becomes one when a method is first asked for."""

    def __init__(self, pattern: Any, flags: int) -> None:
        self._source = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._source)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def lazy(pattern: AnyStr, flags: int = 0) -> "re.Pattern[AnyStr]":
    """The pattern, compiled when it is first used. A wrong one is found then, so every pattern needs a test.

    >>> lazy("b+").search("abbc")
    <re.Match object; span=(1, 3), match='bb'>
    """
    return cast("re.Pattern[AnyStr]", _Lazy(pattern, flags))
