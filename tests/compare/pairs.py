"""Pairs of logs with known causes between them and many differences that mean nothing, composed by seed.

    python -m tests.compare.pairs        # writes fixtures/pairs/composed anew

The logs are real (SGLang on one H200) or in the exact format of a release (vLLM 0.11.0); what is changed in them are
the lines and values that the cause changes (knowledge of SGLang 0.5.17 and vLLM 0.11.0), the speeds, and noise.
"""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import zstandard

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
COMPOSED = FIXTURES / "pairs" / "composed"
SEEDS = range(20)
SGLANG = (FIXTURES / "captures" / "sglang_h200" / "healthy-0.5.17.log").read_text()
VLLM = (FIXTURES / "vllm" / "01_healthy_start_v0.11.0_h100_tp2.log").read_text()
SMI = (FIXTURES / "captures" / "h200" / "busy" / "q.txt").read_text()
PACKAGES = (FIXTURES / "captures" / "h200" / "host" / "pip_list.txt").read_text()
HARMLESS_PACKAGES = (
    "requests",
    "urllib3",
    "certifi",
    "idna",
    "attrs",
    "packaging",
    "six",
    "rich",
    "Pygments",
    "psutil",
    "tqdm",
    "click",
    "filelock",
    "fsspec",
    "httpx",
    "Jinja2",
    "MarkupSafe",
    "orjson",
    "pytz",
    "PyYAML",
    "regex",
    "setuptools",
    "typing_extensions",
    "uvicorn",
    "fastapi",
    "starlette",
)


class Pair(NamedTuple):
    """Both texts, the rules that came with the later one, and how many harmless differences lie between."""

    before: str
    after: str
    causes: frozenset[str]
    harmless: int
    factor: float


class Injection(NamedTuple):
    """A cause put into a log: its rule, what the speed becomes, and the edit."""

    rule: str
    factor: float
    edit: Callable[[str], str]


def _set(name: str, value: str) -> Callable[[str], str]:
    """Another value of an option in SGLang's server_args."""

    def edit(text: str) -> str:
        changed, count = re.subn(rf"\b{name}=(?:'[^']*'|[^,)]*)", f"{name}={value}", text, count=1)
        assert count == 1, name
        return changed

    return edit


def _asked(name: str, value: str) -> Callable[[str], str]:
    """A further option among vLLM's non-default arguments."""

    def edit(text: str) -> str:
        assert "non-default args: {" in text
        return text.replace("non-default args: {", f"non-default args: {{'{name}': {value}, ", 1)

    return edit


def _eager(text: str) -> str:
    text = _asked("enforce_eager", "True")(text).replace("enforce_eager=False", "enforce_eager=True")
    return "\n".join(line for line in text.split("\n") if "apturing" not in line)


def _no_prefix_cache(text: str) -> str:
    changed = _asked("enable_prefix_caching", "False")(text)
    return changed.replace("enable_prefix_caching=True", "enable_prefix_caching=False")


def _no_graph(text: str) -> str:
    text = _set("disable_cuda_graph", "True")(text).replace("cuda graph: True", "cuda graph: False")
    return "\n".join(
        line for line in text.split("\n") if "Capture cuda graph" not in line and "Capturing" not in line
    )


def _triton(text: str) -> str:
    text = _set("attention_backend", "'triton'")(text)
    return "\n".join(line for line in text.split("\n") if "Attention backend not specified" not in line)


def _capped(text: str) -> str:
    """The busy H200 held to 400 W: the limit, the draw and the clock that a lower limit gives."""
    edited = text.replace(
        "Current Power Limit                            : 700.00 W",
        f"Current Power Limit{' ' * 28}: 400.00 W",
    )
    edited = re.sub(r"(Average Power Draw +: )69\d\.\d+", r"\g<1>398.20", edited)
    edited = re.sub(r"(Instantaneous Power Draw +: )69\d\.\d+", r"\g<1>399.70", edited)
    edited = edited.replace(
        "SM                                             : 1440 MHz", f"SM{' ' * 45}: 1020 MHz"
    )
    assert edited != text
    return edited


