"""Which server answers: engine, version, model, flags; and its own count of accepted drafts."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import httpcore

from diagnoser.experiment.load.client import Client, UnusableError
from diagnoser.sources.redaction import redact

_METRIC_PREFIXES = (
    ("vllm:", "vllm"),
    ("sglang:", "sglang"),
    ("llamacpp:", "llama.cpp"),
    ("tgi_", "tgi"),
)
_DRAFTS = re.compile(
    r"^vllm:spec_decode_num_(drafts|accepted_tokens)(?:_total)?(?:\{[^\n]*\})? ([0-9.eE+]+)$", re.M
)
_INNER = ("internal_states", "scheduler_info")
"""Parts of SGLang's answer that are state and no flag."""


@dataclass
class Server:
    """What the server says of itself; None where it says nothing."""

    engine: str | None = None
    version: str | None = None
    model: str | None = None
    flags: dict[str, str | int | float | bool | None] = field(default_factory=dict)


async def identify(client: Client, model: str | None = None) -> Server:
    """Ask the server who it is, and set ``client.model``; ``model`` picks one of several.

    Raises `UnusableError` when nothing answers, a key is wanted, or the model is not served.
    """
    try:
        status, text = await client.get("/v1/models")
    except httpcore.TimeoutException as error:
        raise UnusableError(
            f"{client.url}: no answer within 10 s; is this the right host and port?"
        ) from error
    except (httpcore.NetworkError, httpcore.ProtocolError, OSError, ValueError) as error:
        raise UnusableError(
            f"{client.url}: no server answers there ({error or 'connection closed'})"
        ) from error
    if status in (401, 403):
        raise UnusableError(f"{client.url}: HTTP {status}: the server wants a key; set DIAGNOSER_API_KEY")
    server = Server()
    served = _models(text) if status == 200 else {}
    if model is not None and served and model not in served:
        raise UnusableError(
            f"{client.url}: no model {model!r} there; served: {', '.join(sorted(served))[:300]}"
        )
    server.model = client.model = model or next(iter(served), None)
    await _engine(client, server)
    return server


def _models(text: str) -> dict[str, Any]:
    data = _json(text)
    entries = data.get("data") if isinstance(data, dict) else None
    return {
        entry["id"]: entry
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("id"), str)
    }


async def _engine(client: Client, server: Server) -> None:
    for path in ("/server_info", "/get_server_info"):
        info = await _get(client, path)
        if isinstance(info, dict) and "model_path" in info:
            server.engine, server.version = "sglang", _text(info.get("version"))
            server.flags = _flags(info)
            server.model = server.model or _text(info.get("served_model_name"))
            return
    props = await _get(client, "/props")
    if isinstance(props, dict) and "build_info" in props:
        server.engine, server.version = "llama.cpp", _text(props["build_info"])
        return
    metrics = await _metrics(client)
    server.engine = next(
        (engine for prefix, engine in _METRIC_PREFIXES if f"\n{prefix}" in f"\n{metrics}"), None
    )
    told = await _get(client, "/version")
    if isinstance(told, dict):
        # The path is vLLM's; others answer it with other words.
        server.version = _text(told.get("version"))
        server.engine = server.engine or ("vllm" if server.version and told.keys() == {"version"} else None)


def _flags(info: dict[str, Any]) -> dict[str, str | int | float | bool | None]:
    return {
        key: value
        if isinstance(value, str | int | float | bool | None)
        else json.dumps(value, sort_keys=True)
        for key, value in sorted(info.items())
        if key not in (*_INNER, "version")
    }


async def accepted_drafts(client: Client) -> tuple[float, float] | None:
    """vLLM's counters (drafts, accepted draft tokens) since its start; None where it keeps none."""
    totals = {"drafts": 0.0, "accepted_tokens": 0.0}
    found = _DRAFTS.findall(await _metrics(client))
    for name, value in found:
        totals[name] += float(value)
    return (totals["drafts"], totals["accepted_tokens"]) if found else None


async def _metrics(client: Client) -> str:
    try:
        status, text = await client.get("/metrics")
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, ValueError):
        return ""
    return text if status == 200 else ""


async def _get(client: Client, path: str) -> Any:
    try:
        status, text = await client.get(path)
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, ValueError):
        return None
    return _json(text) if status == 200 else None


def _json(text: str) -> Any:
    # Flags hold keys; a mask has the length of what it hides, so the text stays JSON.
    hidden = bytearray(text.encode())
    redact(hidden)
    try:
        return json.loads(hidden)
    except (ValueError, RecursionError):
        return None


def _text(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) and value else None
