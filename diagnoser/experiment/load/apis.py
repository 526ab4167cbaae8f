"""The three ways of asking for a streamed answer: what is sent, and what an event of the answer says."""

from dataclasses import dataclass
from typing import Any, Literal

Api = Literal["completions", "chat", "generate"]
CountedBy = Literal["usage", "meta_info", "timings"]
PATHS: dict[Api, str] = {
    "completions": "/v1/completions",
    "chat": "/v1/chat/completions",
    "generate": "/generate",
}

OPTIONAL = ("ignore_eos", "min_tokens", "min_new_tokens", "stream_options", "top_p", "seed")
"""Left out one by one when a server refuses them: `transformers serve` answers 422 to ``ignore_eos``."""


@dataclass(slots=True)
class Said:
    """What one event of a stream says; None where it says nothing."""

    progress: bool = False  # it belongs to the generated text, be that visible or not
    text: str = ""
    cumulative: bool = False  # the text is the whole answer so far
    finished: bool = False
    prompt_tokens: int | None = None
    output_tokens: int | None = None  # so far, or of the whole answer when the event is the last
    cached_tokens: int | None = None
    accept_len: float | None = None
    counted_by: CountedBy | None = None
    error: str = ""


def payload(
    api: Api, model: str | None, prompt: str, tokens: int, refused: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """The request for exactly ``tokens`` output tokens, greedy, streamed, less the ``refused`` options."""
    sampling: dict[str, Any] = {"temperature": 0.0, "top_p": 1.0, "ignore_eos": True}
    body: dict[str, Any] = {"stream": True}
    if api == "generate":
        sampling |= {"max_new_tokens": tokens, "min_new_tokens": tokens}
        body |= {"text": prompt, "sampling_params": _without(sampling, refused)}
        return _without(body, refused)
    body |= sampling | {"max_tokens": tokens, "min_tokens": tokens, "seed": 0}
    if model is not None:
        body["model"] = model
    body |= {"stream_options": {"include_usage": True}}
    if api == "chat":
        body["messages"] = [{"role": "user", "content": prompt}]
    else:
        body["prompt"] = prompt
    return _without(body, refused)


def _without(body: dict[str, Any], refused: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in refused}


def said(api: Api, event: Any) -> Said:
    """Read one event. Raises `ValueError` when it is not an object of the API."""
    if not isinstance(event, dict):
        raise ValueError("an event of the stream is not a JSON object")
    if event.get("error"):
        return Said(error=_message(event["error"]))
    return _native(event) if api == "generate" else _openai(event)


def _openai(event: dict[str, Any]) -> Said:
    out = Said()
    choices = event.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        choice = choices[0]
        out.progress = True
        delta = choice.get("delta")
        if isinstance(delta, dict):
            # A model that thinks sends its thoughts under either of these names; they are tokens like others.
            parts = (delta.get("reasoning_content") or delta.get("reasoning"), delta.get("content"))
            out.text = "".join(part for part in parts if isinstance(part, str))
        elif isinstance(choice.get("text"), str):
            out.text = choice["text"]
        out.finished = bool(choice.get("finish_reason"))
    usage, timings = event.get("usage"), event.get("timings")
    if isinstance(usage, dict):
        details = usage.get("prompt_tokens_details")
        out.prompt_tokens = _count(usage.get("prompt_tokens"))
        out.output_tokens = _count(usage.get("completion_tokens"))
        out.cached_tokens = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
        out.counted_by = "usage"
    elif isinstance(timings, dict) and "predicted_n" in timings:
        # llama.cpp: prompt_n holds the evaluated tokens only, cache_n the rest.
        out.cached_tokens = _count(timings.get("cache_n"))
        evaluated = _count(timings.get("prompt_n"))
        out.prompt_tokens = None if evaluated is None else evaluated + (out.cached_tokens or 0)
        out.output_tokens = _count(timings.get("predicted_n"))
        out.counted_by = "timings"
    return out


def _native(event: dict[str, Any]) -> Said:
    out = Said(cumulative=True, progress=isinstance(event.get("text"), str))
    if isinstance(event.get("text"), str):
        out.text = event["text"]
    meta = event.get("meta_info")
    if isinstance(meta, dict):
        out.prompt_tokens = _count(meta.get("prompt_tokens"))
        out.output_tokens = _count(meta.get("completion_tokens"))
        out.cached_tokens = _count(meta.get("cached_tokens"))
        out.counted_by = "meta_info"
        reason = meta.get("finish_reason")
        out.finished = bool(reason)
        if isinstance(reason, dict) and reason.get("type") == "abort":
            out.error = _message(reason)
        verified = _count(meta.get("spec_verify_ct"))
        if verified and out.output_tokens:
            out.accept_len = out.output_tokens / verified
    return out


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40 else None


def _message(error: Any) -> str:
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error
    return " ".join(str(error).split())[:300]
