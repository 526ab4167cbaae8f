"""One line of a log -> the wording of a message: what varies becomes a capture, the rest stays."""

import re
from collections.abc import Iterator
from unicodedata import combining, normalize

from diagnoser.rulebook import template
from diagnoser.rulebook.compile import CAPTURE_TYPES
from diagnoser.scan.template import match_plan

MAX_WORDING = 240
"""Letters of a line that its wording takes; a wording need not reach to the line's end."""

MAX_CAPTURES = 12

MIN_ALPHABETIC = 4
"""Letters that the fixed text must have besides digits and signs."""

_VARIABLE = re.compile(
    r"(?P<secret>\*{4,})"
    r"|(?P<address>\b0x[0-9a-fA-F]{1,32}\b)"
    r"|(?P<uuid>\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b)"
    r"|(?P<path>(?<![\w/])(?:/[\w.@+-]{1,100}){2,20})"
    r"|(?P<version>(?<![\w.])\d{1,9}(?:\.\d{1,9}){2,6}[\w.+-]{0,40}\b)"
    r"|(?P<number>(?<![\w.])\d{1,20}\.\d{1,20})"
    r"|(?P<int>(?<![\w.])\d{1,20}(?:[,_]\d{3}){0,6}(?![\w]*-?[A-Za-z_]{3}))"
)
_TYPES = {"address": ":name", "uuid": ":name", "version": ":name", "number": ":float", "int": ":int"}
"""Group -> capture type; the others run to the next fixed text."""


class WordingError(ValueError):
    """A line without enough fixed text."""


def wording(text: str, line: str | None = None) -> str:
    """The wording of a text in ``line`` (None: the text is the line); it matches. Raises `WordingError`.

    >>> wording("out of memory on GPU 3: 1,024 MiB asked, 0.5 GiB free")
    'out of memory on GPU <int1:int>: <int2:int> MiB asked, <number3:float> GiB free'
    """
    line = text if line is None else line
    head = _head(text)
    found = list(_VARIABLE.finditer(head))
    if not _says(_literal(head), line) or sum(map(str.isalpha, _VARIABLE.sub("", head))) < MIN_ALPHABETIC:
        raise WordingError(
            f"it has no fixed text of at least {template.MIN_LITERAL_LETTERS} letters or digits to find it by"
        )
    chosen: list[re.Match[str]] = []
    for variable in found[:MAX_CAPTURES]:
        if _says(_write(head, [*chosen, variable]), line):
            chosen.append(variable)
    if len(found) > MAX_CAPTURES:
        shorter = head[: found[MAX_CAPTURES].start()]
        if _says(_write(shorter, chosen), line):
            head = shorter
    written = _write(head, chosen)
    bare = _from_first_words(written)
    return bare if _says(bare, line) else written


def words(wording: str) -> Iterator[str]:
    """The words of a wording's fixed text, in letters that an id may have."""
    for piece in template.parse(wording, CAPTURE_TYPES):
        if isinstance(piece, str):
            plain = "".join(part for part in normalize("NFKD", piece) if not combining(part))
            yield from re.findall(r"[a-z]{3,}", plain.lower())


def _head(text: str) -> str:
    """The beginning of a long line, cut between words where there are any."""
    if len(text) <= MAX_WORDING:
        return text
    return text[: text.rfind(" ", MAX_WORDING // 2, MAX_WORDING) % (MAX_WORDING + 1)]


def _write(text: str, variables: list[re.Match[str]]) -> str:
    """The text with captures in the place of some variables."""
    parts: list[str] = []
    at = 0
    for number, variable in enumerate(variables, 1):
        group = variable.lastgroup or "int"
        parts += (_literal(text[at : variable.start()]), f"<{group}{number}{_TYPES.get(group, '')}>")
        at = variable.end()
    return "".join([*parts, _literal(text[at:])])


def _literal(text: str) -> str:
    return text.replace("<", "\\<")


def _from_first_words(written: str) -> str:
    """Without what stands before the first fixed text that has letters: line numbers, paths, brackets."""
    capture = re.match(r"(?:[^A-Za-z<\\]{0,20}<\w{1,20}(?::\w{1,10})?>){1,4}(?=[^<]*[A-Za-z])", written)
    return written[capture.end() :].lstrip(" :,;") if capture else written


def _says(written: str, text: str) -> bool:
    """Whether a wording is well-formed and matches the line."""
    try:
        plan = template.parse(written, CAPTURE_TYPES)
        template.literal(plan)
    except template.TemplateError:
        return False
    return match_plan(plan, text) is not None
