"""SGLang's prefill, decode and retraction lines: every release from 0.4.6 to 0.5.23, every usage shape.

[2026-02-27 15:38:14 TP0] Prefill batch, #new-seq: 1, #new-token: 37, #cached-token: 0, token usage: 0.00, ...
[2026-02-27 15:38:15 TP0] Decode batch, #running-req: 1, #token: 77, token usage: 0.00, cuda graph: True, ...
"""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import groupby, islice

from diagnoser.facts.lazy import lazy
from diagnoser.facts.loads import cell, group
from diagnoser.facts.series import IDLE_GAP_S, Decode, SeriesStore, Stream
from diagnoser.facts.sketch import SCALE, Mark
from diagnoser.parsers.samples import MIN_PREFILL_TOKENS, Memo, Samples, matches, millionths, pattern
from diagnoser.parsers.stamp import epoch

BATCH = 4096
MAX_STREAMS = 4096
MAX_STAMP = 110
"""Bytes of the longest stamp with all its tags."""

_STAMP = rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d):(\d\d)(?:\.\d{3})?((?: [A-Z_]{2,8}\d{1,4}){0,6})\] "
_BODY = (
    rb"(?:Decode|Prefill) batch(?: \[\d{1,12}\])?[.,] #(?:"
    rb"running-req: (\d{1,7}), (?:#(?:full )?token: (\d{1,12}), )?(?:(?:full )?token usage: <n>, )?"
    rb"(?:#swa token: \d{1,12}, swa token usage: <n>, )?(?:mamba num: \d{1,9}, mamba usage: <n>, )?"
    rb"(?:accept len: <n>, (?:accept rate: <n>, )?)?"
    rb"<other>{0,8}?(?:[a-z]{2,8} graph: (True|False), )?gen throughput \(token/s\): <n>, #queue-req: (\d{1,7})"
    rb"|new-seq: \d{1,7}, #new-token: (\d{1,9}), #cached-token: (\d{1,9}), "
    rb"<other>{0,3}?(?:full )?token usage: <n>, (?:<other>{0,3}?#running-req: (\d{1,7}), )?"
    rb"<other>{0,4}?#queue-req: (\d{1,7})"
    rb"(?:(?:, [#a-z][\w# /.()-]{1,48}: [\w.%]{1,16}){0,6}?, input throughput \(token/s\): <n>)?)"
)
_BARE = rb"()()()" + _BODY
_STAMP_END = _STAMP + rb"\Z"
_MINUTE = lazy(rb"(\d{4})-(\d\d)-(\d\d) (\d\d:\d\d)")

(_AT, _SECONDS, _TAGS,
 _RUNNING, _TOKENS, _USAGE, _SWA, _MAMBA, _ACCEPT_LEN, _ACCEPT_RATE, _GRAPH, _RATE, _QUEUE,
 _NEW, _CACHED, _PREFILL_USAGE, _PREFILL_RUNNING, _PREFILL_QUEUE, _PREFILL_RATE) = range(19)  # fmt: skip
"""The groups of a line."""

_DECODE_COLUMNS = (
    ("running_reqs", _RUNNING),
    ("queue_reqs", _QUEUE),
    ("kv_usage", _USAGE),
    ("swa_usage", _SWA),
    ("mamba_usage", _MAMBA),
    ("accept_rate", _ACCEPT_RATE),
)
_TRENDS = frozenset({"running_reqs", "queue_reqs", "kv_usage"})
"""Columns of decode lines whose means over time are kept too."""

_PREFILL_COLUMNS = (
    ("queue_reqs", _PREFILL_QUEUE),
    ("kv_usage", _PREFILL_USAGE),
    ("cached_tokens", _CACHED),
    ("prefill_new_tokens", _NEW),
)
_UNKNOWN = -1

Row = tuple[bytes, ...]
"""The groups of one line; those that did not take part are None, which the columns check for."""


def read_sglang(buffer: bytes, store: SeriesStore, _year: int | None) -> None:
    """Lines with SGLang's own stamp in one go, then those whose stamp was taken off or replaced."""
    schedulers = _Schedulers(store)
    lines = buffer.count(b"Decode batch") + buffer.count(b"Prefill batch")
    if not lines:
        return
    stamped = pattern(_STAMP + _BODY).finditer(buffer)
    while batch := list(islice(stamped, BATCH)):
        schedulers.read(batch)
        lines -= len(batch)
    if lines > 0:
        bare = (match for match in pattern(_BARE).finditer(buffer) if not _is_stamped(buffer, match.start()))
        while batch := list(islice(bare, BATCH)):
            schedulers.read(batch)


def _is_stamped(buffer: bytes, offset: int) -> bool:
    return pattern(_STAMP_END).search(buffer, max(0, offset - MAX_STAMP), offset) is not None


