"""Markdown shows exactly the text that was given."""

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from diagnoser.report.markup import code, linked, plain

READER = MarkdownIt("commonmark").enable("table")

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=60)
SIGNS = st.text(st.sampled_from("*_`[]()<>|#-+=~!\\&.1) ab"), max_size=30)


def shown(markdown: str) -> str:
    """The text a reader sees, blanks joined; fails on anything that is markup."""
    pieces = [child for token in READER.parse(markdown) for child in token.children or ()]
    assert {piece.type for piece in pieces} <= {"text", "text_special", "entity", "softbreak"}
    return " ".join("".join(piece.content for piece in pieces).split())


@given(TEXT | SIGNS)
def test_prose_is_shown_as_it_is(text: str) -> None:
    assert shown(plain(text)) == " ".join(text.split())


@given(TEXT | SIGNS)
def test_a_code_span_holds_its_text(text: str) -> None:
    if not text.strip():
        return
    pieces = [child for token in READER.parse(f"- {code(text)}") for child in token.children or ()]
    assert [piece.type for piece in pieces] == ["code_inline"]
    assert pieces[0].content.strip() == text.strip()


def test_addresses_and_threads_are_links() -> None:
    assert linked("see sgl-project/sglang#18758, and https://a.example/x_y.") == (
        "see [sgl-project/sglang#18758](https://github.com/sgl-project/sglang/issues/18758)"
        ", and <https://a.example/x_y>."
    )
    assert linked("sglang 0.5.9 server_args.py:1835") == "sglang 0.5.9 server_args.py:1835"
