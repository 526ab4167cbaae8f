"""One source -> launches, blocks and documents, chunk by chunk, in one scan."""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from diagnoser.facts.base import Fact, Found
from diagnoser.facts.engine import Engine, ExceptionRaised, Message, ServerArg
from diagnoser.facts.factbase import FactBase, Sighting
from diagnoser.inference.blocks import Span, find_blocks, inside_blocks, is_prompt, join_spans
from diagnoser.inference.catalog import Catalog
from diagnoser.inference.events import Event, engine_said, event_of, fact_of
from diagnoser.inference.launches import Launch, Launches
from diagnoser.inference.lines import ChunkLines
from diagnoser.inference.narrow import LONG_BLOCK
from diagnoser.inference.odd import OddLines, is_raised
from diagnoser.inference.quoting import unquoted
from diagnoser.parsers import series
from diagnoser.parsers.base import Parser
from diagnoser.parsers.prefix import MAX_PREFIX, Prefix, read_prefix
from diagnoser.scan.scanner import Hits
from diagnoser.scan.template import MatchTimeoutError, match_pattern, match_plan
from diagnoser.sources import redaction

MAX_HELD = 8 * 1024 * 1024
"""How much of a block that reaches over the end of a chunk is held back for the next chunk."""

MAX_CALLS = 4000
"""How often one parser is called in one chunk (4 MiB): a storm of a million errors says nothing new."""


MAX_TIMEOUTS = 20
"""After so many matches that ran into their time limit a wording is not looked for any more in this source."""


class Reading:
    """Everything read of one source.

    launches: facts of log lines. state: facts of blocks, which belong to the host and not to a launch.
    timeouts: places where a pattern ran into its time limit, which makes the result incomplete. skipped: lines that
    were not given to a parser because they came too thick.
    """

    def __init__(self, name: str, host: str | None = None) -> None:
        self.name = name
        self.host = host
        self.launches = Launches()
        self.state = FactBase()
        self.spans: list[Span] = []
        self.odd = OddLines()
        self.notes: list[str] = []
        self.timeouts: list[str] = []
        self.skipped: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.lines = 0
        self.last_at: float | None = None

    def merge(self, other: "Reading") -> "Reading":
        """This and what stands behind it, as if read in one go."""
        merged = Reading(self.name, self.host)
        merged.launches = self.launches.merge(other.launches)
        merged.state = self.state.merge(other.state)
        merged.spans = join_spans(list(self.spans), other.spans)
        merged.odd = self.odd.merge(other.odd)
        merged.notes = self.notes + other.notes
        merged.timeouts = self.timeouts + other.timeouts
        merged.skipped = self.skipped + other.skipped
        merged.failed = self.failed + other.failed
        merged.lines = max(self.lines, other.lines)
        merged.last_at = other.last_at if other.last_at is not None else self.last_at
        return merged


class Held(NamedTuple):
    """The block at the end of what was read that may go on behind it, and the line it begins at."""

    data: bytes = b""
    line: int = 1


