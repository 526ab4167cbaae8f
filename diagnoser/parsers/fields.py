"""``key=value`` lists as Python prints them: calls, dicts and configuration dumps, also when they are cut.

    ServerArgs(model_path='/m', cuda_graph_bs=[1, 2], x=None)
    {'model': 'q', 'max_model_len': 16384}
    model='q', compilation_config={'mode': <CompilationMode.VLLM_COMPILE: 3>}, kernel_config=KernelConfig(a='b')

Nothing is evaluated; brackets and quotes are followed, and values are read as literals.
"""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from diagnoser.facts.engine import Scalar
from diagnoser.facts.lazy import lazy
from diagnoser.sources import redaction

MAX_TEXT = 1 << 18
"""Longer dumps are read up to here (SGLang's longest line has 14 kB)."""

MAX_VALUE = 300
"""Characters of a list or text value that are kept."""

MAX_DEPTH = 3

_TOKEN = lazy(
    r"""'(?:[^'\\]|\\.)*(?:'|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z)|<[A-Z][\w.]{0,80}: ?[^<>\n]{0,80}>|[()\[\]{},=:]""",
    re.S,
)
_NUMBER = lazy(r"[+-]?(?:\d{1,18}|\d{0,18}\.\d{0,18}(?:[eE][+-]?\d{1,3})?|\d{1,18}[eE][+-]?\d{1,3})\Z")
_ENUM = lazy(r"<(?:\w{1,80}\.)?(\w{1,80}): ?[^<>]{0,80}>\Z")
_NAME = lazy(r"[A-Za-z_][\w.]{0,80}\Z")
_CALL = lazy(r"[A-Za-z_]\w{0,80}\(")
_WORDS: dict[str, Scalar] = {
    "None": None,
    "null": None,
    "True": True,
    "true": True,
    "False": False,
    "false": False,
}
_CUT = ("...", "…")


class Field(NamedTuple):
    """One ``key=value`` with the value's text as it stands."""

    key: str
    text: str


def split_fields(text: str, start: int = 0) -> Iterator[Field]:
    """The fields from ``start`` up to the bracket that closes them, or to the end of the text.

    ``start`` stands behind the opening bracket, or at the first key where there is none. A last field that
    the text breaks off in is left out, for its value may be cut.
    """
    end = min(len(text), MAX_TEXT)
    depth = 0
    begin, key, closed = start, "", False
    for token in _TOKEN.finditer(text, start, end):
        char = token[0]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth < 0:
                end, closed = token.start(), True
                break
        elif depth == 0 and char == ",":
            if key:
                yield Field(key, text[begin : token.start()].strip())
            begin, key = token.end(), ""
        elif depth == 0 and not key and char in "=:":
            key = _key(text[begin : token.start()])
            begin = token.end()
    rest = text[begin:end].strip()
    whole = closed or (depth == 0 and start == 0 and not rest.endswith(_CUT))
    if key and whole and not rest.endswith(_CUT):
        yield Field(key, rest)


def _key(text: str) -> str:
    key = text.strip().strip("'\"")
    return key if _NAME.match(key) else ""


def read_value(text: str) -> Scalar:
    """A value as printed: literals as such, enums by their name, the rest as text (dtypes without "torch.").

    >>> read_value("None"), read_value("0.87"), read_value("'auto'"), read_value("torch.bfloat16")
    (None, 0.87, 'auto', 'bfloat16')
    >>> read_value("<CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>")
    'FULL_AND_PIECEWISE'
    """
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.match(text):
        return _number(text)
    if text[:1] in ("'", '"'):
        return _quoted(text)[:MAX_VALUE]
    enum = _ENUM.match(text)
    return enum[1] if enum else text.removeprefix("torch.")[:MAX_VALUE]


def _number(text: str) -> Scalar:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _quoted(text: str) -> str:
    if "\\" not in text and text.count(text[0]) == 2 and text[-1] == text[0]:
        return text[1:-1]
    try:
        value = ast.literal_eval(text[: 4 * MAX_VALUE] if len(text) <= 4 * MAX_VALUE else "''")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    return masked(value) if isinstance(value, str) else text.strip("'\"")


def masked(value: str) -> str:
    """A value whose escapes were undone: a secret may have hidden behind them when the text was masked."""
    data = bytearray(value.encode("utf-8", "replace"))
    return data.decode() if redaction.redact(data) else value


def flatten(fields: Iterator[Field], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Scalar]]:
    """Names and values; nested dicts and calls become dotted names ("compilation_config.mode")."""
    for key, text in fields:
        name = f"{prefix}{key}"
        inner = _opens(text)
        if inner and depth < MAX_DEPTH:
            nested = list(flatten(split_fields(text, inner), name + ".", depth + 1))
            if nested:
                yield from nested
                continue
        yield name, read_value(text)


def _opens(text: str) -> int:
    """Where the fields of a dict or call begin; 0 for anything else."""
    if text.startswith("{"):
        return 1
    call = _CALL.match(text)
    return call.end() if call else 0
