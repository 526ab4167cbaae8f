"""SGLang's prefill and decode lines in columns: the twin of `series_sglang` for large buffers."""

import re
from collections.abc import Sequence
from itertools import islice
from typing import Any

from diagnoser.facts.lazy import lazy
from diagnoser.facts.series import IDLE_GAP_S, Decode, SeriesStore, Stream
from diagnoser.facts.sketch import SCALE, Mark
from diagnoser.parsers import series_sglang as lines
from diagnoser.parsers.samples import MIN_PREFILL_TOKENS, millionths, pattern
from diagnoser.parsers.shapes import Capture, Columns, Learned, Rest, Rows, Shape, Stamp, learn
from diagnoser.parsers.tables import MAX_VALUE, NONE, Table, Unfit

_STAMP = Stamp(1, 16, lazy(rb"\d{4}-\d\d-\d\d \d\d:\d\d"))
_NUMBERS = tuple(group for group in range(lines._RUNNING, lines._PREFILL_RATE + 1) if group != lines._GRAPH)
_WORDS = (b"Decode batch", b"Prefill batch")
_MAX_STREAMS = 1000


def _word(text: bytes, at: int) -> int:
    return min((place for word in _WORDS if (place := text.find(word, at)) >= 0), default=-1)


def _count(text: bytes) -> int:
    return sum(map(text.count, _WORDS))


def _sample(line: bytes) -> Shape | None:
    match = pattern(lines._STAMP + lines._BODY).match(line)
    if match is None or _count(line) != 1:
        return None
    captures = [
        Capture(group, match.start(group + 1), match.end(group + 1), 0)
        for group in range(lines._TAGS, lines._PREFILL_RATE + 1)
        if match[group + 1] is not None
    ]
    return learn(line, _STAMP, captures)


class SglangColumns:
    """Reads buffer after buffer; what it learns of one serves the next."""

    def __init__(self) -> None:
        self._learned = Learned(_sample, _word)

    def read(self, np: Any, buffer: bytes, starts: Any, store: SeriesStore, year: int | None) -> None:
        """As `series_sglang.read_sglang`. Raises `Unfit` before it has counted anything."""
        columns = Columns(np, buffer, starts)
        blocks, rest = self._learned.read(columns)
        odd = _stamped(rest)
        words = _count(rest.text)
        if blocks or odd:
            batch = _Batch(np, columns, blocks, odd, rest)
            batch.count(store)
        if words > len(odd):
            _read_bare(rest, store)


def _stamped(rest: Rest) -> list[re.Match[bytes]]:
    first = _word(rest.text, 0)
    if first < 0:
        return []
    start = rest.text.rfind(b"\n", 0, first) + 1
    return list(pattern(lines._STAMP + lines._BODY).finditer(rest.text, start))


def _read_bare(rest: Rest, store: SeriesStore) -> None:
    """Lines whose stamp was taken off or replaced."""
    bare = (
        match
        for match in pattern(lines._BARE).finditer(rest.text)
        if not lines._is_stamped(rest.text, match.start())
    )
    schedulers = lines._Schedulers(store)
    while batch := list(islice(bare, lines.BATCH)):
        schedulers.read(batch, rest.offset)


