"""vLLM's lines of window means in columns: the twin of `series_engines.read_vllm` for large buffers."""

from typing import Any

from diagnoser.facts.lazy import lazy
from diagnoser.facts.series import SeriesStore
from diagnoser.facts.sketch import SCALE, Mark
from diagnoser.parsers import series_engines as lines
from diagnoser.parsers.samples import MAX_PREFIX, line_time, pattern
from diagnoser.parsers.shapes import Capture, Columns, Learned, Rows, Shape, Stamp, learn
from diagnoser.parsers.tables import MAX_VALUE, NONE, Table, Unfit

_STAMP = lazy(rb"(\d\d-\d\d \d\d:\d\d):\d\d")
_MINUTE = lazy(rb"\d\d-\d\d \d\d:\d\d")
_PROMPT, _RATE, _RUNNING, _SWAPPED, _WAITING, _PREEMPTED, _USAGE, _HIT, _STEP, _CUMULATIVE = range(10)
_FURTHER = (
    (_HIT, lines._VLLM_HIT, b"Prefix cache hit rate: "),
    (_STEP, lines._VLLM_STEP, b"iteration elapsed time: "),
    (_CUMULATIVE, lines._VLLM_CUMULATIVE, b"total_num_cumulative_preemption="),
)
_WORD = b"Avg prompt throughput: "


def _word(text: bytes, at: int) -> int:
    return text.find(_WORD, at)


def _sample(line: bytes) -> Shape | None:
    at = line.find(_WORD)
    match = pattern(lines._VLLM).match(line, at)
    stamp = _STAMP.search(line, 0, at)
    if match is None or stamp is None or line.count(_WORD) != 1 or at >= MAX_PREFIX:
        return None
    if not _tells_time(line[:at], stamp.end()):
        return None
    captures = [
        Capture(group, *match.span(group + 1), match.start())
        for group in range(_PROMPT, _USAGE + 1)
        if match[group + 1] is not None
    ]
    for group, source, literal in _FURTHER:
        count, start = line.count(literal), line.find(literal)
        more = pattern(source).match(line, start) if count else None
        if count > 1 or (count and more is None):
            return None
        if more is not None:
            captures.append(Capture(group, *more.span(1), more.start()))
    shape = learn(line, Stamp(stamp.start(), 11, _MINUTE), captures)
    return shape if shape is not None and not shape.constants else None


class VllmColumns:
    """Reads buffer after buffer; what it learns of one serves the next."""

    def __init__(self) -> None:
        self._learned = Learned(_sample, _word)

    def read(self, np: Any, buffer: bytes, starts: Any, store: SeriesStore, year: int | None) -> None:
        """As `series_engines.read_vllm`. Raises `Unfit` before it has counted anything."""
        columns = Columns(np, buffer, starts)
        blocks, rest = self._learned.read(columns)
        for rows in blocks:
            _check(rows)
        # The first line shows the engine; lines of the rest are read after the others.
        first = [int(rows.places[_PROMPT][0]) for rows in blocks]
        for rows in blocks:
            _count(np, columns, rows, store, year)
        others = store.ahead()
        lines.read_vllm(rest.text, others, year)
        moved = others.placed({at: (rest.offset(at), "") for at in others.offsets()})
        marks = [Mark(0, at) for at in first] + list(moved.engines.values())
        if marks:
            store.engines.setdefault("vllm", min(marks, key=lambda mark: mark.line))
        moved.engines = {}
        store.take(store.merge(moved))


def _check(rows: Rows) -> None:
    """Refuse what would be rounded differently, and what could overflow."""
    for group in (_USAGE, _HIT):
        if group in rows.values and (rows.values[group] % 100).any():
            raise Unfit
    if any(int(values.max()) > MAX_VALUE for values in rows.values.values()):
        raise Unfit


def _count(np: Any, columns: Columns, rows: Rows, store: SeriesStore, year: int | None) -> None:
    days: dict[bytes, int] = {}
    starts = []
    for text in columns.minutes:
        day = text[: -len(b"HH:MM")]
        if day not in days:
            days[day] = _midnight(rows.shape, day, year)
        clock = int(text[-5:-3]) * 3600 + int(text[-2:]) * 60
        starts.append(days[day] + clock if days[day] >= 0 else NONE)
    minute = np.array(starts, dtype=np.int64)[rows.minute]
    minute = np.where(minute >= 0, (minute + rows.second) // 60, NONE)
    table, offsets = Table(np, store, minute), rows.places[_PROMPT]
    value: dict[int, Any] = {group: rows.values.get(group) for group in range(_PROMPT, _CUMULATIVE + 1)}
    running, prompt, rate = value[_RUNNING], value[_PROMPT], value[_RATE]
    table.put("running_reqs", running, offsets)
    table.put("queue_reqs", value[_WAITING], offsets)
    table.put_trend("queue_reqs", value[_WAITING])
    table.put_trend("running_reqs", running)
    table.put("prompt_tok_s", np.where(prompt > 0, prompt, NONE), offsets)
    for metric, group in (("swapped_reqs", _SWAPPED), ("preemptions", _PREEMPTED)):
        if value[group] is not None:
            table.put(metric, value[group], offsets)
    if value[_USAGE] is not None:
        table.put("kv_usage", value[_USAGE] // 100, offsets)
        table.put_trend("kv_usage", value[_USAGE] // 100)
    mixed = (running == 0) | ((running == SCALE) & (prompt > 0))
    table.put_by_running("decode_mixed_tok_s", rate, running, offsets, mixed & (rate > 0))
    table.put_by_running("decode_tok_s", rate, running, offsets, ~mixed)
    table.put_trend("decode_tok_s", rate, ~mixed)
    if value[_HIT] is not None:
        table.put("cache_hit", value[_HIT] // 100, rows.places[_HIT])
    if value[_STEP] is not None:
        table.put("step_ms", value[_STEP], rows.places[_STEP])
    if value[_CUMULATIVE] is not None:
        table.put("preemptions_cumulative", value[_CUMULATIVE], rows.places[_CUMULATIVE])


def _tells_time(prefix: bytes, end: int) -> bool:
    """Whether a line's time is that of the clock at its stamp, and not of another one in front of it."""
    clock_at = end - len(b"HH:MM:SS")
    times = []
    for clock in (b"00:00:00", b"01:02:03"):
        line = prefix[:clock_at] + clock + prefix[end:]
        times.append(line_time(line + _WORD + b"0.0 tokens/s", len(line), None)[0])
    early, late = times
    return early is not None and late is not None and late - early == 3723


def _midnight(shape: Shape, day: bytes, year: int | None) -> int:
    """Seconds since the epoch of the day of a line; `NONE` where its prefix tells no time."""
    line = shape.head + day + b"00:00:00" + shape.texts[0]
    at, _ = line_time(line + b"0.0 tokens/s", len(line) - len(_WORD), year)
    return NONE if at is None or at < 0 or at != int(at) else int(at)