class Reader:
    """Reads the chunks of one source in order.

    year: the year of stamps that carry none. held: what stands before the first chunk and is not read yet.
    """

    def __init__(
        self,
        catalog: Catalog,
        name: str,
        host: str | None = None,
        year: int | None = None,
        held: Held = Held(),  # noqa: B008 - immutable
    ) -> None:
        self._done: Reading | None = None
        self._current = Reading(name, host)
        self._catalog = catalog
        self._year = year
        self.held = held
        self._votes: list[tuple[int, str]] = []
        self._timeouts: Counter[int] = Counter()
        self._present: set[bytes] = set()
        self._series = series.SeriesReader()
        self._last_prefix: tuple[int, Prefix] = (0, read_prefix(""))

    @property
    def reading(self) -> Reading:
        """Everything read so far."""
        return self._current if self._done is None else self._done.merge(self._current)

    def fold(self) -> None:
        """End a segment: what was read since the last one is merged into what was read before.

        Whoever reads a text in segments reads each as if it stood alone, but for what is held; so it makes no
        difference who reads which.
        """
        self._done = self.reading
        self._current = Reading(self._done.name, self._done.host)
        self._current.launches.behind(self._done.launches)
        self._timeouts.clear()

    def feed(self, data: bytes, first_line: int, *, last: bool) -> None:
        """Read one chunk, which begins at line ``first_line`` of the source and ends at a line's end."""
        if self.held.data:
            data, first_line = self.held.data + data, self.held.line
            self.held = Held()
        hits = self._catalog.scanner.scan(data)
        counted = self._catalog.counted
        self._present = {counted[hit.literal] for hit in hits if hit.literal in counted}
        data, hits = unquoted(data, hits, self._catalog.quotes)
        buffer = self._redacted(data, hits)
        lines = ChunkLines(buffer)
        blocks = list(find_blocks(lines, hits, self._catalog.targets))
        end = len(lines)
        if not last and blocks and blocks[-1][1].stop == end:
            start = blocks[-1][1].start
            held = bytes(buffer[lines.start(start) :])
            if len(held) <= MAX_HELD:
                self.held = Held(held, first_line + start)
                del blocks[-1]
                end = start
        inside = inside_blocks(blocks, end)
        self._read_blocks(lines, blocks, first_line)
        self._read_log(lines, buffer, hits, inside, end, first_line)
        self._note_spans(lines, blocks, end, first_line)
        self._current.lines = max(self._current.lines, first_line + end - 1)

    def _redacted(self, data: bytes, hits: Hits) -> bytes | bytearray:
        targets = self._catalog.targets
        secrets = array("I", (hit.end for hit in hits if targets[hit.literal].secret))
        if not secrets:
            return data
        buffer = bytearray(data)
        redaction.redact(buffer, secrets)
        return buffer

    def _read_blocks(self, lines: ChunkLines, blocks: list[tuple[Parser, range]], first_line: int) -> None:
        for parser, extent in blocks:
            block = lines[extent.start : extent.stop]
            for found in self._parsed(parser, block, 0):
                first, last = extent.start + found.first, extent.start + found.last
                sighting = self._sighting(lines, first, last, found.rank, first_line)
                if last - first >= LONG_BLOCK:
                    # What proves a statement about a GPU stands far below the line that names the GPU.
                    sighting = sighting._replace(text=lines.block(first, last))
                self._current.state.add(found.fact, sighting)

    def _read_log(
        self,
        lines: ChunkLines,
        buffer: bytes | bytearray,
        hits: Hits,
        inside: bytearray,
        end: int,
        first_line: int,
    ) -> None:
        events, odd = self._events(lines, hits, inside, end, first_line)
        events.sort(key=lambda event: (event.line, event.order))
        launches = self._current.launches
        launch = launches.current(first_line)
        start = 0
        for event in events:
            if event.mark == "opens":
                before = launch
                launch = launches.open(first_line + event.line)
                if launch is not before:
                    self._read_series(lines, buffer, start, event.line, before, first_line)
                    start = event.line
            elif event.mark is not None:
                launch.marks[event.mark] += 1
            if event.wording is not None:
                launch.wordings.add(event.wording)
            if event.fact is not None:
                if isinstance(event.fact, Engine):
                    self._votes.append((first_line + event.line, event.fact.name))
                sighting = self._sighting(lines, event.line, event.last, event.rank, first_line)
                words = self._telling(event)
                if words:
                    # Hundreds of options, or many records, may stand in one line of many kilobytes.
                    sighting = sighting._replace(text=lines.focus(event.line, words))
                launch.facts.add(event.fact, sighting)
            launch.last_line = first_line + event.last
        self._read_series(lines, buffer, start, end, launch, first_line)
        for line in odd:
            self._current.odd.add(self._current.name, first_line + line, lines.excerpt(line, line))

    def _events(
        self, lines: ChunkLines, hits: Hits, inside: bytearray, end: int, first_line: int
    ) -> tuple[list[Event], Iterator[int]]:
        events: list[Event] = []
        known: set[int] = set()
        odd = array("I")
        stated: set[tuple[int, Fact]] = set()
        done: set[int | str] = set()  # wordings and parsers that have looked at this line
        before = -1
        targets = self._catalog.targets
        calls: Counter[str] = Counter()
        for hit in hits:
            target = targets[hit.literal]
            if not (target.wordings or target.parsers or target.odd):
                continue
            line = lines.at(hit.end - 1)
            if line >= end or inside[line]:
                continue
            if line != before:
                before = line
                done.clear()
            for wording in target.wordings:
                if wording in done:
                    continue
                done.add(wording)
                said = list(self._said(lines, line, wording, first_line))
                if said:
                    known.add(line)
                    events.extend(said)
            for parser in target.parsers:
                if parser.block or parser.name in done:
                    continue
                done.add(parser.name)
                calls[parser.name] += 1
                if calls[parser.name] > MAX_CALLS:
                    continue
                for found in self._parsed(parser.parser, lines, line):
                    if (found.first, found.fact) in stated:
                        continue
                    stated.add((found.first, found.fact))
                    # That an exception was raised is read, but what it says only a message knows.
                    start = found.first + isinstance(found.fact, ExceptionRaised)
                    known.update(range(start, min(found.last, found.first + 200) + 1))
                    events.append(event_of(found, len(events)))
            if target.odd and (not odd or odd[-1] != line):
                odd.append(line)
        self._current.skipped.update(
            {name: count - MAX_CALLS for name, count in calls.items() if count > MAX_CALLS}
        )
        return events, (line for line in odd if line not in known and is_raised(lines[line]))

    def _said(self, lines: ChunkLines, line: int, number: int, first_line: int) -> Iterator[Event]:
        if self._timeouts[number] >= MAX_TIMEOUTS:
            return
        pack = self._catalog.pack
        wording = pack.wordings[number]
        message = pack.messages[wording.message]
        text = lines[line]
        try:
            if wording.plan is not None:
                captures = match_plan(wording.plan, text)
            else:
                captures = match_pattern(wording.pattern or "", text, wording.literal)
        except MatchTimeoutError:
            self._timeouts[number] += 1
            if self._timeouts[number] <= MAX_TIMEOUTS:
                self._current.timeouts.append(
                    f"{self._current.name}:{first_line + line}: message {message.id}"
                )
            return
        if captures is None:
            return
        fields = tuple(sorted(captures.items()))
        fact = Message(id=message.id, fields=fields)
        yield Event(line, 0, message.marks, fact, line, None, number)
        for position, gives in enumerate(message.gives):
            given = fact_of(gives, captures)
            if given is not None:
                yield Event(line, 1 + position, None, given, line, None, None)
        if message.engine is not None:
            yield Event(line, 99, None, engine_said(message.engine), line, None, None)

    def _parsed(self, parser: Parser, lines: Sequence[str], index: int) -> list[Found]:
        """What a parser finds; one that fails on hostile text costs a note, never the answer."""
        try:
            return list(parser.parse(lines, index))
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
            self._current.failed[f"{parser.name} ({type(error).__name__})"] += 1
            return []

    def _telling(self, event: Event) -> str:
        """The words of its line that state an event's fact; empty where the whole line does."""
        if isinstance(event.fact, ServerArg):
            return event.fact.name
        if event.wording is not None:
            return self._catalog.pack.wordings[event.wording].literal
        return ""

    def _read_series(
        self,
        lines: ChunkLines,
        buffer: bytes | bytearray,
        start: int,
        end: int,
        launch: Launch,
        first_line: int,
    ) -> None:
        if start >= end:
            return
        if not self._present:
            return
        whole = start == 0 and end == len(lines)
        self._series.read(
            bytes(buffer) if whole else bytes(buffer[lines.start(start) : lines.start(end)]),
            launch.series,
            first_line=first_line + start,
            year=self._year,
            starts=lines.starts(start, end),
            present=self._present,
        )

    def _sighting(
        self, lines: ChunkLines, first: int, last: int, rank: str | None, first_line: int
    ) -> Sighting:
        prefix = self._prefix(first_line + first, lines[first])
        if prefix.at is not None:
            self._current.last_at = prefix.at
        if prefix.engine is not None:
            self._votes.append((first_line + first, prefix.engine))
        return Sighting(
            self._current.name,
            first_line + first,
            first_line + max(first, last),
            lines.excerpt(first, max(first, last)),
            rank or prefix.rank,
            prefix.at,
        )

    def _prefix(self, line: int, text: str) -> Prefix:
        """One line states many facts; its prefix is read once."""
        if self._last_prefix[0] != line:
            self._last_prefix = (line, read_prefix(text[:MAX_PREFIX], self._year))
        return self._last_prefix[1]

    def _note_spans(
        self, lines: ChunkLines, blocks: list[tuple[Parser, range]], end: int, first_line: int
    ) -> None:
        spans: list[Span] = []
        at = 0
        for parser, extent in blocks:
            spans.extend(self._log_span(lines, at, extent.start, first_line))
            spans.append(Span(parser.document, first_line + extent.start, first_line + extent.stop - 1))
            at = extent.stop
        spans.extend(self._log_span(lines, at, end, first_line))
        self._current.spans = join_spans(self._current.spans, spans)
        self._votes.clear()

    def _log_span(self, lines: ChunkLines, start: int, end: int, first_line: int) -> Iterator[Span]:
        """The log between two blocks; prompts and blank lines alone are none."""
        start, end = lines.trimmed(start, end)
        if start == end or (end - start <= 2 and all(is_prompt(lines[i]) for i in range(start, end))):
            return
        first, last = first_line + start, first_line + end - 1
        votes = Counter(name for line, name in self._votes if first <= line <= last)
        yield Span(None, first, last, tuple(sorted(votes.items())))
