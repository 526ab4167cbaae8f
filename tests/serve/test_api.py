"""The REST API against a real server: answers, refusals, limits, and visitors that behave badly."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
STORY = FIXTURES / "story" / "step6-triton-default.log"
PLAIN = {"content-type": "text/plain"}

Serve = Callable[..., str]


def test_a_paste_gives_the_diagnosis_of_the_command_line(serve: Serve) -> None:
    answer = httpx.post(f"{serve()}/api/diagnose", content=STORY.read_bytes(), headers=PLAIN, timeout=60)
    assert answer.status_code == 200
    found = answer.json()
    first = found["findings"][0]
    assert (found["schema"], first["rule"]) == ("diagnoser/diagnosis/1", "triton-attn-default-sm120")
    assert first["evidence"][0]["document"] == "paste"
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_files_keep_their_names_and_lead_nowhere_else(serve: Serve) -> None:
    smi = FIXTURES / "story" / "step4-clean-gpus.txt"
    files = [("files", ("../../etc/server.log", STORY.read_bytes())), ("files", ("smi.txt", smi.read_bytes())),
             ("files", ("-f.log", b"nothing\n"))]  # fmt: skip
    answer = httpx.post(f"{serve()}/api/diagnose", files=files, timeout=60)
    assert {one["document"] for one in answer.json()["coverage"]} >= {"server.log", "smi.txt"}


def test_the_answer_streams_in(serve: Serve) -> None:
    url = f"{serve()}/api/diagnose/stream"
    with httpx.stream("POST", url, content=STORY.read_bytes(), headers=PLAIN, timeout=60) as answer:
        text = answer.read().decode()
    names = [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]
    assert names == ["working", "diagnosis"]
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert json.loads(data[0])["bytes"] == STORY.stat().st_size
    assert json.loads(data[1])["findings"][0]["rule"] == "triton-attn-default-sm120"


def test_the_postmortem_can_be_downloaded(serve: Serve) -> None:
    url = serve()
    page = httpx.post(f"{url}/api/report?format=html", content=STORY.read_bytes(), headers=PLAIN, timeout=60)
    assert page.headers["content-disposition"] == 'attachment; filename="incident.html"'
    assert "Postmortem: Attention of an MLA model" in page.text
    wrong = httpx.post(f"{url}/api/report?format=pdf", content=b"x", headers=PLAIN, timeout=60)
    assert wrong.status_code == 422


def test_an_alert_comes_in_and_its_cause_goes_out(serve: Serve) -> None:
    line = (FIXTURES / "captures" / "sglang_h200" / "memory.log").read_text().splitlines()
    alert = {"status": "firing", "fingerprint": "a1", "labels": {"alertname": "Down"},
             "annotations": {"log": "\n".join(line)}}  # fmt: skip
    given = {"version": "4", "status": "firing", "alerts": [alert, {"fingerprint": "a2"}]}
    answer = httpx.post(f"{serve()}/api/alertmanager", json=given, timeout=60).json()
    first, second = answer["alerts"]
    assert (first["fingerprint"], first["rule"]) == ("a1", "cuda-oom")
    assert second["error"] == "the alert has no annotation to read"


def test_strangers_are_sent_away(serve: Serve) -> None:
    url = serve(token="secret")
    ask = f"{url}/api/diagnose"
    assert httpx.post(ask, content=b"x", headers=PLAIN).status_code == 401
    assert (
        httpx.post(ask, content=b"x", headers={**PLAIN, "authorization": "Bearer wrong"}).status_code == 401
    )
    right = {**PLAIN, "authorization": "Bearer secret"}
    assert httpx.post(ask, content=STORY.read_bytes(), headers=right, timeout=60).status_code == 200
    assert httpx.get(url).status_code == 200  # the page itself, which asks for the token
    assert httpx.post(ask, content=b"x", headers={**right, "host": "evil.example"}).status_code == 421
    assert (
        httpx.post(ask, content=b"x", headers={**right, "origin": "http://evil.example"}).status_code == 403
    )


def test_what_cannot_be_read_is_one_sentence(serve: Serve) -> None:
    url = f"{serve()}/api/diagnose"
    assert httpx.post(url, content=b"", headers=PLAIN).status_code == 400
    broken = httpx.post(url, content=b"--x", headers={"content-type": "multipart/form-data; boundary=y"})
    assert broken.status_code == 400
    none = httpx.post(url, content=b"x", headers={"content-type": "multipart/form-data"})
    assert none.status_code == 400
    binary = httpx.post(url, files=[("files", ("x.gz", b"\x1f\x8b broken"))], timeout=60)
    assert binary.status_code == 422
    assert "x.gz" in binary.json()["error"] or "read" in binary.json()["error"]


def test_a_body_over_the_limit_told_or_not(serve: Serve) -> None:
    url = f"{serve(bytes=1000)}/api/diagnose"
    assert httpx.post(url, content=b"x" * 1001, headers=PLAIN).status_code == 413
    untold = httpx.post(url, content=iter([b"x" * 600, b"x" * 600]), headers=PLAIN)
    assert untold.status_code == 413


def test_a_client_that_stalls_is_let_go_and_others_are_served(serve: Serve) -> None:
    url = serve(silence=1.0)
    port = int(url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(
            b"POST /api/diagnose HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nabc"
        )
        began = time.monotonic()
        assert httpx.get(f"{url}/health").status_code == 200
        slow.settimeout(10)
        assert b"408" in slow.recv(200)
        assert time.monotonic() - began < 8


def test_a_diagnosis_that_takes_too_long_is_stopped(serve: Serve) -> None:
    answer = httpx.post(
        f"{serve(seconds=0.05)}/api/diagnose", content=STORY.read_bytes(), headers=PLAIN, timeout=60
    )
    assert answer.status_code == 504


def test_nothing_is_kept(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    httpx.post(f"{serve()}/api/diagnose", content=STORY.read_bytes(), headers=PLAIN, timeout=60)
    assert list(tmp_path.iterdir()) == []


def test_a_line_that_is_full_turns_away_and_keeps_working(serve: Serve) -> None:
    url = f"{serve(at_once=1, waiting=1)}/api/diagnose"

    async def crowd() -> list[int]:
        async with httpx.AsyncClient(timeout=120) as client:
            asked = [client.post(url, content=STORY.read_bytes(), headers=PLAIN) for _ in range(6)]
            return [answer.status_code for answer in await asyncio.gather(*asked)]

    codes = asyncio.run(crowd())
    assert set(codes) == {200, 429}
    assert httpx.post(url, content=STORY.read_bytes(), headers=PLAIN, timeout=60).status_code == 200


@pytest.mark.slow
def test_a_hundred_pastes_of_a_megabyte_at_the_same_time(serve: Serve) -> None:
    url = f"{serve()}/api/diagnose"
    text = STORY.read_bytes()
    paste = text + text[-700:] * 1400

    async def crowd() -> list[httpx.Response]:
        async with httpx.AsyncClient(timeout=600, limits=httpx.Limits(max_connections=100)) as client:
            return await asyncio.gather(*(client.post(url, content=paste, headers=PLAIN) for _ in range(100)))

    answers = asyncio.run(crowd())
    assert [answer.status_code for answer in answers] == [200] * 100
    assert {answer.json()["findings"][0]["rule"] for answer in answers} == {"triton-attn-default-sm120"}


def test_on_the_command_line_a_token_is_made_up_where_one_is_needed() -> None:
    command = [sys.executable, "-m", "diagnoser", "serve", "--bind", "0.0.0.0", "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if name != "DIAGNOSER_TOKEN"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        token = process.stderr.readline().removeprefix("token: ").strip()
        address = process.stderr.readline().split("/  ")[0].replace("0.0.0.0", "127.0.0.1")
        try:
            assert len(token) > 20
            for _ in range(100):
                try:
                    refused = httpx.post(f"{address}/api/diagnose", content=b"x", headers=PLAIN)
                    break
                except httpx.ConnectError:
                    time.sleep(0.1)
            assert refused.status_code == 401
            answer = httpx.post(f"{address}/api/diagnose", content=STORY.read_bytes(), timeout=60,
                                headers={**PLAIN, "authorization": f"Bearer {token}"})  # fmt: skip
            assert answer.status_code == 200
        finally:
            process.terminate()
