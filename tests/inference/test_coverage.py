"""Which lines are warnings, and which of them are known."""

from pathlib import Path

import pytest

from diagnoser.agent.coverage import Counted, coverage
from diagnoser.inference.catalog import Catalog
from diagnoser.inference.coverage import WarningReader
from diagnoser.inference.odd import KEPT_SHAPES, is_raised

RAISED = [
    "WARNING 06-04 15:17:48 [config.py:1] Casting torch.bfloat16 to torch.float16.",
    "(EngineCore pid=28035) ERROR 12-01 02:17:20 [core.py:906] EngineCore failed to start.",
    "W1201 02:01:49.386000 17766 torch/utils/cpp_extension.py:140] No CUDA runtime is found",
    "0.00.004.318 E cmn  common_init_: failed to load model 'models/none.gguf'",
    'time=2026-02-27T15:31:04.123Z level=WARN source=server.go:12 msg="model runner stopped"',
    '{"timestamp":"2026-02-27T15:31:04Z","level":"ERROR","fields":{"message":"Shard 0 failed"},"target":"text_generation_launcher"}',
    "[02/27/2026-15:31:04] [TRT-LLM] [W] Logger level already set from environment.",
    "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    "/a/b.py:138: FutureWarning: `torch.distributed.reduce_op` is deprecated",
    "error: invalid argument: --flash-atn",
]
NOT_RAISED = [
    "",
    "INFO 06-04 15:17:48 [loader.py:1] Error: 0, retries: 0",
    "[2026-02-27 15:31:04 TP0] Decode batch. #running-req: 1, #token: 12, gen throughput (token/s): 83.1",
    "(EngineCore pid=28035) ERROR 12-01 02:17:20 [core.py:906] Traceback (most recent call last):",
    '(EngineCore pid=28035) ERROR 12-01 02:17:20 [core.py:906]   File "/a/b.py", line 3, in f',
    "errors so far 0, warnings so far 0",
]


@pytest.mark.parametrize("line", RAISED)
def test_lines_at_warning_or_above(line: str) -> None:
    assert is_raised(line)


@pytest.mark.parametrize("line", NOT_RAISED)
def test_lines_below(line: str) -> None:
    assert not is_raised(line)


def test_known_and_unknown_are_counted_and_unknown_are_listed_rarest_first(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    known = "[2026-02-27 15:31:04] WARNING server_args.py:1: KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_tokens_gained: 12480, #new_token_ratio: 0.4012 -> 0.7133"
    log.write_text(
        "\n".join(
            [
                "[2026-02-27 15:31:04] The server is fired up and ready to roll!",
                known,
                *(f"WARNING 02-27 15:31:04 [a.py:1] flux {n} of device '/dev/{n}'" for n in range(5)),
                "WARNING 02-27 15:31:04 [a.py:1] once only",
                known,
            ]
        )
    )
    found = coverage([log])
    assert found.sources == [Counted(str(log), 9, 8, 2)]
    assert found.total.share == 0.25
    assert [(shape.times, shape.line) for shape in found.shapes] == [(1, 8), (5, 3)]
    assert found.unlisted == 0


def test_shapes_are_bounded_and_the_rest_is_counted(tmp_path: Path) -> None:
    def word(number: int) -> str:
        return "".join(chr(ord("a") + int(digit)) for digit in str(number))

    log = tmp_path / "server.log"
    log.write_text("".join(f"WARNING 02-27 15:31:04 [a.py:1] {word(n)}\n" for n in range(KEPT_SHAPES + 7)))
    found = coverage([log])
    assert found.total.raised == KEPT_SHAPES + 7
    assert len(found.shapes) == KEPT_SHAPES
    assert found.unlisted == 7


def test_several_sources_are_joined_and_what_is_unreadable_is_said(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text("WARNING 02-27 15:31:04 [a.py:1] flux 7\n")
    (tmp_path / "empty.log").touch()
    found = coverage([tmp_path])
    assert found.total == Counted("all", 2, 2, 0)
    assert [shape.times for shape in found.shapes] == [2]
    assert len(found.unreadable) == 1
    assert "empty.log" in found.unreadable[0]


def test_cutting_a_source_in_chunks_changes_nothing(catalog: Catalog, fixtures: Path) -> None:
    data = (
        (fixtures / "captures/cpu_servers/vllm_err_missing_libnuma.log")
        .read_bytes()
        .splitlines(keepends=True)
    )

    def read(size: int) -> tuple[int, int, list[object]]:
        reader = WarningReader(catalog, "log")
        for start in range(0, len(data), size):
            part = data[start : start + size]
            reader.feed(b"".join(part), start + 1, last=start + size >= len(data))
        return reader.raised, reader.known, list(reader.reading.odd.rarest(99))

    whole = read(len(data))
    assert whole[0] >= whole[1] > 0
    assert read(60) == whole


def test_an_exception_is_known_when_a_message_knows_what_it_says(catalog: Catalog) -> None:
    text = 'Traceback (most recent call last):\n  File "/a.py", line 3, in f\n    g()\n'

    def counted(last_line: str) -> tuple[int, int]:
        reader = WarningReader(catalog, "log")
        reader.feed(f"{text}{last_line}\n".encode(), 1, last=True)
        return reader.raised, reader.known

    assert counted("ValueError: the flux capacitor is not charged") == (1, 0)
    assert counted(
        "ImportError: libnvrtc.so.13: cannot open shared object file: No such file or directory"
    ) == (1, 1)
