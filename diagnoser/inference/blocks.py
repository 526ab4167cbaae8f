"""Where blocks lie in a chunk, and the stretches of a source: logs with blocks in them as islands."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from diagnoser.inference.catalog import Target
from diagnoser.inference.lines import ChunkLines
from diagnoser.parsers.base import Parser
from diagnoser.scan.scanner import Hits


class Span(NamedTuple):
    """A stretch of a source: a block of one kind such as an nvidia-smi table, or the log around it (kind None).

    votes: what speaks for each engine in a log, with its count, sorted by name.
    """

    kind: str | None
    first_line: int
    last_line: int
    votes: tuple[tuple[str, int], ...] = ()


MAX_SPANS = 1000
"""How many documents of one source are told apart; what stands behind them counts as part of the last."""


def join_spans(spans: list[Span], more: list[Span]) -> list[Span]:
    """``spans`` with those that stand behind them. Neighbouring log stretches become one; blocks stay apart."""
    for span in more:
        last = spans[-1] if spans else None
        if last is not None and last.kind is None and span.kind is None:
            votes = Counter(dict(last.votes)) + Counter(dict(span.votes))
            spans[-1] = last._replace(last_line=span.last_line, votes=tuple(sorted(votes.items())))
        elif last is not None and len(spans) >= MAX_SPANS:
            spans[-1] = last._replace(last_line=span.last_line)
        else:
            spans.append(span)
    return spans


def is_prompt(line: str) -> bool:
    """Whether a line is blank or a shell prompt, and so no log of its own."""
    stripped = line.strip()
    return (
        not stripped
        or stripped.startswith(("$ ", "# ", "> ", "% ", "```"))
        or (len(stripped) < 200 and ("$ nvidia-smi" in stripped or "# nvidia-smi" in stripped))
    )


def find_blocks(lines: ChunkLines, hits: Hits, targets: list[Target]) -> Iterator[tuple[Parser, range]]:
    """The blocks of a chunk in order, none overlapping; where two claim a line the one that began first wins."""
    claimed: list[tuple[Parser, range]] = []
    tried: set[tuple[str, int]] = set()
    covered: dict[str, int] = {}
    for hit in hits:
        for handle in targets[hit.literal].parsers:
            if not handle.block:
                continue
            parser = handle.parser
            if parser.extent is None:
                continue
            line = lines.at(hit.end - 1)
            if line < covered.get(parser.name, 0) or (parser.name, line) in tried:
                continue
            tried.add((parser.name, line))
            extent = parser.extent(lines, line)
            if extent is None or len(extent) == 0:
                continue
            covered[parser.name] = extent.stop
            claimed.append((parser, extent))
    claimed.sort(key=lambda block: (block[1].start, -block[1].stop))
    taken = 0
    for parser, extent in claimed:
        if extent.start >= taken:
            yield parser, extent
            taken = extent.stop


def inside_blocks(blocks: list[tuple[Parser, range]], end: int) -> bytearray:
    """A flag for each line: whether it belongs to a block."""
    inside = bytearray(end)
    for _, extent in blocks:
        inside[extent.start : extent.stop] = b"\x01" * len(extent)
    return inside
