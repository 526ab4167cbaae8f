"""The statistics lines of vLLM (V0, V1), llama.cpp and TensorRT-LLM.

Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 84.1 tokens/s, Running: 2 reqs, ...
slot print_timing: id  0 | task 12 |        eval time =    2731.10 ms /   256 tokens (   10.67 ms per token, ...
[TRT-LLM] [I] iter = 120, ..., host_step_time = 11.4ms, prev_device_step_time = 10.9ms, ..., states = {...}
"""

from diagnoser.facts.series import SeriesStore
from diagnoser.facts.sketch import SCALE, Mark
from diagnoser.parsers.samples import MIN_PREFILL_TOKENS, Samples, line_time, matches, millionths, pattern

_VLLM = (
    rb"Avg prompt throughput: <n> tokens/s, Avg generation throughput: <n> tokens/s, "
    rb"Running: (\d{1,7}) reqs, (?:Swapped: (\d{1,7}) reqs, )?(?:Waiting|Pending): (\d{1,7}) reqs"
    rb"(?:, Deferred: \d{1,7} reqs)?(?:, Preemptions: (\d{1,9}))?(?:, Corrupted: \d{1,9} reqs)?"
    rb"(?:, \w{1,12} KV cache usage: <n>%)?"
)
_VLLM_HIT = rb"Prefix cache hit rate: (?:GPU: )?<n>%"
_VLLM_STEP = rb"iteration elapsed time: <n> ms"
_VLLM_CUMULATIVE = rb"total_num_cumulative_preemption=(\d{1,9})"


def read_vllm(buffer: bytes, store: SeriesStore, year: int | None) -> None:
    """vLLM's window means. A single request's window that holds its prefill, or its end, is mixed."""
    samples = Samples(store)
    for match in matches(_VLLM, b"Avg prompt throughput: ", buffer):
        prompt, rate, running, swapped, waiting, preempted, usage = match.groups()
        offset = match.start()
        at, _ = line_time(buffer, offset, year)
        value, at_once = millionths(rate), int(running)
        store.engines.setdefault("vllm", Mark(0, offset))
        samples.put("running_reqs", at_once * SCALE, offset)
        samples.put_trend("running_reqs", at_once * SCALE, at)
        samples.put("queue_reqs", int(waiting) * SCALE, offset)
        samples.put_trend("queue_reqs", int(waiting) * SCALE, at)
        if prompt.strip(b"0."):
            samples.put("prompt_tok_s", millionths(prompt), offset)
        if swapped is not None:
            samples.put("swapped_reqs", int(swapped) * SCALE, offset)
        if preempted is not None:
            samples.put("preemptions", int(preempted) * SCALE, offset)
        if usage is not None:
            share = round(float(usage) * SCALE / 100)
            samples.put("kv_usage", share, offset)
            samples.put_trend("kv_usage", share, at)
        if at_once == 0 or (at_once == 1 and prompt.strip(b"0.")):
            if value:
                samples.put("decode_mixed_tok_s", value, offset, at_once)
        else:
            samples.put("decode_tok_s", value, offset, at_once)
            samples.put_trend("decode_tok_s", value, at)
    for match in matches(_VLLM_HIT, b"Prefix cache hit rate: ", buffer):
        samples.put("cache_hit", round(float(match[1]) * SCALE / 100), match.start())
    for match in matches(_VLLM_STEP, b"iteration elapsed time: ", buffer):
        samples.put("step_ms", millionths(match[1]), match.start())
    for match in matches(_VLLM_CUMULATIVE, b"total_num_cumulative_preemption=", buffer):
        samples.put("preemptions_cumulative", int(match[1]) * SCALE, match.start())
    samples.flush()


_SPEC = (
    rb"SpecDecoding metrics: (?:Draft acceptance rate: <n>%, )?Mean acceptance length: <n>"
    rb"(?:, (?:Accepted|Drafted)[\w ]{0,12}: [\d.]{1,14} tokens(?:/s)?){2,4}"
    rb"(?:, Per-position acceptance rate: ((?:[01](?:\.\d{1,6})?(?:, )?){1,64}))?"
    rb"(?:,? ?Avg Draft acceptance rate: <n>%)?"
)
_SPEC_V0 = (
    rb"Speculative metrics: Draft acceptance rate: <n>, System efficiency: [\d.na]{1,10}, "
    rb"Number of speculative tokens: (\d{1,4}), Number of accepted tokens: \d{1,12}, "
    rb"Number of draft tokens: (\d{1,12}), Number of emitted tokens: (\d{1,12})"
)


