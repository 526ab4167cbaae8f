"""Text as Markdown that shows exactly that text."""

import re

_SPECIAL = re.compile(r"([\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_]))")
_AT_START = re.compile(r"^(\d{0,9})([#+\-=:.)])")
_RUNS = re.compile(r"`+")
_LINKS = re.compile(r"(https?://[^\s<>()]{1,2000}|\b[\w.-]{1,60}/[\w.-]{1,100}#\d{1,9}\b)")


def plain(text: str) -> str:
    """Prose on one line, in which nothing becomes markup."""
    line = " ".join(text.split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _AT_START.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", line))


def code(text: str) -> str:
    """A code span; the fence is longer than any run of backticks inside."""
    line = text.replace("\n", " ")
    longest = longest_run(line)
    fence = "`" * (longest + 1)
    padded = f" {line} " if longest or not line.strip() else line
    return f"{fence}{padded}{fence}"


def longest_run(text: str) -> int:
    """The length of the longest run of backticks; a fence must be longer."""
    return max(map(len, _RUNS.findall(text)), default=0)


def linked(text: str) -> str:
    """Prose in which addresses and threads (``owner/repo#1``) are links."""
    parts = _LINKS.split(text)
    return "".join(_link(part) if number % 2 else plain_part(part) for number, part in enumerate(parts))


def plain_part(text: str) -> str:
    """A piece of prose between links: its outer blanks stay."""
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return f"{before and ' '}{plain(text)}{after and ' '}" if text.strip() else (" " if text else "")


def _link(target: str) -> str:
    if target.startswith("http"):
        kept = target.rstrip(".,;:")
        return f"<{kept}>{target[len(kept) :]}"
    thread, _, number = target.partition("#")
    return f"[{plain(target)}](https://github.com/{thread}/issues/{number})"
