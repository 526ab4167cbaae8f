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
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from diagnoser.experiment.importers_text import guidellm_csv, llama_markdown, perf_csv, plain
from diagnoser.experiment.measured import (
    OFF_LENGTH,
    Measured,
    chunks,
    failed,
    load_of,
    measured_of,
    metrics,
    ms,
    once,
    short,
)

MAX_FILE = 256 << 20
RETOKENIZED = 0.01
"""By how much counted tokens may differ from the re-tokenised text; more means that requested lengths were counted."""


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
    for read_text in (plain, llama_markdown, guidellm_csv, _llama_csv, perf_csv):
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


def _own(name: str, objects: Sequence[dict[str, Any]]) -> Measured:
    from diagnoser.experiment.results import Benchmark

    return measured_of(name, Benchmark.model_validate(objects[0]))


def _vllm(name: str, objects: Sequence[dict[str, Any]]) -> Measured:
    runs, flags = [], []
    for one in objects:
        runs.append(
            metrics(
                output_tok_s_wall=one.get("output_throughput"),
                ttft_ms=one.get("mean_ttft_ms"),
                decode_ms_per_token=one.get("mean_tpot_ms"),
                chunk_gap_ms=one.get("mean_itl_ms"),
                e2e_ms=one.get("mean_e2el_ms"),
                accept_len=one.get("spec_decode_acceptance_length"),
            )
        )
        flags += failed(one.get("failed"), one.get("completed"))
        flags += chunks(one.get("mean_itl_ms"), one.get("mean_tpot_ms"))
    first = objects[0]
    return Measured(
        name, "vllm bench serve", tuple(runs), {"model": first.get("model_id")}, load_of(first), once(flags)
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
            metrics(
                output_tok_s_wall=one.get("output_throughput"),
                ttft_ms=one.get("mean_ttft_ms"),
                decode_ms_per_token=one.get("mean_tpot_ms"),
                chunk_gap_ms=one.get("mean_itl_ms"),
                e2e_ms=one.get("mean_e2e_latency_ms"),
                accept_len=one.get("accept_length"),
            )
        )
        flags += chunks(one.get("mean_itl_ms"), one.get("mean_tpot_ms"))
    first = objects[0]
    info = first.get("server_info")
    server = (
        {key: value for key, value in info.items() if not isinstance(value, list | dict)}
        if isinstance(info, dict)
        else {}
    )
    server["model"] = server.pop("model_path", None)
    return Measured(name, "sglang bench_serving", tuple(runs), server, load_of(first), once(flags))


def _one_batch(name: str, objects: Sequence[dict[str, Any]]) -> Measured:
    runs = []
    lengths = [one["output_len"] for one in objects]
    for one in objects:
        length = one["output_len"]
        decode = (one["latency"] - one["last_ttft"]) / (length - 1) if length > 1 else None
        if abs(length - statistics.median(lengths)) <= OFF_LENGTH * statistics.median(lengths):
            runs.append(
                metrics(
                    # Its "output_throughput" leaves the first token out; this is over the whole time.
                    output_tok_s_wall=one["batch_size"] * length / one["latency"],
                    ttft_ms=ms(one["last_ttft"]),
                    decode_ms_per_token=ms(decode),
                    e2e_ms=ms(one["latency"]),
                    accept_len=one["acc_length"] if one["acc_length"] > 0 else None,
                )
            )
    first = objects[0]
    load = {
        "concurrency": first["batch_size"],
        "prompt_tokens": first["input_len"],
        "output_tokens": first["output_len"],
    }
    return Measured(name, "sglang bench_one_batch_server", tuple(runs), {}, load, short(lengths))


def _vllm_latency(name: str, objects: Sequence[dict[str, Any]]) -> Measured:
    runs = tuple(metrics(e2e_ms=ms(seconds)) for one in objects for seconds in one["latencies"])
    return Measured(name, "vllm bench latency", runs, {}, {})


def _vllm_throughput(name: str, objects: Sequence[dict[str, Any]]) -> Measured:
    runs = tuple(metrics(total_tok_s_wall=one["tokens_per_second"]) for one in objects)
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
            metrics(
                output_tok_s_wall=tokens / wall if tokens and wall else found.get("output_tokens_per_second"),
                ttft_ms=found.get("time_to_first_token_ms"),
                decode_ms_per_token=found.get("inter_token_latency_ms"),
                e2e_ms_per_token=found.get("time_per_output_token_ms"),
                e2e_ms=ms(found.get("request_latency")),
            )
        )
        flags += failed(totals.get("errored"), totals.get("successful"))
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
        once(flags),
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
    run = metrics(
        output_tok_s_wall=average("output_token_throughput"),
        ttft_ms=average("time_to_first_token"),
        decode_ms_per_token=average("inter_token_latency"),
        e2e_ms=average("request_latency"),
    )
    load = {
        "prompt_tokens": average("input_sequence_length"),
        "output_tokens": average("output_sequence_length"),
    }
    flags = failed(average("error_request_count"), average("request_count"))
    return Measured(name, tool, (run,), {"model": model}, load, once(flags))


def _inference_perf(name: str, objects: Sequence[dict[str, Any]]) -> Measured:
    said = objects[0]
    done = said["successes"]
    latency = done["latency"]
    throughput = done.get("throughput", {})
    run = metrics(
        output_tok_s_wall=throughput.get("output_tokens_per_sec"),
        ttft_ms=ms(latency["time_to_first_token"]["mean"]),
        decode_ms_per_token=ms(latency["time_per_output_token"]["mean"]),
        e2e_ms_per_token=ms(latency["normalized_time_per_output_token"]["mean"]),
        e2e_ms=ms(latency["request_latency"]["mean"]),
    )
    load = {
        key: done[field]["mean"]
        for key, field in (("prompt_tokens", "prompt_len"), ("output_tokens", "output_len"))
        if isinstance(done.get(field), dict)
    }
    flags = failed(said.get("failures", {}).get("count"), done.get("count"))
    return Measured(name, "inference-perf", (run,), {}, load, once(flags))


def _llmperf(name: str, objects: Sequence[dict[str, Any]]) -> Measured:
    said = objects[0]
    run = metrics(
        output_tok_s_wall=said.get("results_mean_output_throughput_token_per_s"),
        ttft_ms=ms(said.get("results_ttft_s_mean")),
        e2e_ms_per_token=ms(said.get("results_inter_token_latency_s_mean")),
        e2e_ms=ms(said.get("results_end_to_end_latency_s_mean")),
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
    runs = tuple(metrics(**{metric: sample}) for sample in samples)
    return Measured(name, "llama-bench", runs, server, load, ("it samples and tokenises nothing",))


def _llama_csv(name: str, text: str) -> Measured | None:
    rows = list(csv.DictReader(io.StringIO(text)))
    return (
        _llama(name, [{**row, "n_gen": int(row["n_gen"]), "n_prompt": int(row["n_prompt"])} for row in rows])
        if rows and "avg_ts" in rows[0]
        else None
    )


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
