"""Records that a log daemon wrote in pieces are whole again, also over the end of a chunk."""

from hypothesis import given
from hypothesis import strategies as st

from diagnoser.inference.unwrapping import MAX_RECORD, unwrapped
from diagnoser.sources import Limits, Source

STAMP = "2026-02-27T15:38:14.123456789Z stdout "


def read(text: str, limits: Limits) -> list[str]:
    chunks = unwrapped(Source.from_bytes("pod.log", text.encode(), limits=limits).chunks())
    return "".join(chunk.data.decode() for chunk in chunks).split("\n")


@given(
    st.lists(st.tuples(st.booleans(), st.text("abc ", max_size=30)), min_size=1, max_size=40),
    st.integers(60, 400),
)
def test_pieces_are_joined_wherever_the_chunks_end(pieces: list[tuple[bool, str]], chunk_bytes: int) -> None:
    text = "".join(f"{STAMP}{'P' if partial else 'F'} {words}\n" for partial, words in pieces)
    limits = Limits(chunk_bytes=chunk_bytes, hold_bytes=50)
    assert read(text, limits) == read(text, Limits())
    wanted, whole = [], ""
    for index, (partial, words) in enumerate(pieces):
        whole += words
        wanted.append("" if partial and index < len(pieces) - 1 else whole)
        whole = whole if partial else ""
    assert [line.rstrip() for line in read(text, limits)] == [line.rstrip() for line in [*wanted, ""]]


def test_a_record_that_never_ends_stays_bounded() -> None:
    text = f"{STAMP}P {'x' * 1000}\n" * 500
    assert sum(map(len, read(text, Limits()))) <= MAX_RECORD + 500
