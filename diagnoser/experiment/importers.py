"""Results of other tools, read into one vocabulary: the same name always means the same quantity.

The tools disagree about names: "inter token latency" is the time per token without the first (vLLM's TPOT) in
guidellm, AIPerf and GenAI-Perf, the gap between chunks in vLLM and SGLang, and the whole time over all tokens in
llmperf. Read from the sources of vllm/benchmarks/serve.py, sglang 0.5.9 and 0.5.23 bench_serving.py, guidellm 0.8.1,
aiperf 0.13.0, genai-perf 0.0.16, inference-perf 0.7.0, ray's llmperf, and llama.cpp's llama-bench.

    decode_ms_per_token    (E - F) / (N - 1): the time of a token without the first
    e2e_ms_per_token       E / N
    chunk_gap_ms           between two chunks of the stream, whatever is in them
    ttft_ms, e2e_ms        time to the first token, and of the whole request
    output_tok_s_wall      output tokens of the run over its wall time
    output_tok_s_request   N / E, mean over requests
    accept_len             tokens per step of speculative decoding
"""

import csv
import io
import json
import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from diagnoser.experiment.results import Benchmark

MAX_FILE = 256 << 20
RETOKENIZED = 0.01
"""By how much counted tokens may differ from the re-tokenised text; more means that requested lengths were counted."""
OFF_LENGTH = 0.02

Metrics = Mapping[str, float]


class Measured(NamedTuple):
    """One launch of a server as a file tells it. runs: the canonical metrics of each run.

    tool: who wrote the file. identity, workload: what it says of the server and of the load. flags: what is wrong.
    """

    file: str
    tool: str
    runs: tuple[Metrics, ...]
    identity: Mapping[str, Any]
    workload: Mapping[str, Any]
    flags: tuple[str, ...] = ()


class NotABenchmarkError(ValueError):
    """A file that is no benchmark result that is known; the message is one sentence."""