def read_retracted(buffer: bytes, store: SeriesStore, _year: int | None) -> None:
    """Retractions: ``KV cache pool is full. Retract requests. #retracted_reqs: 3, ...`` and older wordings."""
    samples = Samples(store)
    for match in matches(_RETRACTED, b"#retracted_reqs: ", buffer):
        samples.put("retracted_reqs", int(match[1]) * SCALE, match.start())
    samples.flush()


_RETRACTED = rb"#retracted_reqs: (\d{1,7})(?:,|\s|$)"


class _Schedulers:
    """Lines in order, by scheduler, a batch at a time.

    The columns of a batch go into sketches whole; only what depends on the line before is read line by line.
    """

    def __init__(self, store: SeriesStore) -> None:
        self._store = store
        self._number = Memo(millionths)
        self._minutes = Memo(_read_minute)
        self._seconds = Memo(_read_seconds)
        self._streams: dict[bytes, Stream] = {}

    def read(self, batch: list[re.Match[bytes]], place: Callable[[int], int] = int) -> None:
        """Count some lines. place: from where a match stands to its offset in the buffer."""
        rows: list[Row] = [match.groups() for match in batch]
        offsets = [place(match.start()) for match in batch]
        self._store.engines.setdefault("sglang", Mark(0, offsets[0]))
        decodes = [i for i, row in enumerate(rows) if row[_RATE] is not None]
        aside = self._follow(rows, offsets)
        if decodes:
            self._decodes([rows[i] for i in decodes], [offsets[i] for i in decodes], aside)
        if len(decodes) < len(rows):
            prefills = [i for i, row in enumerate(rows) if row[_RATE] is None]
            self._prefills([rows[i] for i in prefills], [offsets[i] for i in prefills])

    def _follow(self, rows: list[Row], offsets: list[int]) -> set[int]:
        """Walk the schedulers' states; the offsets of decode lines that are not clean, which are counted here."""
        minutes, seconds, streams = self._minutes, self._seconds, self._streams
        samples, aside = Samples(self._store), set()
        last: dict[bytes, Row] = {}
        for row, offset in zip(rows, offsets, strict=True):
            tags = row[_TAGS]
            stream = streams.get(tags) or self._stream(tags)
            if row[_RATE] is None:
                _prefill(stream, row, offset, samples)
                continue
            minute = minutes[row[_AT]]
            at = minute + seconds[row[_SECONDS]] if minute >= 0 else None
            before = stream.at
            late = at is not None and before is not None and at - before > IDLE_GAP_S
            if late or stream.idle or not stream.decoded:
                if tags in last:
                    stream.tokens = _int(last[tags][_TOKENS])
                if not self._clean(stream, row, offset, at, samples):
                    aside.add(offset)
                stream.idle = False
                stream.decoded = stream.seen = True
            last[tags] = row
            stream.after_prefill = False
            stream.at = at
        for tags, row in last.items():
            self._stream(tags).tokens = _int(row[_TOKENS])
        samples.flush()
        return aside

    def _stream(self, tags: bytes) -> Stream:
        rank, streams = tags.decode(), self._store.streams
        stream = streams.get(rank)
        if stream is None:
            stream = streams.setdefault(rank if len(streams) < MAX_STREAMS else "", Stream())
        if len(self._streams) < MAX_STREAMS:
            self._streams[tags] = stream
        return stream

    @staticmethod
    def _clean(stream: Stream, row: Row, offset: int, at: int | None, samples: Samples) -> bool:
        value, running = millionths(row[_RATE]), int(row[_RUNNING])
        line = Decode(Mark(value, offset), running, _int(row[_TOKENS]), at)
        if not stream.decoded and not stream.idle:
            stream.head = line
            return False
        if stream.mixes(line):
            samples.put("decode_mixed_tok_s", value, offset, running)
            return False
        return True

    def _decodes(self, rows: list[Row], offsets: list[int], aside: set[int]) -> None:
        columns = list(zip(*rows, strict=True))
        runs = _runs([self._minutes[text] for text in columns[_AT]])
        for metric, column in _DECODE_COLUMNS:
            self._column(metric, columns[column], offsets)
            if metric in _TRENDS:
                self._trend(metric, columns[column], runs)
        self._trend("held_tokens", columns[_TOKENS], runs)
        graphs = [
            (text == b"True", offset) for text, offset in zip(columns[_GRAPH], offsets, strict=True) if text
        ]
        self._store.sketch("cuda_graph").extend([SCALE * on for on, _ in graphs], [at for _, at in graphs])
        self._by_running("accept_len", columns[_ACCEPT_LEN], columns[_RUNNING], offsets, set())
        rates = self._by_load(columns[_RATE], columns[_RUNNING], columns[_TOKENS], offsets, aside)
        for minute, start, stop in runs:
            clean = [
                rate
                for rate, at in zip(rates[start:stop], offsets[start:stop], strict=True)
                if at not in aside
            ]
            if clean:
                self._store.trend("decode_tok_s").add(minute, len(clean), sum(clean))

    def _prefills(self, rows: list[Row], offsets: list[int]) -> None:
        columns = list(zip(*rows, strict=True))
        for metric, column in _PREFILL_COLUMNS:
            self._column(metric, columns[column], offsets)
        number = self._number
        tokens = [number[row[_CACHED]] + number[row[_NEW]] for row in rows]
        self._store.sketch("prompt_tokens").extend(tokens, offsets)

    def _column(self, metric: str, texts: Sequence[bytes], offsets: list[int]) -> None:
        """A column into its sketch; lines that do not have it are skipped."""
        if None in texts:
            offsets = [offset for text, offset in zip(texts, offsets, strict=True) if text is not None]
            texts = [text for text in texts if text is not None]
        values = [self._number[text] for text in texts]
        if values:
            self._store.sketch(metric).extend(values, offsets)

    def _trend(self, metric: str, texts: Sequence[bytes], runs: list[tuple[int, int, int]]) -> None:
        number = self._number
        for minute, start, stop in runs:
            values = [number[text] for text in texts[start:stop] if text is not None]
            if values:
                self._store.trend(metric).add(minute, len(values), sum(values))

    def _by_running(
        self,
        metric: str,
        texts: Sequence[bytes],
        running: Sequence[bytes],
        offsets: list[int],
        aside: set[int],
    ) -> list[int]:
        """A column into the sketches of its numbers of running requests, except the lines put aside."""
        if texts[0] is None and texts[-1] is None and not any(texts):
            return []
        values = [round(float(text) * SCALE) if text is not None else 0 for text in texts]
        lists: defaultdict[bytes, tuple[list[int], list[int]]] = defaultdict(_two_lists)
        for text, at_once, value, offset in zip(texts, running, values, offsets, strict=True):
            if text is not None and offset not in aside:
                chosen, lines = lists[at_once]
                chosen.append(value)
                lines.append(offset)
        for at_once, (chosen, lines) in lists.items():
            self._store.sketch(metric, group(int(at_once))).extend(chosen, lines)
        return values

    def _by_load(
        self,
        texts: Sequence[bytes],
        running: Sequence[bytes],
        tokens: Sequence[bytes],
        offsets: list[int],
        aside: set[int],
    ) -> list[int]:
        """Speeds into the sketches of their loads, except the lines put aside; all speeds."""
        values = [round(float(text) * SCALE) for text in texts]
        lists: defaultdict[int, tuple[list[int], list[int]]] = defaultdict(_two_lists)
        for at_once, held, value, offset in zip(running, tokens, values, offsets, strict=True):
            if offset not in aside:
                chosen, lines = lists[cell(int(at_once), _int(held))]
                chosen.append(value)
                lines.append(offset)
        for number, (chosen, lines) in lists.items():
            self._store.sketch("decode_tok_s", number).extend(chosen, lines)
        return values


