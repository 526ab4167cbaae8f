"""An inference server that emits tokens on a known schedule: the truth that the load generator is tested against.

Run as a program: ``python scheduled_server.py '{"ttft_s": 0.2, ...}'``; prints its port, serves until killed.
Chunk ``i`` of an answer leaves at ``received + ttft_s + i * gap_s``, whatever else goes on.
A prompt has one token per four bytes of text, and two of the template's own.
"""

import asyncio
import gzip
import json
import ssl
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

TEMPLATE_TOKENS = 2
STALL_S = 3600.0


@dataclass
class Schedule:
    """How the server speaks, and the fault it has."""

    engine: str = "plain"  # plain | sglang | vllm | llamacpp
    ttft_s: float = 0.1
    gap_s: float = 0.02
    tokens_per_chunk: int = 1
    text: str = "word "  # of one token
    fault: str = ""
    fault_from: int = 1  # the number of the first request that has it
    cached_tokens: int = 0
    stop_after: int = 0  # tokens; 0: as many as asked for
    accept_len: float = 0.0
    first_slow_s: float = 0.0  # added to the first requests for more than one token, as a JIT does
    first_slow: int = 0
    key: str = ""
    tls: str = ""  # a PEM file with key and certificate
    flags: dict[str, Any] | None = None


