"""Command lines that start an engine: at a prompt, in a script, in ``docker run``, in ``ps``, in a log.

$ CUDA_VISIBLE_DEVICES=0 python -m sglang.launch_server --model-path /m --attention-backend triton --tp 8
docker run --gpus all -e HF_HOME=/hf vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B --enforce-eager
"""

import re
import shlex
from collections.abc import Iterator

from diagnoser.facts.base import Fact, Found
from diagnoser.facts.engine import Engine, EnvVar, Scalar, ServerArg
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.environment import assignment
from diagnoser.parsers.fields import Field, flatten
from diagnoser.parsers.model_class import model_at
from diagnoser.parsers.prefix import read_prefix

MAX_LINES = 80
MAX_COMMAND = 16_384

_PYTHON = r"python[\d.]{0,6}\s{1,4}(?:-[uOB]\s{1,4}){0,2}-m\s{1,4}"
_PROGRAM = lazy(
    r"(?<![\w.\-])(?:"
    rf"(?P<sglang>{_PYTHON}sglang\.launch_server|sglang\s{{1,4}}serve)|"
    rf"(?P<vllm>{_PYTHON}vllm\.entrypoints\.(?:openai\.)?api_server|vllm\s{{1,4}}serve|"
    r"vllm/vllm-openai(?::[\w.\-]{1,100})?)|"
    r"(?P<trtllm>trtllm-serve(?:\s{1,4}serve)?)|"
    r"(?P<llamacpp>llama-server)|(?P<tgi>text-generation-launcher)|(?P<ollama>ollama\s{1,4}runner)"
    r")(?=\s|$)"
)
_ENGINES = {"trtllm": "tensorrt-llm", "llamacpp": "llama.cpp"}
_IMAGE_TAG = lazy(
    r"(?:vllm/vllm-openai|lmsysorg/sglang):v?(\d{1,3}\.\d{1,4}\.[\w.]{1,20})(?:-[\w.\-]{1,60})?(?=\s|$)"
)
_POSITIONAL = {"vllm": "model", "tensorrt-llm": "model", "sglang": "model_path"}
_MODEL = ("model", "model_path", "model_id")

_ALIASES: dict[str, dict[str, str]] = {
    "sglang": {
        "model": "model_path",
        "tp": "tp_size",
        "tensor_parallel_size": "tp_size",
        "dp": "dp_size",
        "data_parallel_size": "dp_size",
        "pp": "pp_size",
        "pipeline_parallel_size": "pp_size",
        "ep": "ep_size",
        "expert_parallel_size": "ep_size",
        "fp8_gemm_backend": "fp8_gemm_runner_backend",
        "fp4_gemm_backend": "fp4_gemm_runner_backend",
        "speculative_algo": "speculative_algorithm",
    },
    "vllm": {
        "model_tag": "model",
        "tp": "tensor_parallel_size",
        "pp": "pipeline_parallel_size",
        "dp": "data_parallel_size",
        "q": "quantization",
        "O": "optimization_level",
        "cc": "compilation_config",
    },
    "tensorrt-llm": {"tp": "tp_size", "pp": "pp_size", "ep": "ep_size"},
    "llama.cpp": {
        "m": "model",
        "ngl": "n_gpu_layers",
        "gpu_layers": "n_gpu_layers",
        "c": "ctx_size",
        "fa": "flash_attn",
        "t": "threads",
        "np": "parallel",
        "b": "batch_size",
        "ub": "ubatch_size",
        "ctk": "cache_type_k",
        "ctv": "cache_type_v",
        "ts": "tensor_split",
        "sm": "split_mode",
        "mg": "main_gpu",
        "md": "model_draft",
        "nkvo": "no_kv_offload",
    },
    "tgi": {},
    "ollama": {},
}
"""How the same option is called in the engine's own dump of its arguments."""

_FLAG = lazy(r"--?[A-Za-z][\w.\-]{0,80}(?:=|\Z)")
_SWITCH = lazy(
    r"(?:enable|disable|no|skip|log|use|allow|trust|enforce|return|show)_|(?:host_only|mlock|embedding|metrics|jinja)\Z"
)
_BOOLEAN = {"true": True, "false": False, "1": True, "0": False}
_END = lazy(r"\s(?:&&|\|\|?|;|[12&]?>{1,2}|&)(?:\s|\Z|&|/)|;\s|#\s")
_ARRAY = lazy(r"""["'](?:-m|serve|--?[A-Za-z][\w\-]{0,60})["'] {0,4},""")
_ARRAY_MARKS = lazy(r"""[\[\],"']""")
_CMD_FIELD = lazy(r' cmd="([^"]{1,4000})"')
_SECRET = lazy(r"(?:^|_)(?:key|token|secret|password|credentials?)$", re.I)
_PS = lazy(r"\s{0,4}[\w.+\-]{1,32}\s{1,8}\d{1,9}\s{1,8}[\d.]{1,6}\s{1,8}[\d.]{1,6}\s{1,8}\d")
_LEADING = lazy(
    r"(?:sudo|nohup|exec|time|env|docker|podman|run|numactl|taskset|srun|mpirun|mpiexec|bash|sh|-c|setsid|stdbuf|nice|"
    r"uv|nsys|profile|(?:command|cmd|entrypoint|args|executing|running|launch_command):?|[+$#>%;]|&&)\Z",
    re.I,
)
_OPTION = lazy(r"--?\w")
_NOT_PROSE = lazy(r".*[/$@=\\]|[^A-Za-z]+\Z|\([\w.\-]+\)\Z")