def read_spec(buffer: bytes, store: SeriesStore, _year: int | None) -> None:
    """vLLM's speculation. accept_len holds the bonus token in every release (0.8.5 printed it without)."""
    samples = Samples(store)
    for match in matches(_SPEC, b"SpecDecoding metrics: ", buffer):
        before, length, positions, after = match.groups()
        value = millionths(length)
        if positions is not None:
            accepted = sum(millionths(part) for part in positions.replace(b" ", b"").split(b",") if part)
            if abs(value - accepted) < abs(value - accepted - SCALE):
                value += SCALE
        samples.put("accept_len", value, match.start())
        rate = before if before is not None else after
        if rate is not None:
            samples.put("accept_rate", round(float(rate) * SCALE / 100), match.start())
    for match in matches(_SPEC_V0, b"Speculative metrics: ", buffer):
        rate, ahead, drafted, emitted = match.groups()
        samples.put("accept_rate", millionths(rate), match.start())
        if int(drafted):
            samples.put("accept_len", int(emitted) * int(ahead) * SCALE // int(drafted), match.start())
    samples.flush()


_TIMING = (
    rb"eval time = {0,12}[\d.]{1,14} ms / {0,10}(\d{1,9}) (?:tokens|runs) {1,4}"
    rb"\( {0,10}[\d.]{1,14} ms per token, {0,10}<n> tokens per second\)"
)
_DRAFT = (
    rb"draft acceptance(?: rate)? = <n> \( {0,9}\d{1,9} accepted / {0,9}\d{1,9} generated\)"
    rb"(?:, mean len = {0,4}<n>)?"
)
_REUSED = rb"graphs reused = {1,12}(\d{1,9})"
MIN_TIMED_TOKENS = 8


def read_llamacpp(buffer: bytes, store: SeriesStore, year: int | None) -> None:
    """llama.cpp's timings of each request: the rate of its slot, whatever runs beside it."""
    samples = Samples(store)
    for match in matches(_TIMING, b"eval time = ", buffer):
        tokens, rate = match.groups()
        offset = match.start()
        store.engines.setdefault("llama.cpp", Mark(0, offset))
        if buffer[max(0, offset - 7) : offset] == b"prompt ":
            if int(tokens) >= MIN_PREFILL_TOKENS:
                samples.put("prefill_tok_s", millionths(rate), offset)
        elif int(tokens) >= MIN_TIMED_TOKENS:
            at, _ = line_time(buffer, offset, year)
            samples.put("decode_tok_s", millionths(rate), offset)
            samples.put_trend("decode_tok_s", millionths(rate), at)
    for match in matches(_DRAFT, b"draft acceptance", buffer):
        samples.put("accept_rate", millionths(match[1]), match.start())
        if match[2] is not None:
            samples.put("accept_len", millionths(match[2]), match.start())
    for match in matches(_REUSED, b"graphs reused = ", buffer):
        samples.put("graphs_reused", int(match[1]) * SCALE, match.start())
    samples.flush()


_ITERATION = rb"iter = \d{1,12}, ([^\n]{20,900})"
_FIELDS = (
    rb"(elapsed_time|host_step_time|prev_device_step_time|num_scheduled_requests|kv_cache_util)(?: = |: )<n>"
)
_STATES = rb"'num_(ctx_requests|generation_tokens)': (\d{1,9})"


def read_trtllm(buffer: bytes, store: SeriesStore, year: int | None) -> None:
    """TensorRT-LLM's iterations (``print_iter_log``). The decode rate is derived where nothing is prefilled."""
    samples = Samples(store)
    for match in matches(_ITERATION, b"iter = ", buffer):
        fields = {name: float(value) for name, value in pattern(_FIELDS).findall(match[1])}
        states = {name: int(value) for name, value in pattern(_STATES).findall(match[1])}
        offset = match.start()
        host, device = fields.get(b"host_step_time"), fields.get(b"prev_device_step_time")
        step = host if host is not None else fields.get(b"elapsed_time", 0.0) * 1000
        if not fields or step <= 0:
            continue
        store.engines.setdefault("tensorrt-llm", Mark(0, offset))
        running = int(fields.get(b"num_scheduled_requests", 0))
        samples.put("running_reqs", running * SCALE, offset)
        if host is None:
            samples.put("step_ms", round(step * SCALE), offset)
        else:
            samples.put("host_step_ms", round(host * SCALE), offset)
        if device is not None:
            samples.put("device_step_ms", round(device * SCALE), offset)
            if host is not None and device > 0:
                samples.put("host_device_ratio", round(host / device * SCALE), offset)
        if b"kv_cache_util" in fields:
            samples.put("kv_usage", round(fields[b"kv_cache_util"] * SCALE), offset)
        generated = states.get(b"generation_tokens", 0)
        if generated and states.get(b"ctx_requests") == 0:
            rate = round(generated * 1000 / step * SCALE)
            at, _ = line_time(buffer, offset, year)
            samples.put("decode_tok_s", rate, offset, running)
            samples.put_trend("decode_tok_s", rate, at)
    samples.flush()