class _Batch:
    """All stamped lines of a buffer, in order, as columns."""

    def __init__(
        self, np: Any, columns: Columns, blocks: Sequence[Rows], odd: list[re.Match[bytes]], rest: Rest
    ) -> None:
        self._np = np
        self._tags: dict[bytes, int] = {}
        self._graphs: dict[bytes | None, int] = {None: NONE, b"True": SCALE, b"False": 0}
        minutes = [lines._read_minute(text) for text in columns.minutes]
        parts = [self._block(rows, np.array(minutes, dtype=np.int64)) for rows in blocks]
        if odd:
            parts.append(self._matches(odd, rest))
        if len(self._tags) > _MAX_STREAMS:
            raise Unfit
        order = np.argsort(np.concatenate([part["offset"] for part in parts]), kind="stable")
        self._columns = {
            key: np.concatenate([_filled(np, part, key) for part in parts])[order]
            for key in dict.fromkeys(key for part in parts for key in part)
        }
        if any(int(self._columns[group].max()) > MAX_VALUE for group in _NUMBERS if group in self._columns):
            raise Unfit

    def _block(self, rows: Rows, minutes: Any) -> dict[Any, Any]:
        np, count = self._np, len(rows.starts)
        block: dict[Any, Any] = {"offset": rows.starts, "minute": minutes[rows.minute], "second": rows.second}
        block.update(rows.values)
        for group, text in rows.shape.constants.items():
            if group == lines._GRAPH:
                block[group] = np.full(count, self._graphs[text])
            elif group != lines._TAGS:
                block[group] = np.full(count, millionths(text))
        block[lines._TAGS] = np.full(count, self._tag(rows.shape.constants.get(lines._TAGS, b"")))
        return block

    def _matches(self, odd: list[re.Match[bytes]], rest: Rest) -> dict[Any, Any]:
        np = self._np
        rows = [match.groups() for match in odd]
        block: dict[Any, Any] = {
            "offset": np.array([rest.offset(match.start()) for match in odd], dtype=np.int64),
            "minute": np.array([lines._read_minute(row[lines._AT]) for row in rows], dtype=np.int64),
            "second": np.array([int(row[lines._SECONDS]) for row in rows], dtype=np.int64),
            lines._TAGS: np.array([self._tag(row[lines._TAGS]) for row in rows], dtype=np.int64),
            lines._GRAPH: np.array([self._graphs[row[lines._GRAPH]] for row in rows], dtype=np.int64),
        }
        for group in _NUMBERS:
            values = [NONE if row[group] is None else millionths(row[group]) for row in rows]
            block[group] = np.array(values, dtype=np.int64)
        return block

    def _tag(self, tags: bytes) -> int:
        return self._tags.setdefault(tags, len(self._tags))

    def count(self, store: SeriesStore) -> None:
        """Everything that the lines say into the store."""
        np, columns = self._np, self._columns
        store.engines.setdefault("sglang", Mark(0, int(columns["offset"][0])))
        decodes = self._column(lines._RATE) >= 0
        mixed = np.zeros(len(decodes), dtype=bool)
        aside = np.zeros(len(decodes), dtype=bool)
        for tags, number in self._tags.items():
            rows = np.flatnonzero(columns[lines._TAGS] == number)
            if len(rows):
                stream = store.streams.setdefault(tags.decode(), Stream())
                self._follow(store, stream, rows, decodes[rows], mixed, aside)
        if decodes.any():
            self._decodes(store, decodes, mixed, aside)
        if not decodes.all():
            self._prefills(store, ~decodes)

    def _follow(
        self, store: SeriesStore, stream: Stream, rows: Any, decodes: Any, mixed: Any, aside: Any
    ) -> None:
        """One scheduler's lines: which decode lines are mixed (see `Stream`), and what it leaves behind."""
        np, columns = self._np, self._columns
        idle = self._column(lines._PREFILL_RUNNING)[rows] == 0
        idle_before = np.concatenate(([0], np.cumsum(idle)))
        self._follow_prefills(store, stream, rows, decodes)
        positions = np.flatnonzero(decodes)
        if len(positions):
            stream.decoded = True
            decode_rows = rows[positions]
            at = columns["minute"][decode_rows]
            at = np.where(at >= 0, at + columns["second"][decode_rows], NONE)
            late = np.zeros(len(positions), dtype=bool)
            late[1:] = (at[1:] >= 0) & (at[:-1] >= 0) & (at[1:] - at[:-1] > IDLE_GAP_S)
            woken = np.diff(idle_before[positions], prepend=0) > 0
            mixed[decode_rows[woken]] = True
            late &= ~woken
            for k in np.flatnonzero(late).tolist():
                line = self._decode(int(decode_rows[k]), int(at[k]))
                before = self._decode(int(decode_rows[k - 1]), int(at[k - 1]))
                if Stream(tokens=before.tokens, at=before.at).mixes(line):
                    mixed[decode_rows[k]] = True
            if not woken[0]:
                stream.head = self._decode(int(decode_rows[0]), int(at[0]))
                aside[decode_rows[0]] = True
            last = self._decode(int(decode_rows[-1]), int(at[-1]))
            stream.tokens, stream.at = last.tokens, last.at
            stream.idle = bool(idle_before[-1] > idle_before[positions[-1]])
        else:
            stream.idle = bool(idle.any())
        stream.after_prefill = not decodes[-1]
        stream.seen = True

    def _follow_prefills(self, store: SeriesStore, stream: Stream, rows: Any, decodes: Any) -> None:
        np, columns = self._np, self._columns
        rate = self._column(lines._PREFILL_RATE)[rows]
        told = (rate >= 0) & ~decodes & (self._column(lines._NEW)[rows] >= MIN_PREFILL_TOKENS * SCALE)
        if told[0]:
            stream.head_prefill = Mark(int(rate[0]), int(columns["offset"][rows[0]]))
        behind = np.zeros(len(rows), dtype=bool)
        behind[1:] = told[1:] & ~decodes[:-1]
        if behind.any():
            table = Table(np, store, columns["minute"])
            table.put("prefill_tok_s", rate[behind], columns["offset"][rows[behind]])

    def _decode(self, row: int, at: int) -> Decode:
        columns = self._columns
        tokens = int(self._column(lines._TOKENS)[row])
        return Decode(
            Mark(int(columns[lines._RATE][row]), int(columns["offset"][row])),
            int(columns[lines._RUNNING][row]) // SCALE,
            tokens // SCALE if tokens >= 0 else None,
            at if at >= 0 else None,
        )

    def _column(self, group: int) -> Any:
        """A column; `NONE` throughout where no line has it."""
        column = self._columns.get(group)
        if column is None:
            column = self._columns[group] = self._np.full(len(self._columns["offset"]), NONE)
        return column

    def _decodes(self, store: SeriesStore, decodes: Any, mixed: Any, aside: Any) -> None:
        wanted = ("minute", "offset", lines._RATE, lines._ACCEPT_LEN, lines._GRAPH)
        groups = (*wanted, *(group for _, group in lines._DECODE_COLUMNS))
        chosen = {key: self._columns[key][decodes] for key in groups if key in self._columns}
        mixed, aside = mixed[decodes], aside[decodes]
        minute = self._np.where(chosen["minute"] >= 0, chosen["minute"] // 60, NONE)
        table, offsets, running = Table(self._np, store, minute), chosen["offset"], chosen[lines._RUNNING]
        for metric, group in lines._DECODE_COLUMNS:
            if group in chosen:
                table.put(metric, chosen[group], offsets)
                if metric in lines._TRENDS:
                    table.put_trend(metric, chosen[group])
        if lines._GRAPH in chosen:
            table.put("cuda_graph", chosen[lines._GRAPH], offsets)
        if lines._ACCEPT_LEN in chosen:
            table.put_by_running("accept_len", chosen[lines._ACCEPT_LEN], running, offsets, offsets >= 0)
        clean = ~(mixed | aside)
        tokens = self._column(lines._TOKENS)[decodes]
        table.put_trend("held_tokens", tokens)
        table.put_by_load("decode_tok_s", chosen[lines._RATE], running, tokens, offsets, clean)
        table.put_by_running("decode_mixed_tok_s", chosen[lines._RATE], running, offsets, mixed)
        table.put_trend("decode_tok_s", chosen[lines._RATE], clean)

    def _prefills(self, store: SeriesStore, prefills: Any) -> None:
        table, offsets = Table(self._np, store, None), self._columns["offset"][prefills]
        for metric, group in lines._PREFILL_COLUMNS:
            table.put(metric, self._columns[group][prefills], offsets)
        tokens = self._columns[lines._CACHED] + self._columns[lines._NEW]
        table.put("prompt_tokens", tokens[prefills], offsets)


def _filled(np: Any, part: dict[Any, Any], key: Any) -> Any:
    column = part.get(key)
    return np.full(len(part["offset"]), NONE) if column is None else column