def parse(lines: Lines, i: int) -> Iterator[Found]:
    """The engine, its options (asked=True), its model and the variables in front of it."""
    text, last = _joined(lines, i)
    for fact in _command(text):
        yield Found(fact, i, last)


def _joined(lines: Lines, i: int) -> tuple[str, int]:
    """The line with those that a backslash at its end continues it by."""
    parts: list[str] = []
    size = 0
    for k in range(i, min(len(lines), i + MAX_LINES)):
        line = lines[k][: MAX_COMMAND - size].rstrip()
        size += len(line)
        if not line.endswith("\\"):
            parts.append(line)
            return " ".join(parts), k
        parts.append(line[:-1])
    return " ".join(parts), min(len(lines), i + MAX_LINES) - 1


def _command(text: str) -> Iterator[Fact]:
    if _ARRAY.search(text):
        text = _ARRAY_MARKS.sub(" ", text)
    quoted = _CMD_FIELD.search(text)
    if quoted is not None:
        text = quoted[1]
    program = _PROGRAM.search(text)
    if program is None:
        return
    before = read_prefix(text[: program.start()]).message
    if not _at_command_position(before):
        return
    end = _END.search(text, program.end())
    words = _words(text[program.end() : end.start() if end else len(text)])
    group = program.lastgroup or ""
    engine = _ENGINES.get(group, group)
    options = list(_options(words, engine))
    if not options or any(word[:1] in "<[`" for word in words):
        return
    tag = _IMAGE_TAG.search(text[: program.end()])
    yield Engine.model_validate({"name": engine, "version": tag[1] if tag else None})
    asked = None if engine == "ollama" else True
    for name, value in options:
        if _SECRET.search(name):
            continue
        yield ServerArg(name=name, value=value, asked=asked)
        if name in _MODEL and isinstance(value, str):
            yield model_at(value)
    for word in _words(before):
        pair = assignment(word)
        if pair is not None:
            yield EnvVar(name=pair[0], value=pair[1])


def _at_command_position(before: str) -> bool:
    """Can what stands in front of a program be a prompt, variables, wrappers, a path, or ps's columns?"""
    if _PS.match(before):
        return True
    earlier = False
    for word in before.split():
        plain = word.strip("\"'")
        if plain and not (_LEADING.match(plain) or _OPTION.match(word) or earlier or _NOT_PROSE.match(word)):
            return False
        earlier = word.startswith("-")
    return True


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return [word.strip("\"'") for word in text.split()]


def _options(words: list[str], engine: str) -> Iterator[tuple[str, Scalar]]:
    aliases = _ALIASES[engine]
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not _FLAG.match(word):
            if at == 1 and engine in _POSITIONAL and word:
                yield _POSITIONAL[engine], word
            continue
        name, has_value, value = word.lstrip("-").partition("=")
        name = name.replace("-", "_")
        if engine == "vllm" and name[:1] == "O" and name[1:].isdigit():
            yield "optimization_level", int(name[1:])
            continue
        name = aliases.get(name, name)
        if has_value:
            yield from flatten(iter([Field(name, value)]))
            continue
        values = []
        while at < len(words) and not _FLAG.match(words[at]):
            values.append(words[at])
            at += 1
            if _SWITCH.match(name):
                break
        yield from _option(name, values, engine)


def _option(name: str, values: list[str], engine: str) -> Iterator[tuple[str, Scalar]]:
    if not values:
        negated = engine == "vllm" and name.startswith("no_")
        yield (name[3:], False) if negated else (name, True)
    elif _SWITCH.match(name) and values[0].lower() not in _BOOLEAN:
        # A switch takes no value, so this word is something else: vLLM's model may stand anywhere.
        yield name, True
        if engine == "vllm" and "/" in values[0]:
            yield "model", values[0]
    elif _SWITCH.match(name):
        yield name, _BOOLEAN[values[0].lower()]
    else:
        yield from flatten(iter([Field(name, " ".join(values))]))


COMMAND = Parser(
    "command",
    (
        "sglang.launch_server",
        "sglang serve",
        "vllm serve",
        "vllm.entrypoints",
        "vllm/vllm-openai",
        "trtllm-serve",
        "llama-server",
        "text-generation-launcher",
        "ollama runner",
    ),
    parse,
)
