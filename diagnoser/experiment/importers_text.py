"""Benchmark results that are tables or lines of text; of a text that is none of them each gives None."""

import csv
import io
import re
import statistics

from diagnoser.experiment.measured import OFF_LENGTH, Measured, metrics, ms, short

_MARKDOWN = re.compile(r"\|\s*(tg|pp)(\d+)(?: @ d(\d+))?\s*\|\s*([\d.]+) ± ([\d.]+)\s*\|")


def llama_markdown(name: str, text: str) -> Measured | None:
    found = [match for match in map(_MARKDOWN.search, text.splitlines()) if match]
    made = [match for match in found if match[1] == "tg"] or found
    if not made:
        return None
    last = made[-1]
    metric = "output_tok_s_request" if last[1] == "tg" else "prompt_tok_s"
    load = {"output_tokens": int(last[2]) if last[1] == "tg" else 0, "depth": int(last[3] or 0)}
    flags = ("only the mean of the runs is told",)
    return Measured(name, "llama-bench", (metrics(**{metric: float(last[4])}),), {}, load, flags)


def guidellm_csv(name: str, text: str) -> Measured | None:
    rows = list(csv.reader(io.StringIO(text)))
    if len(rows) < 4 or rows[0][:1] != ["Run Info"]:
        return None
    columns = {
        (group, label, statistic): number
        for number, (group, label, statistic) in reversed(
            list(enumerate(zip(rows[0], rows[1], rows[2], strict=False)))
        )
    }

    def mean(row: list[str], group: str) -> float | None:
        for (one, _, statistic), number in columns.items():
            if one == group and statistic.lower() == "mean":
                return float(row[number])
        return None

    runs = tuple(
        metrics(
            output_tok_s_wall=mean(row, "Token Throughput"),
            ttft_ms=mean(row, "Time to First Token"),
            decode_ms_per_token=mean(row, "Inter Token Latency"),
            e2e_ms_per_token=mean(row, "Time per Output Token"),
            e2e_ms=ms(mean(row, "Request Latency")),
        )
        for row in rows[3:]
    )
    return Measured(name, "guidellm", runs, {}, {"output_tokens": mean(rows[3], "Token Metrics")})


_RUN = re.compile(r"^\W*(Run|Warmup) (\d+): (\d+) tokens in ([\d.]+)s = ([\d.]+) tok/s")


def plain(name: str, text: str) -> Measured | None:
    """``Run 1: 2048 tokens in 22.13s = 92.6 tok/s``, warm-ups left out, runs off the usual length marked."""
    found = [match for match in map(_RUN.match, text.splitlines()) if match]
    measured = [match for match in found if match[1] == "Run"]
    if not measured:
        return None
    lengths = [int(match[3]) for match in measured]
    usual = statistics.median(lengths)
    flags = list(short(lengths))
    for match in found:
        seconds, printed = float(match[4]), float(match[5])
        if abs(int(match[3]) / seconds - printed) > 0.05 + printed * 0.005 / seconds:
            flags.append(
                f"{match[1].lower()} {match[2]}: {match[3]} tokens in {match[4]} s are not {match[5]} tok/s"
            )
    runs = tuple(
        metrics(output_tok_s_request=int(match[3]) / float(match[4]), e2e_ms=1000 * float(match[4]))
        for match in measured
        if abs(int(match[3]) - usual) <= OFF_LENGTH * usual
    )
    return Measured(name, "plain text", runs, {}, {"output_tokens": usual}, tuple(flags))


def perf_csv(name: str, text: str) -> Measured | None:
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    if not rows or rows[0][:2] != ["Metric", "avg"]:
        return None
    values = {
        row[0]: float(row[1].replace(",", ""))
        for row in rows
        if len(row) > 1 and re.fullmatch(r"[\d.,]+", row[1])
    }
    found = {re.sub(r" \(.*", "", key): value for key, value in values.items()}
    run = metrics(
        output_tok_s_wall=found.get("Output Token Throughput"),
        ttft_ms=found.get("Time to First Token"),
        decode_ms_per_token=found.get("Inter Token Latency"),
        e2e_ms=found.get("Request Latency"),
    )
    load = {
        "prompt_tokens": found.get("Input Sequence Length"),
        "output_tokens": found.get("Output Sequence Length"),
    }
    return Measured(name, "aiperf or genai-perf", (run,), {}, load)