POWER = Injection("power-cap", 0.93, _capped)

RADIX = Injection("radix-cache-off-by-flag", 0.97, _set("disable_radix_cache", "True"))
CHUNKS = Injection("chunked-prefill-off", 0.95, _set("chunked_prefill_size", "-1"))

SGLANG_CAUSES = (
    RADIX,
    CHUNKS,
    Injection("attn-backend-slower-than-default", 0.6, _triton),
    Injection("cuda-graph-off", 0.4, _no_graph),
    Injection("overlap-off-by-flag", 0.9, _set("disable_overlap_schedule", "True")),
    POWER,
)
VLLM_CAUSES = (
    Injection("enforce-eager", 0.6, _eager),
    Injection("prefix-cache-off", 0.95, _no_prefix_cache),
    POWER,
)

Harmless = Callable[[random.Random, str], str]


def _renamed(name: str, values: Callable[[random.Random], str]) -> Harmless:
    def edit(chance: random.Random, text: str) -> str:
        return re.sub(rf"\b{name}=(?:'[^']*'|[^,)]*)", lambda _: f"{name}={values(chance)}", text, count=1)

    return edit


def _shifted(chance: random.Random, text: str) -> str:
    """Another day and hour."""
    day, hour = chance.randrange(10, 28), chance.randrange(10, 20)
    text = re.sub(r"2026-\d\d-\d\d \d\d:", f"2026-11-{day} {hour}:", text)
    return re.sub(r"\b02-27 15:", f"11-{day} {hour}:", text)


def _jittered(pattern: str, share: float) -> Harmless:
    """Numbers behind a word, moved by a few percent."""

    def edit(chance: random.Random, text: str) -> str:
        def moved(found: re.Match[str]) -> str:
            digits = len(found[2].partition(".")[2])
            return f"{found[1]}{float(found[2]) * (1 + chance.uniform(-share, share)):.{digits}f}"

        return re.sub(pattern, moved, text)

    return edit


def _updated(name: str) -> Harmless:
    """A package of another version that no server's speed hangs on."""

    def edit(chance: random.Random, text: str) -> str:
        version = f"{chance.randrange(1, 9)}.{chance.randrange(30)}"
        return re.sub(rf"(?m)^({name} +)\d[\w.]*", lambda found: f"{found[1]}{version}", text)

    return edit


def _said(line: str) -> Harmless:
    """A further line that looks bad and is known to mean nothing, behind the first line of the log."""

    def edit(_: random.Random, text: str) -> str:
        head, end, rest = text.partition("\n")
        stamp = head.partition("]")[0] + "]" if head.startswith("[") else ""
        return f"{head}{end}{stamp} {line}{end}{rest}"

    return edit


