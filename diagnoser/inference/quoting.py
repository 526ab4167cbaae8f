"""What a client sent is no statement of the server: logged prompts and answers are blanked before anything is read.

Otherwise anybody could write a cause into a log by asking the model about it, and every prompt would be shown as
evidence. Engines print a request on one line, with line ends escaped:

    sglang --log-requests          [2026-02-27 15:38:14] Receive: obj=GenerateReqInput(rid='..', text='...', ...
    vllm --enable-log-requests     INFO ... Received request cmpl-1: prompt: '...', params: SamplingParams(...
    vllm --enable-log-outputs      INFO ... Generated response cmpl-1 (streaming complete): output: '...'
    llama-server -lv 1             srv  log_server_r: request:  {"prompt": "..."}

Sources: sglang 0.5.9 tokenizer_manager.py:_log_received_request, vllm 0.11 entrypoints/logger.py, llama.cpp
tools/server (log_server_request).
"""

from typing import NamedTuple

from diagnoser.scan.scanner import Hits

NEAR = 300
"""Within so many bytes behind the beginning the word that opens the quote must stand."""


class Quote(NamedTuple):
    """Where a quoted request begins: a literal, and the word that opens the quote behind it (empty: at once)."""

    literal: bytes
    opens: bytes = b""


QUOTES = (
    Quote(b"Received request ", b": prompt: "),
    Quote(b"Generated response ", b"output: "),
    Quote(b"obj=GenerateReqInput("),
    Quote(b"obj=EmbeddingReqInput("),
    Quote(b"log_server_r: request:"),
    Quote(b"log_server_r: response:"),
)


def unquoted(data: bytes, hits: Hits, quotes: dict[int, Quote]) -> tuple[bytes, Hits]:
    """The text with quoted requests blanked, to the end of their lines, and the hits outside of them.

    quotes: number of a literal -> the quote that it begins.
    """
    ranges = []
    done = -1
    for hit in hits:
        quote = quotes.get(hit.literal)
        if quote is None or hit.end <= done:
            continue
        start = hit.end
        if quote.opens:
            start = data.find(quote.opens, hit.end, hit.end + NEAR) + len(quote.opens)
            if start < len(quote.opens) or b"\n" in data[hit.end : start]:
                continue
        stop = data.find(b"\n", start)
        done = stop if stop >= 0 else len(data)
        ranges.append((start, done))
    if not ranges:
        return data, hits
    blank = bytearray(data)
    for start, stop in ranges:
        blank[start:stop] = b" " * (stop - start)
    return bytes(blank), _outside(hits, ranges)


def _outside(hits: Hits, ranges: list[tuple[int, int]]) -> Hits:
    kept = []
    index = 0
    for hit in hits:
        while index < len(ranges) and hit.end > ranges[index][1]:
            index += 1
        if index == len(ranges) or hit.end <= ranges[index][0]:
            kept.append(hit)
    return Hits(kept)