class Server:
    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.requests: list[dict[str, Any]] = []
        self.drafts = 0
        self.long = 0  # requests for more than one token

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, path, _ = head.split("\r\n", 1)[0].split(" ")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head.split("\r\n")[1:])}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        received = time.monotonic()
        s = self.schedule
        if s.key and headers.get("authorization") != f"Bearer {s.key}":
            return await _answer(writer, 401, {"error": {"message": "Invalid API key"}})
        if method == "GET":
            return await self._get(writer, path)
        if path not in ("/v1/completions", "/v1/chat/completions", "/generate") or s.fault == "404":
            return await _answer(writer, 404, {"detail": "Not Found"})
        request = json.loads(body)
        self.requests.append(request)
        if len(self.requests) < s.fault_from:
            s = replace(s, fault="")
        if s.fault == "strict" and (extra := {"ignore_eos", "min_tokens"} & request.keys()):
            return await _answer(writer, 422, {"detail": f"Unexpected fields in the request: {extra}"})
        if s.fault == "422":
            return await _answer(writer, 422, {"detail": "temperature must be at least 0.1"})
        if s.fault == "503":
            return await _answer(writer, 503, {"error": "Loading model"})
        return await self._stream(writer, path, request, received, s)

    async def _get(self, writer: asyncio.StreamWriter, path: str) -> bool:
        engine = self.schedule.engine
        if path == "/requests":
            return await _answer(writer, 200, self.requests)
        if path == "/v1/models" and self.schedule.fault != "no_models":
            return await _answer(writer, 200, {"data": [{"id": "tiny", "root": "/models/tiny"}]})
        if path == "/get_server_info" and engine == "sglang":
            info = {
                "version": "0.5.9",
                "tp_size": 8,
                "model_path": "/models/tiny",
                **(self.schedule.flags or {}),
            }
            state = {"avg_spec_accept_length": self.schedule.accept_len or None}
            return await _answer(writer, 200, {**info, "internal_states": [state]})
        if path == "/version" and engine == "vllm":
            return await _answer(writer, 200, {"version": "0.11.0"})
        if path == "/props" and engine == "llamacpp":
            return await _answer(writer, 200, {"build_info": "b6000-abc", "total_slots": 1})
        if path == "/metrics" and engine == "vllm" and self.schedule.accept_len:
            accepted = self.drafts * (self.schedule.accept_len - 1)
            lines = f'vllm:spec_decode_num_drafts_total{{engine="0"}} {self.drafts}\n'
            lines += f'vllm:spec_decode_num_accepted_tokens_total{{engine="0"}} {accepted}\n'
            return await _answer(writer, 200, lines)
        return await _answer(writer, 404, {"detail": "Not Found"})

    async def _stream(
        self, writer: asyncio.StreamWriter, path: str, request: dict[str, Any], received: float, s: Schedule
    ) -> bool:
        native = path == "/generate"
        options = request.get("sampling_params", request)
        wanted = options.get("max_new_tokens") or options["max_tokens"]
        total = min(s.stop_after or wanted, wanted)
        self.long += total > 1
        prompt = request.get("text") or request.get("prompt") or request["messages"][0]["content"]
        usage: dict[str, Any] = {
            "prompt_tokens": len(prompt.encode()) // 4 + TEMPLATE_TOKENS,
            "completion_tokens": total,
        }
        if s.cached_tokens:
            usage["prompt_tokens_details"] = {"cached_tokens": s.cached_tokens}
        pack = gzip.GzipFile(fileobj=(sink := _Sink()), mode="wb") if s.fault == "gzip" else None

        async def put(data: bytes) -> None:
            if pack:
                pack.write(data)
                pack.flush()
                data = sink.take()
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            await writer.drain()

        encoding = "Content-Encoding: gzip\r\n" if pack else ""
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
            + encoding.encode()
            + b"\r\n"
        )
        began = received + s.ttft_s + (s.first_slow_s if total > 1 and self.long <= s.first_slow else 0)
        chunks = -(-total // s.tokens_per_chunk)
        if path == "/v1/chat/completions":
            # As SGLang and vLLM do: the role comes at once and holds no token.
            await put(_event({"choices": [{"delta": {"role": "assistant", "content": ""}}]}))
        for number in range(chunks):
            leaves = began + number * s.gap_s if s.fault != "collapsed" else began + (chunks - 1) * s.gap_s
            await asyncio.sleep(max(leaves - time.monotonic(), 0))
            if number == chunks // 2:
                if s.fault == "cut":
                    writer.transport.abort()
                    return False
                if s.fault == "stall":
                    await asyncio.sleep(STALL_S)
                if s.fault == "500":
                    await put(_event({"error": {"message": "CUDA out of memory", "code": 500}}))
                    await put(b"")
                    return False
                if s.fault == "garbage":
                    await put(b"data: {not json\n\n")
            tokens = min(total - number * s.tokens_per_chunk, s.tokens_per_chunk)
            self.drafts += 1
            event = _event(self._chunk(path, tokens, number, usage, native))
            if s.fault == "split":
                # Cut inside a character of two bytes, and inside "data:".
                at = event.index(b"\xc3") + 1
                await put(event[:3])
                await put(event[3:at])
                await asyncio.sleep(0.001)
                await put(event[at:])
            else:
                await put(event)
        if not native and s.fault != "no_usage" and request.get("stream_options"):
            await put(_event({"choices": [], "usage": usage}))
        if s.fault != "no_done":
            await put(b"data: [DONE]\n\n")
        if pack:
            pack.close()
            rest = sink.take()
            writer.write(b"%x\r\n%b\r\n" % (len(rest), rest))
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    def _chunk(
        self, path: str, tokens: int, number: int, usage: dict[str, Any], native: bool
    ) -> dict[str, Any]:
        text = self.schedule.text * tokens
        if native:
            done = number * self.schedule.tokens_per_chunk + tokens
            meta = {**usage, "completion_tokens": done, "cached_tokens": self.schedule.cached_tokens}
            if self.schedule.accept_len:
                meta["spec_verify_ct"] = max(round(done / self.schedule.accept_len), 1)
            if done == usage["completion_tokens"]:
                meta["finish_reason"] = {"type": "length", "length": done}
            return {"text": self.schedule.text * done, "meta_info": meta}
        last = (number + 1) * self.schedule.tokens_per_chunk >= usage["completion_tokens"]
        end = {"index": 0, "finish_reason": "length" if last else None}
        if path == "/v1/completions":
            return {"id": "cmpl-1", "object": "text_completion", "choices": [{"text": text, **end}]}
        return {"object": "chat.completion.chunk", "choices": [{"delta": {"content": text}, **end}]}


class _Sink:
    def __init__(self) -> None:
        self._data = b""

    def write(self, data: bytes) -> int:
        self._data += data
        return len(data)

    def flush(self) -> None:
        pass

    def take(self) -> bytes:
        data, self._data = self._data, b""
        return data


def _event(data: Any) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


async def _answer(writer: asyncio.StreamWriter, status: int, data: Any) -> bool:
    body = data.encode() if isinstance(data, str) else json.dumps(data).encode()
    writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)
    await writer.drain()
    return True


async def serve(schedule: Schedule) -> None:
    tls = None
    if schedule.tls:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(schedule.tls)
    server = await asyncio.start_server(Server(schedule).connection, "127.0.0.1", 0, backlog=512, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(Schedule(**json.loads(sys.argv[1]))))