def _prefill(stream: Stream, row: Row, offset: int, samples: Samples) -> None:
    if row[_PREFILL_RATE] is not None and int(row[_NEW]) >= MIN_PREFILL_TOKENS:
        if not stream.seen:
            stream.head_prefill = Mark(millionths(row[_PREFILL_RATE]), offset)
        elif stream.after_prefill:
            samples.put("prefill_tok_s", millionths(row[_PREFILL_RATE]), offset)
    stream.idle = stream.idle or row[_PREFILL_RUNNING] == b"0"
    stream.after_prefill = stream.seen = True


def _two_lists() -> tuple[list[int], list[int]]:
    return [], []


def _int(text: bytes | None) -> int | None:
    return None if text is None else int(text)


def _read_minute(text: bytes) -> int:
    """Seconds since the epoch of a stamp down to its minute; -1 for none."""
    match = _MINUTE.match(text)
    if match is None:
        return _UNKNOWN
    year, month, day, clock = match.groups()
    at = epoch(int(year), int(month), int(day), clock.decode() + ":00")
    return _UNKNOWN if at is None else int(at)


def _read_seconds(text: bytes) -> int:
    return int(text) if text else 0


def _runs(times: list[int]) -> list[tuple[int, int, int]]:
    """Stretches of one minute each: (minute since the epoch, start, stop)."""
    runs, start = [], 0
    for at, members in groupby(times):
        stop = start + sum(1 for _ in members)
        if at >= 0:
            runs.append((at // 60, start, stop))
        start = stop
    return runs