def read(path: Path) -> list[Measured]:
    """The launches in a file, or in all files of a folder. Raises `NotABenchmarkError`."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
        found = [one for file in files for one in _known(file)]
        if not found:
            raise NotABenchmarkError(f"{path}: no benchmark result in this folder is known")
        return found
    return _of_file(path)


def _known(file: Path) -> list[Measured]:
    try:
        return _of_file(file)
    except NotABenchmarkError:
        return []


def _of_file(path: Path) -> list[Measured]:
    try:
        if path.stat().st_size > MAX_FILE:
            raise NotABenchmarkError(
                f"{path}: it is larger than {MAX_FILE >> 20} MiB; give the summary, not the traces"
            )
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise NotABenchmarkError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise NotABenchmarkError(f"{path}: it is no text") from error
    try:
        found = list(_records(path.name, text))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ZeroDivisionError) as error:
        raise NotABenchmarkError(
            f"{path}: it looks like a benchmark result and is damaged: {error}"
        ) from error
    if not found or not any(one.runs for one in found):
        raise NotABenchmarkError(
            f"{path}: no benchmark result that is known; see docs/benchmarks.md for the formats"
        )
    return found


def _records(name: str, text: str) -> Iterator[Measured]:
    objects = _objects(text)
    if objects:
        for recognises, importer in _JSON:
            if recognises(objects[0]):
                yield importer(name, objects)
                return
        return
    for read_text in (_plain, _llama_markdown, _guidellm_csv, _llama_csv, _perf_csv):
        found = read_text(name, text)
        if found is not None:
            yield found
            return


def _objects(text: str) -> list[dict[str, Any]]:
    """The objects of a JSON text or of JSON lines; Infinity and NaN are read as Python writes them."""
    try:
        whole = json.loads(text)
    except ValueError:
        try:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError:
            return []
    if isinstance(whole, list):
        return [one for one in whole if isinstance(one, dict)]
    return [whole] if isinstance(whole, dict) else []


def _metrics(**values: float | None) -> Metrics:
    """Without what is absent: None, NaN, and a time of zero, which tools print for "not measured"."""
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and math.isfinite(value) and value > 0
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def _own(name: str, objects: Sequence[dict[str, Any]]) -> Measured:
    from diagnoser.experiment.results import Benchmark

    return of_result(name, Benchmark.model_validate(objects[0]))


def of_result(name: str, said: "Benchmark") -> Measured:
    """The first launch of a result of our own."""
    runs = []
    for launch in said.launches[:1]:
        for run in launch.runs:
            if run.complete and not run.off_length and not run.failed:
                spreads = (
                    "ttft_ms",
                    "decode_ms_per_token",
                    "e2e_ms",
                    "e2e_ms_per_token",
                    "chunk_gap_ms",
                    "output_tok_s_request",
                )
                means = {key: spread.mean for key in spreads if (spread := getattr(run, key)) is not None}
                runs.append(
                    _metrics(**means, output_tok_s_wall=run.output_tok_s_wall, accept_len=run.accept_len)
                )
    identity = said.identity
    server = {
        "engine": identity.engine,
        "version": identity.version,
        "model": identity.model,
        **identity.flags,
    }
    if identity.gpus:
        server["gpu"] = f"{len(identity.gpus)} x {identity.gpus[0].name}"
        server["driver"] = identity.gpus[0].driver
    load = {
        "api": said.workload.api,
        "concurrency": said.workload.concurrency,
        "rate_per_s": said.workload.rate_per_s,
        "prompt_tokens": said.workload.prompt_tokens,
        "output_tokens": said.workload.output_tokens,
    }
    flags = tuple(f"{one.guard}: {one.text}" for one in said.findings if one.level == "void")
    return Measured(name, "diagnoser", tuple(runs), server, load, flags)


def _vllm(name: str, objects: Sequence[dict[str, Any]]) -> Measured:
    runs, flags = [], []
    for one in objects:
        runs.append(
            _metrics(
                output_tok_s_wall=one.get("output_throughput"),
                ttft_ms=one.get("mean_ttft_ms"),
                decode_ms_per_token=one.get("mean_tpot_ms"),
                chunk_gap_ms=one.get("mean_itl_ms"),
                e2e_ms=one.get("mean_e2el_ms"),
                accept_len=one.get("spec_decode_acceptance_length"),
            )
        )
        flags += _failed(one.get("failed"), one.get("completed"))
        flags += _chunks(one.get("mean_itl_ms"), one.get("mean_tpot_ms"))
    first = objects[0]
    return Measured(
        name, "vllm bench serve", tuple(runs), {"model": first.get("model_id")}, _load(first), _once(flags)
    )


def _sglang(name: str, objects: Sequence[dict[str, Any]]) -> Measured:
    runs, flags = [], []
    for said in objects:
        one = said
        counted, text = one.get("total_output_tokens"), one.get("total_output_tokens_retokenized")
        if counted and text and abs(counted - text) > RETOKENIZED * text:
            flags.append(
                f"{counted} output tokens were counted and {text} were generated: the requested length was counted"
            )
            one = {**one, "output_throughput": None, "mean_tpot_ms": None}
        runs.append(
            _metrics(
                output_tok_s_wall=one.get("output_throughput"),
                ttft_ms=one.get("mean_ttft_ms"),
                decode_ms_per_token=one.get("mean_tpot_ms"),
                chunk_gap_ms=one.get("mean_itl_ms"),
                e2e_ms=one.get("mean_e2e_latency_ms"),
                accept_len=one.get("accept_length"),
            )
        )
        flags += _chunks(one.get("mean_itl_ms"), one.get("mean_tpot_ms"))
    first = objects[0]
    info = first.get("server_info")
    server = (
        {key: value for key, value in info.items() if not isinstance(value, list | dict)}
        if isinstance(info, dict)
        else {}
    )
    server["model"] = server.pop("model_path", None)
    return Measured(name, "sglang bench_serving", tuple(runs), server, _load(first), _once(flags))


def _load(one: Mapping[str, Any]) -> dict[str, Any]:
    """Mean lengths and the concurrency, as vLLM and SGLang write them."""
    done = one.get("completed") or 0
    rate = one.get("request_rate")
    return {
        "concurrency": one.get("max_concurrency"),
        "rate_per_s": rate if isinstance(rate, int | float) and math.isfinite(rate) else None,
        "prompt_tokens": one["total_input_tokens"] / done if done else None,
        "output_tokens": one["total_output_tokens"] / done if done else None,
    }


def _one_batch(name: str, objects: Sequence[dict[str, Any]]) -> Measured:
    runs = []
    lengths = [one["output_len"] for one in objects]
    for one in objects:
        length = one["output_len"]
        decode = (one["latency"] - one["last_ttft"]) / (length - 1) if length > 1 else None
        if abs(length - statistics.median(lengths)) <= OFF_LENGTH * statistics.median(lengths):
            runs.append(
                _metrics(
                    # Its "output_throughput" leaves the first token out; this is over the whole time.
                    output_tok_s_wall=one["batch_size"] * length / one["latency"],
                    ttft_ms=_ms(one["last_ttft"]),
                    decode_ms_per_token=_ms(decode),
                    e2e_ms=_ms(one["latency"]),
                    accept_len=one["acc_length"] if one["acc_length"] > 0 else None,
                )
            )
    first = objects[0]
    load = {
        "concurrency": first["batch_size"],
        "prompt_tokens": first["input_len"],
        "output_tokens": first["output_len"],
    }
    return Measured(name, "sglang bench_one_batch_server", tuple(runs), {}, load, _short(lengths))


def _vllm_latency(name: str, objects: Sequence[dict[str, Any]]) -> Measured:
    runs = tuple(_metrics(e2e_ms=_ms(seconds)) for one in objects for seconds in one["latencies"])
    return Measured(name, "vllm bench latency", runs, {}, {})


def _vllm_throughput(name: str, objects: Sequence[dict[str, Any]]) -> Measured:
    runs = tuple(_metrics(total_tok_s_wall=one["tokens_per_second"]) for one in objects)
    flags = ("its tokens per second count the prompt too",)
    return Measured(name, "vllm bench throughput", runs, {}, {}, flags)


def _guidellm(name: str, objects: Sequence[dict[str, Any]]) -> Measured:
    said = objects[0]
    runs, flags = [], []
    for one in said["benchmarks"]:
        found = {
            key: value["successful"]["mean"]
            for key, value in one["metrics"].items()
            if isinstance(value, dict) and isinstance(value.get("successful"), dict)
        }
        totals = one["metrics"]["request_totals"]
        times = one["scheduler_metrics"]
        wall = times["measure_end_time"] - times["measure_start_time"]
        tokens = (
            one["metrics"]["output_token_count"]["successful"].get("total_sum")
            if one["metrics"].get("output_token_count")
            else None
        )
        runs.append(
            _metrics(
                output_tok_s_wall=tokens / wall if tokens and wall else found.get("output_tokens_per_second"),
                ttft_ms=found.get("time_to_first_token_ms"),
                decode_ms_per_token=found.get("inter_token_latency_ms"),
                e2e_ms_per_token=found.get("time_per_output_token_ms"),
                e2e_ms=_ms(found.get("request_latency")),
            )
        )
        flags += _failed(totals.get("errored"), totals.get("successful"))
    load: dict[str, Any] = {}
    for data in said.get("config", {}).get("spec", {}).get("data", [])[:1]:
        load = {"prompt_tokens": data.get("prompt_tokens"), "output_tokens": data.get("output_tokens")}
    model = (said.get("config") or {}).get("spec", {}).get("backend", {}).get("model")
    if len(runs) > 1:
        flags.append("it holds a sweep of several loads; each load is taken as a run")
    return Measured(
        name,
        f"guidellm {said['metadata']['guidellm_version']}",
        tuple(runs),
        {"model": model},
        load,
        _once(flags),
    )


def _perf(name: str, objects: Sequence[dict[str, Any]]) -> Measured:
    """AIPerf and GenAI-Perf: ``{tag: {"unit", "avg", ...}}``."""
    said = objects[0]

    def average(tag: str) -> float | None:
        value = said.get(tag)
        return value.get("avg") if isinstance(value, dict) else None

    tool = f"aiperf {said['aiperf_version']}" if "aiperf_version" in said else "genai-perf"
    if said.get("is_complete") is False or said.get("was_cancelled"):
        raise ValueError("the run was cancelled")
    names = said.get("input_config", {})
    model = (
        names.get("model_names")
        or [one.get("name") for one in names.get("models", {}).get("items", [])]
        or [None]
    )[0]
    run = _metrics(
        output_tok_s_wall=average("output_token_throughput"),
        ttft_ms=average("time_to_first_token"),
        decode_ms_per_token=average("inter_token_latency"),
        e2e_ms=average("request_latency"),
    )
    load = {
        "prompt_tokens": average("input_sequence_length"),
        "output_tokens": average("output_sequence_length"),
    }
    flags = _failed(average("error_request_count"), average("request_count"))
    return Measured(name, tool, (run,), {"model": model}, load, _once(flags))


def _perf_csv(name: str, text: str) -> Measured | None:
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    if not rows or rows[0][:2] != ["Metric", "avg"]:
        return None
    values = {
        row[0]: float(row[1].replace(",", ""))
        for row in rows
        if len(row) > 1 and re.fullmatch(r"[\d.,]+", row[1])
    }
    found = {re.sub(r" \(.*", "", key): value for key, value in values.items()}
    run = _metrics(
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


def _inference_perf(name: str, objects: Sequence[dict[str, Any]]) -> Measured:
    said = objects[0]
    done = said["successes"]
    latency = done["latency"]
    throughput = done.get("throughput", {})
    run = _metrics(
        output_tok_s_wall=throughput.get("output_tokens_per_sec"),
        ttft_ms=_ms(latency["time_to_first_token"]["mean"]),
        decode_ms_per_token=_ms(latency["time_per_output_token"]["mean"]),
        e2e_ms_per_token=_ms(latency["normalized_time_per_output_token"]["mean"]),
        e2e_ms=_ms(latency["request_latency"]["mean"]),
    )
    load = {
        key: done[field]["mean"]
        for key, field in (("prompt_tokens", "prompt_len"), ("output_tokens", "output_len"))
        if isinstance(done.get(field), dict)
    }
    flags = _failed(said.get("failures", {}).get("count"), done.get("count"))
    return Measured(name, "inference-perf", (run,), {}, load, _once(flags))


def _llmperf(name: str, objects: Sequence[dict[str, Any]]) -> Measured:
    said = objects[0]
    run = _metrics(
        output_tok_s_wall=said.get("results_mean_output_throughput_token_per_s"),
        ttft_ms=_ms(said.get("results_ttft_s_mean")),
        e2e_ms_per_token=_ms(said.get("results_inter_token_latency_s_mean")),
        e2e_ms=_ms(said.get("results_end_to_end_latency_s_mean")),
    )
    load = {
        "concurrency": said.get("num_concurrent_requests"),
        "prompt_tokens": said.get("mean_input_tokens"),
        "output_tokens": said.get("mean_output_tokens"),
    }
    return Measured(name, "llmperf", (run,), {"model": said.get("model")}, load)


def _llama(name: str, objects: Sequence[dict[str, Any]]) -> Measured:
    tests = [one for one in objects if one["n_gen"] and not one["n_prompt"]] or list(objects)
    one = tests[-1]
    samples = one.get("samples_ts") or [float(one["avg_ts"])]
    metric = "output_tok_s_request" if int(one["n_gen"]) else "prompt_tok_s"
    keys = (
        "model_filename",
        "gpu_info",
        "flash_attn",
        "n_gpu_layers",
        "n_batch",
        "n_ubatch",
        "type_k",
        "type_v",
        "n_threads",
    )
    server = {key: one.get(key) for key in keys}
    load = {
        "prompt_tokens": int(one["n_prompt"]),
        "output_tokens": int(one["n_gen"]),
        "depth": int(one.get("n_depth") or 0),
    }
    runs = tuple(_metrics(**{metric: sample}) for sample in samples)
    return Measured(name, "llama-bench", runs, server, load, ("it samples and tokenises nothing",))


def _llama_csv(name: str, text: str) -> Measured | None:
    rows = list(csv.DictReader(io.StringIO(text)))
    return (
        _llama(name, [{**row, "n_gen": int(row["n_gen"]), "n_prompt": int(row["n_prompt"])} for row in rows])
        if rows and "avg_ts" in rows[0]
        else None
    )


_MARKDOWN = re.compile(r"\|\s*(tg|pp)(\d+)(?: @ d(\d+))?\s*\|\s*([\d.]+) ± ([\d.]+)\s*\|")


def _llama_markdown(name: str, text: str) -> Measured | None:
    found = [match for match in map(_MARKDOWN.search, text.splitlines()) if match]
    made = [match for match in found if match[1] == "tg"] or found
    if not made:
        return None
    last = made[-1]
    metric = "output_tok_s_request" if last[1] == "tg" else "prompt_tok_s"
    load = {"output_tokens": int(last[2]) if last[1] == "tg" else 0, "depth": int(last[3] or 0)}
    flags = ("only the mean of the runs is told",)
    return Measured(name, "llama-bench", (_metrics(**{metric: float(last[4])}),), {}, load, flags)


def _guidellm_csv(name: str, text: str) -> Measured | None:
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
        _metrics(
            output_tok_s_wall=mean(row, "Token Throughput"),
            ttft_ms=mean(row, "Time to First Token"),
            decode_ms_per_token=mean(row, "Inter Token Latency"),
            e2e_ms_per_token=mean(row, "Time per Output Token"),
            e2e_ms=_ms(mean(row, "Request Latency")),
        )
        for row in rows[3:]
    )
    return Measured(name, "guidellm", runs, {}, {"output_tokens": mean(rows[3], "Token Metrics")})


_RUN = re.compile(r"^\W*(Run|Warmup) (\d+): (\d+) tokens in ([\d.]+)s = ([\d.]+) tok/s")


def _plain(name: str, text: str) -> Measured | None:
    """``Run 1: 2048 tokens in 22.13s = 92.6 tok/s``, warm-ups left out, runs off the usual length marked."""
    found = [match for match in map(_RUN.match, text.splitlines()) if match]
    measured = [match for match in found if match[1] == "Run"]
    if not measured:
        return None
    lengths = [int(match[3]) for match in measured]
    usual = statistics.median(lengths)
    flags = list(_short(lengths))
    for match in found:
        seconds, printed = float(match[4]), float(match[5])
        if abs(int(match[3]) / seconds - printed) > 0.05 + printed * 0.005 / seconds:
            flags.append(
                f"{match[1].lower()} {match[2]}: {match[3]} tokens in {match[4]} s are not {match[5]} tok/s"
            )
    runs = tuple(
        _metrics(output_tok_s_request=int(match[3]) / float(match[4]), e2e_ms=1000 * float(match[4]))
        for match in measured
        if abs(int(match[3]) - usual) <= OFF_LENGTH * usual
    )
    return Measured(name, "plain text", runs, {}, {"output_tokens": usual}, tuple(flags))


def _short(lengths: Sequence[int]) -> tuple[str, ...]:
    usual = statistics.median(lengths)
    return tuple(
        f"run {number} has {length} of {usual:.0f} tokens and is left out"
        for number, length in enumerate(lengths, 1)
        if abs(length - usual) > OFF_LENGTH * usual
    )


def _failed(failed: float | None, done: float | None) -> list[str]:
    return [f"{failed:.0f} of {failed + (done or 0):.0f} requests failed"] if failed else []


def _chunks(gap: float | None, decode: float | None) -> list[str]:
    """The gap between chunks is no time per token where a chunk holds several."""
    if gap and decode and gap / decode > 1.3:
        return [f"a chunk holds about {gap / decode:.1f} tokens: its inter-token latency is that of chunks"]
    return []


def _once(flags: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(flags))


_JSON: tuple[
    tuple[Callable[[Mapping[str, Any]], bool], Callable[[str, Sequence[dict[str, Any]]], Measured]], ...
] = (
    (lambda one: str(one.get("schema", "")).startswith("diagnoser/benchmark/"), _own),
    (
        lambda one: (
            "guidellm_version" in one.get("metadata", {}) if isinstance(one.get("metadata"), dict) else False
        ),
        _guidellm,
    ),
    (lambda one: "samples_ts" in one or ("n_gen" in one and "avg_ts" in one), _llama),
    (lambda one: "load_summary" in one and "successes" in one, _inference_perf),
    (lambda one: "results_ttft_s_mean" in one, _llmperf),
    (lambda one: "last_ttft" in one and "acc_length" in one, _one_batch),
    (lambda one: "total_throughput" in one and ("server_info" in one or "dataset_name" in one), _sglang),
    (lambda one: "completed" in one and "request_throughput" in one, _vllm),
    (lambda one: "avg_latency" in one and "latencies" in one, _vllm_latency),
    (lambda one: "elapsed_time" in one and "num_requests" in one, _vllm_throughput),
    (
        lambda one: "output_token_throughput" in one and isinstance(one["output_token_throughput"], dict),
        _perf,
    ),
)