UPDATES: tuple[Harmless, ...] = tuple(map(_updated, HARMLESS_PACKAGES))
SGLANG_NOISE: tuple[Harmless, ...] = (
    _said(
        "DeepGemm is enabled but the scale_fmt of checkpoint is not ue8m0. "
        "This might cause accuracy degradation on Blackwell."
    ),
    _shifted,
    *UPDATES,
    _jittered(r"(GPU Current Temp +: )(\d+)", 0.05),
    _jittered(r"(Memory Current Temp +: )(\d+)", 0.05),
    _renamed("random_seed", lambda chance: str(chance.randrange(10**9))),
    _renamed("port", lambda chance: str(chance.randrange(20000, 40000))),
    _renamed("host", lambda chance: f"'10.0.0.{chance.randrange(256)}'"),
    _renamed("nccl_port", lambda chance: str(chance.randrange(20000, 40000))),
    _renamed("served_model_name", lambda chance: f"'m{chance.randrange(99)}'"),
    _renamed("log_level", lambda chance: chance.choice(["'info'", "'debug'"])),
    _renamed("watchdog_timeout", lambda chance: str(chance.choice([300, 600]))),
    _renamed("dist_init_addr", lambda chance: f"'10.0.0.{chance.randrange(256)}:5000'"),
    _renamed("decode_log_interval", lambda chance: str(chance.choice([40, 50]))),
    _renamed("enable_metrics", lambda chance: chance.choice(["True", "False"])),
    _renamed("crash_dump_folder", lambda chance: f"'/var/crash/{chance.randrange(99)}'"),
    _jittered(r"(avail mem=)(\d+\.\d+)", 0.004),
    _jittered(r"(elapsed=)(\d+\.\d+)", 0.1),
    _jittered(r"(#tokens: )(\d+)", 0.003),
    _jittered(r"(max_total_num_tokens=)(\d+)", 0.003),
    _jittered(r"(pid=)(\d+)", 0.3),
    _jittered(r"(server process \[)(\d+)", 0.3),
)
VLLM_NOISE: tuple[Harmless, ...] = (
    _shifted,
    *UPDATES,
    _jittered(r"(pid=)(\d+)", 0.3),
    _jittered(r"(took )(\d+\.\d+)(?= seconds)", 0.05),
    _jittered(r"(Available KV cache memory: )(\d+\.\d+)", 0.004),
    _jittered(r"(Maximum concurrency for 16,384 tokens per request: )(\d+\.\d+)", 0.01),
    _jittered(r"(server process \[)(\d+)", 0.3),
    _jittered(r"(transform time: )(\d+\.\d+)", 0.05),
    _jittered(r"(10\.0\.0\.9:)(\d+)", 0.1),
    lambda _, text: _asked("port", "8123")(text),
)


def _speed(text: str, factor: float, chance: random.Random) -> str:
    """Every decode speed times a factor, with the scatter of lines."""

    def moved(found: re.Match[str]) -> str:
        return f"{found[1]}{float(found[2]) * factor * (1 + chance.gauss(0, 0.003)):.2f}"

    text = re.sub(r"(gen throughput \(token/s\): )(\d+\.\d+)", moved, text)
    return re.sub(r"(Avg generation throughput: )(\d+\.\d+)", moved, text)


def compose(seed: int) -> Pair:
    """The pair of a seed: 1 to 3 causes of SGLang or vLLM, and 5 to 40 differences that mean nothing."""
    chance = random.Random(seed)
    vllm = seed % 5 == 4
    base, known, noise = (VLLM, VLLM_CAUSES, VLLM_NOISE) if vllm else (SGLANG, SGLANG_CAUSES, SGLANG_NOISE)
    base = f"{base}\n{SMI}\n{PACKAGES}"
    chosen = chance.sample(known, chance.randint(1, min(3, len(known))))
    factor = 1.0
    after = base
    for one in chosen:
        after, factor = one.edit(after), factor * one.factor
    harmless = 0
    wanted = chance.randint(5, min(40, len(noise)))
    for edit in chance.sample(noise, len(noise)):
        edited = edit(chance, after)
        harmless += edited != after
        after = edited
        if harmless == wanted:
            break
    before = _speed(base, 1.0, chance)
    return Pair(
        before, _speed(after, factor, chance), frozenset(one.rule for one in chosen), harmless, factor
    )


def write() -> None:
    """Write every pair with its truth."""
    packer = zstandard.ZstdCompressor(level=19)
    for seed in SEEDS:
        pair, folder = compose(seed), COMPOSED / f"{seed:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "before.log.zst").write_bytes(packer.compress(pair.before.encode()))
        (folder / "after.log.zst").write_bytes(packer.compress(pair.after.encode()))
        truth = {"causes": sorted(pair.causes), "harmless": pair.harmless, "factor": round(pair.factor, 4)}
        (folder / "truth.json").write_text(json.dumps(truth) + "\n")


if __name__ == "__main__":
    write()
