"""Webhooks against a real server: what arrives, signatures as the public library checks them, patience and its end."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook

from diagnoser.agent.post import ATTEMPTS, PostError, Secrets, post

STORY = Path(__file__).resolve().parents[2] / "fixtures" / "story" / "step6-triton-default.log"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Receiver:
    """A server that answers with the given codes, one after the other, then 204, and keeps what came."""

    def __init__(self, codes: list[int], headers: dict[str, str]) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append(({name.lower(): value for name, value in self.headers.items()}, data))
                code = codes.pop(0) if codes else 204
                self.send_response(code)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if code != 204:
                    self.wfile.write(b"no thanks\nsecond line")

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook/T0KEN"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


Start = Callable[..., Receiver]


@pytest.fixture
def receiver() -> Iterator[Start]:
    started: list[Receiver] = []

    def start(*codes: int, **headers: str) -> Receiver:
        started.append(
            Receiver(list(codes), {name.replace("_", "-"): value for name, value in headers.items()})
        )
        return started[-1]

    yield start
    for one in started:
        one.server.shutdown()
        one.server.server_close()


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-m", "diagnoser", *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip


def test_the_answer_arrives_signed(receiver: Start) -> None:
    there = receiver()
    shown = run(
        str(STORY), "--post", there.url,
        DIAGNOSER_POST_SECRET=SECRET, DIAGNOSER_POST_AUTHORIZATION="Bearer abc",
    )  # fmt: skip
    assert shown.returncode == 1, shown.stderr
    assert "Triton" in shown.stdout
    ((headers, data),) = there.got
    assert Webhook(SECRET).verify(data, headers)["schema"] == "diagnoser/diagnosis/1"
    assert headers["authorization"] == "Bearer abc"
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert headers["user-agent"].startswith("diagnoser/")
    with pytest.raises(Exception, match="match"):
        Webhook(SECRET).verify(data + b" ", headers)


@pytest.mark.parametrize(
    ("outlet", "media"),
    [("slack", "application/json"), ("github", "application/json"), ("junit", "application/xml"), ("sarif", "application/sarif+json")],
)  # fmt: skip
def test_every_outlet_can_be_sent(receiver: Start, outlet: str, media: str) -> None:
    there = receiver()
    assert run(str(STORY), "-f", outlet, "--post", there.url).returncode == 1
    ((headers, data),) = there.got
    assert headers["content-type"].startswith(media)
    assert b"triton-attn-default-sm120" in data


def test_patience_where_it_is_asked_for(receiver: Start) -> None:
    there = receiver(503, 429, Retry_After="0")
    assert post(there.url, "{}", "application/json", Secrets(SECRET), wait_s=0.01) == 204
    assert len(there.got) == 3
    # The receiver can tell the second attempt of one message from a second message.
    assert len({headers["webhook-id"] for headers, _ in there.got}) == 1


def test_patience_ends(receiver: Start) -> None:
    there = receiver(*[500] * 10)
    with pytest.raises(PostError, match=r"answered 500: no thanks$"):
        post(there.url, "{}", "application/json", Secrets(), wait_s=0.01)
    assert len(there.got) == ATTEMPTS


@pytest.mark.parametrize("code", [301, 400, 401, 404])
def test_what_will_not_change_is_not_tried_again(receiver: Start, code: int) -> None:
    there = receiver(code, Location="http://127.0.0.1:1/")
    with pytest.raises(PostError, match=str(code)):
        post(there.url, "{}", "application/json", Secrets(), wait_s=0.01)
    assert len(there.got) == 1


def test_a_failed_delivery_is_one_sentence_without_the_token(receiver: Start) -> None:
    there = receiver(403)
    shown = run(str(STORY), "--post", there.url)
    assert shown.returncode == 2
    assert "Triton" in shown.stdout  # the answer is there all the same
    assert "403: no thanks" in shown.stderr
    assert "T0KEN" not in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--post", "ftp://x/"], "http or https"),
        (["--post", "http://me:pw@x/"], "DIAGNOSER_POST_AUTHORIZATION"),
        (["--post", "http://[::1"], "http or https"),
        (["--post", "http://x/", "-f", "markdown"], "markdown"),
        (["--post", "http://x/", "--baseline", str(STORY)], "--baseline"),
        (["--host", "a", "--host", "b", "-f", "sarif"], "several hosts"),
    ],
)
def test_wrong_calls_are_told_before_anything_is_read(arguments: list[str], sentence: str) -> None:
    shown = run(str(STORY), *arguments)
    assert shown.returncode == 2
    assert sentence in shown.stderr
    assert "pw" not in shown.stderr.replace("DIAGNOSER", "")
    assert shown.stdout == ""


def test_pagerduty_needs_its_key(receiver: Start) -> None:
    there = receiver()
    assert "PAGERDUTY_ROUTING_KEY" in run(str(STORY), "-f", "pagerduty", "--post", there.url).stderr
    assert there.got == []
    assert run(str(STORY), "-f", "pagerduty", "--post", there.url, PAGERDUTY_ROUTING_KEY="k").returncode == 1
    assert json.loads(there.got[0][1])["routing_key"] == "k"
