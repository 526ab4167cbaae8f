"""JSON objects that describe a server or a model: SGLang's /server_info and a model's config.json.

    {"model_path": "/models/kimi", "attention_backend": "triton", ..., "version": "0.5.9"}
    -> Engine("sglang", "0.5.9"), ServerArg("attention_backend", "triton"), ...
    {"architectures": ["KimiK25ForConditionalGeneration"], "quantization_config": {"quant_method": "..."}, ...}
    -> Model(architecture="KimiK25ForConditionalGeneration", attention="mla", ...)

Formats: sglang 0.4.6 to 0.5.23 http_server.py (get_server_info), transformers' configuration files.
"""

import json
from collections.abc import Iterator
from typing import Any

from diagnoser.facts.base import Found
from diagnoser.facts.engine import Engine, Model, ServerArg
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.model_class import model_of

MAX_LINES = 4000
MAX_TEXT = 400_000
_VALUES = (str, int, float, bool, type(None))


def _extent(lines: Lines, i: int) -> range | None:
    """From the line that opens the object to the one that closes it, both without indentation."""
    first = i
    while first > 0 and i - first < MAX_LINES and not lines[first].startswith("{"):
        first -= 1
    if not lines[first].startswith("{"):
        return None
    if lines[first].rstrip().endswith("}"):
        return range(first, first + 1)
    last = max(i, first + 1)
    while last < len(lines) and last - first < MAX_LINES and not lines[last].startswith("}"):
        last += 1
    return range(first, last + 1) if last < len(lines) and lines[last].startswith("}") else None


def _object(lines: Lines) -> dict[str, Any]:
    text = "\n".join(lines)
    if len(text) > MAX_TEXT:
        return {}
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _server_info(lines: Lines, _i: int) -> Iterator[Found]:
    said = _object(lines)
    last = len(lines) - 1
    if "model_path" not in said or "tp_size" not in said:
        return
    version = said.get("version")
    yield Found(Engine(name="sglang", version=version if isinstance(version, str) else None), 0, last)
    for name, value in said.items():
        if (
            name != "version"
            and isinstance(value, _VALUES)
            and not (isinstance(value, str) and len(value) > 2000)
        ):
            yield Found(ServerArg(name=name, value=value), 0, last)


def _config(lines: Lines, _i: int) -> Iterator[Found]:
    said = _object(lines)
    names = said.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        return
    quantization = said.get("quantization_config")
    method = quantization.get("quant_method") if isinstance(quantization, dict) else None
    dtype = said.get("torch_dtype", said.get("dtype"))
    model: Model = model_of(
        names[0][:200],
        dtype if isinstance(dtype, str) else None,
        method if isinstance(method, str) else None,
    )
    yield Found(model, 0, len(lines) - 1)


PARSERS = (
    Parser("server_info", ('"tp_size":',), _server_info, _extent, "server info"),
    Parser("config_json", ('"architectures":',), _config, _extent, "model config"),
)
