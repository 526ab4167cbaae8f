"""What can be wrong with a rule file, as objects."""

from typing import NamedTuple


class Problem(NamedTuple):
    """Something wrong in a rule file: where, what, and the cure. ``line`` is 0 when no line is known."""

    file: str
    line: int
    what: str
    cure: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.what}" + (f" ({self.cure})" if self.cure else "")
