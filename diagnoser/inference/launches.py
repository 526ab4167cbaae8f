"""The life of a server in one log: launches, each with its own facts."""

from collections import Counter

from diagnoser.facts.factbase import FactBase
from diagnoser.facts.series import SeriesStore

KEPT_LAUNCHES = 3
"""How many of the last launches of one log keep their facts; earlier ones are only counted."""


class Launch:
    """What was read between one start of a server and the next (or the end of the text).

    opens: the first line begins a launch. progressed: a line was seen that only a started server prints.
    wordings: numbers of the pack's wordings that were seen.
    """

    __slots__ = ("facts", "first_line", "last_line", "marks", "opens", "series", "wordings")

    def __init__(self, first_line: int, *, opens: bool) -> None:
        self.facts = FactBase()
        self.series = SeriesStore()
        self.wordings: set[int] = set()
        self.marks: Counter[str] = Counter()
        self.opens = opens
        self.first_line = first_line
        self.last_line = first_line

    @property
    def progressed(self) -> bool:
        return any(self.marks[mark] for mark in ("progress", "ready", "exit"))

    def join(self, other: "Launch") -> "Launch":
        """Both as one; ``other`` stands behind."""
        joined = Launch(self.first_line, opens=self.opens)
        joined.facts = self.facts.merge(other.facts)
        joined.series = self.series.merge(other.series)
        joined.wordings = self.wordings | other.wordings
        joined.marks = self.marks + other.marks
        joined.last_line = other.last_line if other._said else self.last_line
        return joined

    @property
    def _said(self) -> bool:
        return bool(self.facts or self.wordings or self.marks)


class Launches:
    """The launches of one text, in order, mergeable with those of the text behind it.

    A line that begins a launch opens a new one only when the launch before it has progressed: a server says
    several things before it does anything. Whether the first opening of a text begins a new launch depends on
    what stands before the text, so it is kept apart until that is known.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self.items: list[Launch] = []
        self._goes_on: SeriesStore | None = None

    def behind(self, before: "Launches") -> None:
        """Note, before anything is read, that the text goes on behind another: the first lines are of its last launch.

        Nothing depends on it but the time it takes: what is in bins there is put into bins at once.
        """
        if before.items:
            self._goes_on = before.items[-1].series.ahead()

    def current(self, line: int) -> Launch:
        """The launch that a line belongs to."""
        if not self.items:
            self.items.append(Launch(line, opens=False))
            if self._goes_on is not None:
                self.items[0].series = self._goes_on
        return self.items[-1]

    def open(self, line: int) -> Launch:
        """Note a line that begins a launch."""
        current = self.current(line)
        undetermined = len(self.items) == 1 and not current.opens and not self.dropped
        if current.progressed or undetermined:
            self.items.append(Launch(line, opens=True))
            self._forget()
        return self.items[-1]

    def merge(self, other: "Launches") -> "Launches":
        merged = Launches()
        merged.dropped = self.dropped + other.dropped
        merged.items = list(self.items)
        for launch in other.items:
            last = merged.items[-1] if merged.items else None
            undetermined = (
                len(merged.items) == 1 and last is not None and not last.opens and not merged.dropped
            )
            if last is None or (launch.opens and (last.progressed or undetermined)):
                merged.items.append(launch)
            else:
                merged.items[-1] = last.join(launch)
        merged._forget()
        return merged

    def settled(self) -> list[Launch]:
        """The launches when nothing stands before this text."""
        settled: list[Launch] = []
        for launch in self.items:
            if settled and not settled[-1].progressed:
                settled[-1] = settled[-1].join(launch)
            else:
                settled.append(launch)
        return settled

    @property
    def count(self) -> int:
        """How many launches there are in all, also those whose facts are no longer kept."""
        return len(self.settled()) + self.dropped

    def _forget(self) -> None:
        # The first two may still have to be joined with what stands before the text.
        while len(self.items) > KEPT_LAUNCHES + 2:
            del self.items[2]
            self.dropped += 1
