"""Numbers that a server prints again and again, kept in flat memory and mergeable at any line.

A store holds, by metric and number of running requests (and length of their contexts, `cell`), a `Sketch`; by metric
the means of minutes; and what the lines before a cut must tell those behind it (`Stream`, `Begun`), so that merging two
stores gives exactly what reading both texts in one go gives.

Metrics beyond those of `SeriesStat`:

* decode_mixed_tok_s: generation rates whose window holds an idle time or a request's prefill; kept out of
  decode_tok_s (see `Stream`). prompt_tok_s: vLLM's prompt throughput, a mean over a window and no speed.
* accept_rate (0 to 1; SGLang changed its meaning in 0.5.11, so compare accept_len).
* swa_usage, mamba_usage: use of the other pools of hybrid models (0 to 1). prefill_new_tokens: per batch.
* retracted_reqs (per event, SGLang), retracted_total; preemptions (per interval, vLLM V1), preemptions_total (also
  V0's cumulative count); swapped_reqs (V0).
* step_ms; host_step_ms, device_step_ms, host_device_ratio (TensorRT-LLM); graphs_reused (llama.cpp, a running
  count of the server).

held_tokens: tokens of all running requests together, kept by the minute only.

cuda_graph and cache_hit are shares of all lines or tokens: min, p05, median, p95 and max all hold the share.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from diagnoser.facts.engine import Engine, StartPhase
from diagnoser.facts.loads import cell, group
from diagnoser.facts.series_stats import Key, Stated, statistics, totals, trend
from diagnoser.facts.sketch import SCALE, Mark, Minutes, Sketch

IDLE_GAP_S = 10
"""A longer time between two decode lines is a slow server or an idle one; the token counts decide which."""

KEPT_DURATIONS = 256
KEPT_PHASES = 4096


class Decode(NamedTuple):
    """A decode line of SGLang: value and line, running requests, tokens held, time (None where not shown)."""

    mark: Mark
    running: int
    tokens: int | None
    at: int | None


@dataclass(slots=True)
class Stream:
    """What the lines of one scheduler (rank) leave for the lines behind them.

    SGLang's generation rate counts from the decode line before. So the first one after an idle time is far too
    low: after a prefill that found nothing running, or after more than ten seconds in which the number of held
    tokens did not grow as the rate says. Such a line is mixed. Of a text's first decode line this is unknown
    until what stands before is known (``head``); if nothing does, it counts as clean, for it was cut from a
    running server. The prefill rate counts from the prefill line before, so it is kept only directly behind one.
    """

    head: Decode | None = None
    head_prefill: Mark | None = None
    decoded: bool = False
    idle: bool = False
    after_prefill: bool = False
    seen: bool = False
    tokens: int | None = None
    at: int | None = None

    def mixes(self, line: Decode) -> bool:
        """Does this decode line, which follows, cover more than decoding?"""
        if self.idle:
            return True
        if self.at is None or line.at is None or line.at - self.at <= IDLE_GAP_S:
            return False
        if self.tokens is None or line.tokens is None:
            return True
        told = line.mark.value * (line.at - self.at) // SCALE
        return not abs(line.tokens - self.tokens - told) <= told // 4 + 64


@dataclass(slots=True)
class Begun:
    """A phase of start-up: when it last began, and an end whose beginning stands before the text."""

    began: float | None = None
    head_end: tuple[float, Mark] | None = None


@dataclass(slots=True)
class SeriesStore:
    """All series of one text. ``merge`` joins it with the store of the text behind it."""

    sketches: dict[Key, Sketch] = field(default_factory=dict)
    minutes: dict[str, Minutes] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)
    phases: dict[tuple[str, str], Begun] = field(default_factory=dict)
    durations: list[tuple[str, float, Mark]] = field(default_factory=list)
    engines: dict[str, Mark] = field(default_factory=dict)
    binned: frozenset[Key] = frozenset()
    """Sketches that begin in bins, because what they will be merged with is in bins already."""

    def ahead(self) -> "SeriesStore":
        """An empty store for the text behind this one's, to be merged with this one."""
        binned = {key for key, sketch in self.sketches.items() if sketch.binned}
        return SeriesStore(binned=self.binned | binned)

    def sketch(self, metric: str, running: int | None = None) -> Sketch:
        """The sketch of a metric at a number of running requests."""
        found = self.sketches.get((metric, running))
        if found is None:
            found = self.sketches[metric, running] = Sketch(binned=(metric, running) in self.binned)
        return found

    def trend(self, metric: str) -> Minutes:
        found = self.minutes.get(metric)
        if found is None:
            found = self.minutes[metric] = Minutes()
        return found

    def take(self, other: "SeriesStore") -> None:
        """Become the other store."""
        self.sketches, self.minutes, self.streams = other.sketches, other.minutes, other.streams
        self.phases, self.durations, self.engines = other.phases, other.durations, other.engines

    def begin_phase(self, name: str, rank: str, at: float) -> None:
        """Note the beginning of a phase; an earlier one that has not ended is forgotten."""
        begun = self._begun(name, rank)
        if begun is not None:
            begun.began = at

    def end_phase(self, name: str, rank: str, at: float, mark: Mark) -> None:
        """Note the end of a phase: its duration, or an end that waits for its beginning."""
        begun = self._begun(name, rank)
        if begun is None:
            return
        if begun.began is not None:
            self._note(name, at - begun.began, mark)
            del self.durations[KEPT_DURATIONS:]
            begun.began = None
        elif begun.head_end is None:
            begun.head_end = (at, mark)

    def _begun(self, name: str, rank: str) -> Begun | None:
        begun = self.phases.get((name, rank))
        if begun is None and len(self.phases) < KEPT_PHASES:
            begun = self.phases[name, rank] = Begun()
        return begun

    def _note(self, name: str, seconds: float, mark: Mark) -> None:
        if seconds >= 0:
            self.durations.append((name, round(seconds, 3), mark))

    def merge(self, other: "SeriesStore") -> "SeriesStore":
        """Both as one, as if read from one text; ``other`` stands behind."""
        merged = SeriesStore()
        for key in dict.fromkeys([*self.sketches, *other.sketches]):
            merged.sketches[key] = self.sketches.get(key, Sketch()).merge(other.sketches.get(key, Sketch()))
        for metric in dict.fromkeys([*self.minutes, *other.minutes]):
            merged.minutes[metric] = self.minutes.get(metric, Minutes()).merge(
                other.minutes.get(metric, Minutes())
            )
        for rank in dict.fromkeys([*self.streams, *other.streams]):
            merged.streams[rank] = merged._follow(
                self.streams.get(rank, Stream()), other.streams.get(rank, Stream())
            )
        merged.durations = list(self.durations)
        for name, rank in dict.fromkeys([*self.phases, *other.phases]):
            before, behind = self.phases.get((name, rank), Begun()), other.phases.get((name, rank), Begun())
            merged.phases[name, rank] = merged._continue(name, before, behind)
        merged.durations = sorted([*merged.durations, *other.durations], key=_by_line)[:KEPT_DURATIONS]
        merged.engines = {**other.engines, **self.engines}
        return merged

    def absorb(self, other: "SeriesStore") -> None:
        """Become what ``merge`` gives, without a copy of what is here already; ``other`` is used up."""
        mine, theirs = self.sketches, other.sketches
        self.sketches, other.sketches = {}, {}
        merged = self.merge(other)
        # What waited for a text before it is counted by merging, behind all that was counted before.
        for key, sketch in [*theirs.items(), *merged.sketches.items()]:
            if key in mine:
                mine[key].absorb(sketch)
            else:
                mine[key] = sketch
        merged.sketches = mine
        self.take(merged)

    def _continue(self, name: str, before: Begun, behind: Begun) -> Begun:
        head = before.head_end
        began = behind.began
        if behind.head_end is not None:
            at, mark = behind.head_end
            if before.began is not None:
                self._note(name, at - before.began, mark)
            elif head is None:
                head = behind.head_end
        elif began is None:
            began = before.began
        return Begun(began, head)

    def _follow(self, before: Stream, behind: Stream) -> Stream:
        """The stream of both texts; lines that waited for what stands before them are counted."""
        joined = replace(behind, seen=before.seen or behind.seen)
        line = behind.head
        if line is None or before.idle or before.decoded:
            joined.head = before.head
            if line is not None:
                self.count_decode(line, mixed=before.mixes(line))
        if not behind.decoded:
            joined.idle = before.idle or behind.idle
            joined.decoded, joined.tokens, joined.at = before.decoded, before.tokens, before.at
        if before.seen:
            joined.head_prefill = before.head_prefill
            if behind.head_prefill is not None and before.after_prefill:
                self.count_prefill(behind.head_prefill)
        if not behind.seen:
            joined.after_prefill = before.after_prefill
        return joined

    def count_decode(self, line: Decode, *, mixed: bool) -> None:
        metric = "decode_mixed_tok_s" if mixed else "decode_tok_s"
        at_once = group(line.running) if mixed else cell(line.running, line.tokens)
        self._count(metric, at_once, line.mark)
        if not mixed and line.at is not None:
            self.trend(metric).add(line.at // 60, 1, line.mark.value)

    def count_prefill(self, mark: Mark) -> None:
        self._count("prefill_tok_s", None, mark)

    def _count(self, metric: str, running: int | None, mark: Mark) -> None:
        one = Sketch()
        one.extend([mark.value], [mark.line])
        place = {mark.line: (mark.line, mark.text)}
        self.sketches[metric, running] = self.sketch(metric, running).merge(one.placed(place))

    def placed(self, places: Mapping[int, tuple[int, str]]) -> "SeriesStore":
        """The same with byte offsets replaced by line numbers and texts."""
        placed = SeriesStore(minutes=self.minutes)
        placed.sketches = {key: sketch.placed(places) for key, sketch in self.sketches.items()}
        for rank, stream in self.streams.items():
            head, prefill = stream.head, stream.head_prefill
            placed.streams[rank] = replace(
                stream,
                head=head and head._replace(mark=_moved(head.mark, places)),
                head_prefill=prefill and _moved(prefill, places),
            )
        for key, begun in self.phases.items():
            end = begun.head_end
            placed.phases[key] = Begun(begun.began, (end[0], _moved(end[1], places)) if end else None)
        placed.durations = [(name, seconds, _moved(mark, places)) for name, seconds, mark in self.durations]
        placed.engines = {name: _moved(mark, places) for name, mark in self.engines.items()}
        return placed

    def offsets(self) -> set[int]:
        """The byte offsets that stand in place of lines while a text is being read."""
        marks = [mark for sketch in self.sketches.values() for mark in sketch.marks()]
        marks += [stream.head.mark for stream in self.streams.values() if stream.head]
        marks += [stream.head_prefill for stream in self.streams.values() if stream.head_prefill]
        marks += [begun.head_end[1] for begun in self.phases.values() if begun.head_end]
        marks += [mark for _, _, mark in self.durations]
        marks += self.engines.values()
        return {mark.line for mark in marks}

    def facts(self) -> Iterator[Stated]:
        """All statistics, each with the line that shows it first and the one that shows it worst."""
        whole = self.merge(SeriesStore())
        for stream in whole.streams.values():
            if stream.head is not None:
                whole.count_decode(stream.head, mixed=False)
        for name, mark in sorted(whole.engines.items()):
            yield Engine.model_validate({"name": name}), mark.line, mark.text
        for name, seconds, mark in whole.durations:
            yield StartPhase(name=name.partition(":")[0], duration_s=seconds), mark.line, mark.text
        for metric in sorted({metric for metric, _ in whole.sketches}):
            yield from statistics(metric, whole.sketches)
        yield from totals(whole.sketches)
        for metric, minutes in sorted(whole.minutes.items()):
            yield from trend(metric, minutes, whole.sketches)


def _moved(mark: Mark, places: Mapping[int, tuple[int, str]]) -> Mark:
    return Mark(mark.value, *places[mark.line])


def _by_line(duration: tuple[str, float, Mark]) -> tuple[int, str]:
    return duration[2].line, duration[0]
