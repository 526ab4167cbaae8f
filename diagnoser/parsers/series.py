"""The lines with which servers count themselves, read from the whole buffer.

Such lines are half of a log, so they are matched in bytes and never split into lines. Each engine has its reader;
here are the entry, the phases that print no duration, and the way from byte offsets to lines.
"""

from collections.abc import Callable

from diagnoser.facts.series import SeriesStore
from diagnoser.facts.sketch import Mark
from diagnoser.parsers.samples import MAX_PREFIX, found, line_time
from diagnoser.parsers.series_engines import read_llamacpp, read_spec, read_trtllm, read_vllm
from diagnoser.parsers.series_sglang import read_retracted, read_sglang

MAX_TEXT = 400

_READERS: tuple[Callable[[bytes, SeriesStore, int | None], None], ...] = (
    read_sglang,
    read_retracted,
    read_vllm,
    read_spec,
    read_llamacpp,
    read_trtllm,
)

_PHASES: tuple[tuple[str, bytes, bytes], ...] = (
    ("load_weight", b"Load weight begin.", b"Load weight end. type="),
    ("init_distributed", b"Init torch distributed begin.", b"Init torch distributed ends. mem usage="),
    ("load_model", b"Starting to load model ", b"Loading model weights took "),
    ("load_model", b"load_model: loading model", b"model loaded"),
    ("until_ready", b"server_args=", b"The server is fired up and ready to roll!"),
    ("until_ready", b"vLLM API server version ", b"Starting vLLM "),
)
"""Phases that print no duration: what is said when they begin and when they end."""


def _read_phases(buffer: bytes, store: SeriesStore, year: int | None) -> None:
    for name, begin, end in _PHASES:
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
    local = SeriesStore()
    for read in _READERS:
        read(buffer, local, year)
    _read_phases(buffer, local, year)
    store.take(store.merge(local.placed(_places(buffer, local.offsets(), first_line))))


def _places(buffer: bytes, offsets: set[int], first_line: int) -> dict[int, tuple[int, str]]:
    """Line number and text around each offset, in one walk over the buffer."""
    places: dict[int, tuple[int, str]] = {}
    line, counted = first_line, 0
    for offset in sorted(offsets):
        line += buffer.count(b"\n", counted, offset)
        counted = offset
        start = buffer.rfind(b"\n", max(0, offset - MAX_PREFIX), offset) + 1 or max(0, offset - MAX_PREFIX)
        stop = buffer.find(b"\n", offset, start + MAX_TEXT)
        text = buffer[start : stop if stop >= 0 else start + MAX_TEXT]
        places[offset] = (line, text.decode("utf-8", "replace").rstrip("\r"))
    return places
