"""The lines with which servers count themselves, read from the whole buffer.

Such lines are half of a log, so they are matched in bytes and never split into lines. Each engine has its reader;
here are the entry, the phases that print no duration, and the way from byte offsets to lines.
"""

from bisect import bisect_right
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING

from diagnoser.facts.arrays import numpy_for
from diagnoser.facts.series import SeriesStore
from diagnoser.facts.sketch import Mark
from diagnoser.parsers.samples import MAX_PREFIX, found, line_time
from diagnoser.parsers.series_engines import read_llamacpp, read_spec, read_trtllm, read_vllm
from diagnoser.parsers.series_sglang import read_retracted, read_sglang

if TYPE_CHECKING:
    from diagnoser.parsers.columns_sglang import SglangColumns
    from diagnoser.parsers.columns_vllm import VllmColumns

MAX_TEXT = 400

_READERS: tuple[tuple[Callable[[bytes, SeriesStore, int | None], None], tuple[bytes, ...]], ...] = (
    (read_sglang, (b"Decode batch", b"Prefill batch")),
    (read_retracted, (b"#retracted_reqs: ",)),
    (
        read_vllm,
        (
            b"Avg prompt throughput: ",
            b"Prefix cache hit rate: ",
            b"iteration elapsed time: ",
            b"total_num_cumulative_preemption=",
        ),
    ),
    (read_spec, (b"SpecDecoding metrics: ", b"Speculative metrics: ")),
    (read_llamacpp, (b"eval time = ", b"draft acceptance", b"graphs reused = ")),
    (read_trtllm, (b"iter = ",)),
)
"""Each reader, and the literals of which one stands in every line it reads."""

_PHASES: tuple[tuple[str, bytes, bytes], ...] = (
    ("load_weight", b"Load weight begin.", b"Load weight end. type="),
    ("init_distributed", b"Init torch distributed begin.", b"Init torch distributed ends. mem usage="),
    ("load_model", b"Starting to load model ", b"Loading model weights took "),
    ("load_model", b"load_model: loading model", b"model loaded"),
    ("until_ready", b"server_args=", b"The server is fired up and ready to roll!"),
    ("until_ready", b"vLLM API server version ", b"Starting vLLM "),
)
"""Phases that print no duration: what is said when they begin and when they end."""


LITERALS = tuple(
    dict.fromkeys(
        [literal for _, literals in _READERS for literal in literals]
        + [literal for _, begin, end in _PHASES for literal in (begin, end)]
    )
)
"""Who knows which of these a buffer holds saves the readers a search for each."""


def _read_phases(buffer: bytes, store: SeriesStore, year: int | None, present: Container[bytes]) -> None:
    for name, begin, end in _PHASES:
        if begin not in present and end not in present:
            continue
        key = f"{name}:{begin.decode()}"
        begins = dict.fromkeys(found(buffer, begin), True)
        for offset in sorted([*begins, *found(buffer, end)]):
            at, rank = line_time(buffer, offset, year)
            if at is None:
                continue
            if offset in begins:
                store.begin_phase(key, rank, at)
            else:
                store.end_phase(key, rank, at, Mark(0, offset))


def read_series(buffer: bytes, store: SeriesStore, *, first_line: int = 1, year: int | None = None) -> None:
    """Add what the buffer's lines say to ``store``, which holds what stood before them.

    ``buffer``: whole lines; its first one has the number ``first_line``. ``year`` serves stamps without one.
    Never raises, whatever the bytes.
    """
    SeriesReader().read(buffer, store, first_line=first_line, year=year)


class SeriesReader:
    """Reads the buffers of one text, one after the other; large ones in columns where numpy is at hand."""

    def __init__(self) -> None:
        self._columns: dict[object, SglangColumns | VllmColumns] = {}

    def read(
        self,
        buffer: bytes,
        store: SeriesStore,
        *,
        first_line: int = 1,
        year: int | None = None,
        starts: Sequence[int] | None = None,
        present: Container[bytes] = LITERALS,
    ) -> None:
        """As `read_series`. starts: where each line begins, and the end of the buffer, for who knows them already.

        present: those of `LITERALS` that the buffer may hold.
        """
        local = store.ahead()
        for read, literals in _READERS:
            if not any(literal in present for literal in literals):
                continue
            if starts is None or not self._in_columns(read, buffer, starts, local, year):
                read(buffer, local, year)
        _read_phases(buffer, local, year, present)
        store.absorb(local.placed(_places(buffer, local.offsets(), first_line, starts)))

    def _in_columns(
        self, read: object, buffer: bytes, starts: Sequence[int], store: SeriesStore, year: int | None
    ) -> bool:
        if read not in (read_sglang, read_vllm):
            return False
        np = numpy_for(len(buffer))
        if np is None:
            return False
        from diagnoser.parsers.columns_sglang import SglangColumns
        from diagnoser.parsers.columns_vllm import VllmColumns
        from diagnoser.parsers.tables import Unfit

        kind = SglangColumns if read is read_sglang else VllmColumns
        try:
            self._columns.setdefault(read, kind()).read(np, buffer, starts, store, year)
        except Unfit:
            return False
        return True


def _places(
    buffer: bytes, offsets: set[int], first_line: int, starts: Sequence[int] | None
) -> dict[int, tuple[int, str]]:
    """Line number and text around each offset."""
    places: dict[int, tuple[int, str]] = {}
    line, counted = first_line, 0
    for offset in sorted(offsets):
        if starts is None:
            line += buffer.count(b"\n", counted, offset)
            counted = offset
        else:
            line = first_line + bisect_right(starts, offset) - 1
        start = buffer.rfind(b"\n", max(0, offset - MAX_PREFIX), offset) + 1 or max(0, offset - MAX_PREFIX)
        stop = buffer.find(b"\n", offset, start + MAX_TEXT)
        text = buffer[start : stop if stop >= 0 else start + MAX_TEXT]
        places[offset] = (line, text.decode("utf-8", "replace").rstrip("\r"))
    return places
