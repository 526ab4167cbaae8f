"""Lists of ``key=value`` as Python prints them, whole and cut."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnoser.parsers.fields import flatten, read_value, split_fields


def read(text: str, start: int = 0) -> dict[str, object]:
    return dict(flatten(split_fields(text, start)))


def test_a_call_with_nested_calls_and_lists() -> None:
    text = "Args(path='/m, (x)', bs=[1, 2], graph=Graph(decode=Phase(max_bs=16, bs=[1, 2])), n=None, f=0.87) tail=1"
    assert read(text, 5) == {
        "path": "/m, (x)",
        "bs": "[1, 2]",
        "graph.decode.max_bs": 16,
        "graph.decode.bs": "[1, 2]",
        "n": None,
        "f": 0.87,
    }


def test_a_dict_and_a_dump_without_brackets() -> None:
    assert read("{'model': 'q', 'eager': True, 'sizes': {'a': 1}}", 1) == {
        "model": "q",
        "eager": True,
        "sizes.a": 1,
    }
    dump = (
        """model='q', dtype=torch.bfloat16, cfg={"level":3,"on":true}, mode=<Mode.FULL: (2, 1)>, last=auto"""
    )
    assert read(dump) == {
        "model": "q",
        "dtype": "bfloat16",
        "cfg.level": 3,
        "cfg.on": True,
        "mode": "FULL",
        "last": "auto",
    }


@pytest.mark.parametrize(
    "tail", ["attention_back", "attention_backend='tri", "attention_backend='triton', ...", "bs=[1, 2"]
)
def test_a_cut_text_gives_what_is_whole(tail: str) -> None:
    found = read(f"Args(model='/m', tp_size=8, {tail}", 5)
    assert {"model": "/m", "tp_size": 8}.items() <= found.items()
    assert "attention_bac" not in found
    assert found.get("attention_backend", "triton") == "triton"


def test_quotes_with_escapes() -> None:
    assert read(r"""A(a='it\'s, ok', b="x,y")""", 2) == {"a": "it's, ok", "b": "x,y"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-1", -1),
        ("1e-3", 0.001),
        ("1.", 1.0),
        (".", "."),
        ("auto", "auto"),
        ("null", None),
        ("'8'", "8"),
        ("9" * 30, "9" * 30),
    ],
)
def test_values(text: str, value: object) -> None:
    assert read_value(text) == value


@given(st.text(alphabet="ab='\"\\()[]{}<>,: \n1", max_size=300), st.integers(0, 3))
def test_any_text(text: str, start: int) -> None:
    for name, value in flatten(split_fields(text, min(start, len(text)))):
        assert name
        assert value is None or isinstance(value, str | int | float)


@pytest.mark.parametrize("unit", ["'\\'", "a=(", "a={", "a=<A", "[", '"', "a,", "a=b(c=d("])
def test_hostile_repetitions_stay_linear(unit: str) -> None:
    begun = time.process_time()
    list(flatten(split_fields(unit * 200_000)))
    assert time.process_time() - begun < 4
