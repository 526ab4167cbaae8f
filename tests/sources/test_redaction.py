"""Secrets are masked in place; what only looks like one stays."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from diagnoser.parsers.fields import read_value
from diagnoser.sources.redaction import LITERALS, find, find_naively, redact
from diagnoser.sources.secrets import kind_of

# Put together here, so that no scanner takes this file for a leak.
ALNUM = "aB3" * 20
TOKENS = [
    "hf_" + ALNUM[:34],
    "sk-" + ALNUM[:48],
    "sk-proj-" + ALNUM[:40],
    "sk-ant-api03-" + ALNUM[:40] + "-" + ALNUM[:20],
    "AKIA" + "IOSFODNN7EXAMPLE",
    "ASIA" + "IOSFODNN7EXAMPLE",
    "ghp_" + ALNUM[:36],
    "gho_" + ALNUM[:36],
    "github_pat_" + ALNUM[:22] + "_" + ALNUM[:40],
    "glpat-" + ALNUM[:20],
    "xoxb-" + "123456789012-" + ALNUM[:24],
    "AIza" + ALNUM[:35],
    "nvapi-" + ALNUM[:50],
    "sk_live_" + ALNUM[:24],
    "hvs." + ALNUM[:90],
    "dop_v1_" + "0123456789abcdef" * 4,
    "r8_" + ALNUM[:37],
    "pplx-" + ALNUM[:48],
    "xai-" + ALNUM + ALNUM[:20],
    "SG." + ALNUM[:22] + "." + ALNUM[:43],
    "glsa_" + ALNUM[:32] + "_a1b2c3d4",
    "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxIn0." + ALNUM[:30],
]
SECRET = "Tr0ub4dor"
NAMED = [
    "--api-key {}",
    "--api-key={} --port 1",
    "--hf-token {}",
    "['--api-key', '{}', '--port', '1']",
    "api_key='{}', admin_api_key=None",
    "admin_api_key='{}'",
    "ssl_keyfile_password='{}'",
    '"api_key": "{}"',
    '{{"log": "\\"api_key\\": \\"{}\\""}}',
    "api_key=SecretStr('{}')",
    "api_key=['{}']",
    "'api_key': b'{}'",
    "password={}",
    "      MY_PASSWORD:                          {}",
    "      HF_TOKEN:              {}  (from secret)",
    "Cookie: session={}; theme=dark",
    "Set-Cookie: sid={}; Path=/; HttpOnly",
    "curl -sS -u admin:{} https://gpu-07:30000/health",
    "curl --user 'admin:{}' https://gpu-07:30000/health",
    "docker login registry.example -u robot -p {}",
    "podman login --username robot --password {} registry.example",
    "machine git.example login robot password {}",
    "machine git.example\n  login robot\n  password {}\n",
    "mysql -u root -p{} metrics",
    "MYSQL_PWD={} mysqldump metrics",
    "Server=db;Uid=app;DbPwd={};",
    "--api-key {}",
    "Password: {}",
    "passwd={}",
    "token={}",
    "'token': '{}'",
    "secret={}",
    "clientSecret: {}",
    "accessToken: '{}'",
    "API key: {}",
    "X-Api-Key: {}",
    "X-Auth-Token: {}",
    "Authorization: Bearer {}",
    "authorization: Basic {}=",
    "-H 'Authorization: {}'",
    "curl -H 'Bearer {}'",
    "[(b'host', b'gpu-07'), (b'authorization', b'Bearer {}')]",
    "[(b'x-api-key', b'{}'), (b'accept', b'*/*')]",
    "aws_secret_access_key = {}/x+y",
    "export WANDB_API_KEY={}",
    "HUGGING_FACE_HUB_TOKEN={}",
    "HF_TOKEN: {}",
    "-e FOO_SECRET={}",
    "DB_PASSWORD='{}'",
    'os.environ["HF_TOKEN"] = "{}"',
    "https://user:{}@registry.example/v2",
    "redis://:{}@10.0.0.7:6379/0",
    "https://host.example/path?token={}&page=2",
    "- name: HF_TOKEN\n  value: {}",
    '{{"name":"HF_TOKEN","value":"{}"}}',
    '"auth": "{}=="',
]
STAYS = [
    "Decode batch, #running-req: 1, #token: 77, token usage: 0.00, cuda graph: True, gen throughput (token/s): 83.90",
    "Prefill batch, #new-seq: 1, #new-token: 24, #cached-token: 0, #full token: 5, #pending-token: 0",
    "tokens=128 max_total_num_tokens=159744 num_tokens=5 tokenizer_path='/models/kimi' eos_token_id=2",
    "--max-tokens 100 --tokenizer-mode auto --num-draft-tokens 4 --api-key None",
    "api_key=None, admin_api_key=None, ssl_keyfile=None, ssl_keyfile_password=None",
    "bos_token='<s>' eos_token='</s>' pad_token=None stop_token='[STOP]' image_token='<image>' token='<|im_end|>'",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b, model deepseek-ai/DeepSeek-V3.1, sha256:9f86d081884c7d65",
    "GPU 0: NVIDIA H200 (UUID: GPU-12345678-1234-1234-1234-123456789012) at 10.0.0.7",
    "usage: launch_server.py [--api-key API_KEY] [--hf-token HF_TOKEN] [--ssl-keyfile-password SSL_KEYFILE_PASSWORD]",
    "launch_server.py: error: argument --api-key: expected one argument",
    "def __init__(self, token: str, password: Optional[str] = None, api_key=self.api_key, token=token):",
    "Invalid token: expected a string, got int; Authorization failed; Bearer authentication is off",
    "KeyError: 'weight' for sort_key=abc cache_key=3f78 key='value'",
    "tiktoken==0.14.0 sentencepiece==0.2.0 tokenizers==0.22.1 hf_transfer==0.1.9",
    "disk-usage task-runner-for-the-night-shift risk-assessment-of-the-launch",
    "api_key=$VLLM_API_KEY token=${HF_TOKEN} --hf-token $HF_TOKEN",
    "init_method='tcp://10.0.0.1:29500' listening on http://0.0.0.0:8000 git@github.com:a/b.git user@host",
    "time_per_output_token=0.011 per_token: 12 first_token: 0.5 max_new_tokens: 7",
    "password=**** hf_***** token=''",
    "cwd: PWD=/workspace/sglang OLDPWD=/root pwd=/srv",
    "docker run --rm -u 1000:1000 -p 30000:30000 lmsysorg/sglang",
    "ssh -p 2222 gpu-07; mysqld started; curl -s http://gpu-07:30000/health -o out.json",
    "Chocolate cookie: a prompt about nothing".replace("cookie:", "cookie"),
    "digest sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 layer 3f786850e387",
    "req chatcmpl-9f86d081884c7d659a2feaa0c55ad015, cmpl-3f786850e387550fdab836ed7e6dc881, MIG-12345678-1234",
    "PASSED test_passes, 3 passed; compass=north; keyboard=us; monkey=1",
]


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize(
    "frame", ["{}", "got {} here", "x={},", "'{}'", "https://h/?q={}&r=1", "(pid=1) {}\nnext"]
)
def test_tokens_with_a_known_beginning(token: str, frame: str) -> None:
    check(frame.format(token), token[-15:])


@pytest.mark.parametrize("frame", NAMED)
def test_values_with_a_telling_name(frame: str) -> None:
    check(frame.format(SECRET), SECRET)


def check(text: str, secret: str) -> None:
    data = bytearray(text.encode())
    assert redact(data) == 1
    assert secret.encode() not in data
    assert len(data) == len(text)
    masked, before = data.decode(), text
    assert all(new in (old, "*") for new, old in zip(masked, before, strict=True))
    assert redact(data) == 0


def test_every_value_of_a_flag_with_several() -> None:
    data = bytearray(
        b"vllm serve m --api-key first1secret2 second1secret2 --port 8000 qwen-2 llama3-instruct"
    )
    redact(data)
    assert data == b"vllm serve m --api-key ************* ************** --port 8000 qwen-2 llama3-instruct"


def test_a_secret_behind_an_escape_is_masked_when_the_escape_is_undone() -> None:
    hidden = "'hf\\x5f" + ALNUM[:34] + "'"
    assert ALNUM[:20] not in str(read_value(hidden))


@pytest.mark.parametrize("line", STAYS)
def test_what_is_no_secret_stays(line: str) -> None:
    data = bytearray(line.encode())
    assert redact(data) == 0
    assert data == line.encode()


def test_real_logs_hold_no_secret(fixtures: Path) -> None:
    for path in sorted((fixtures / "captures").rglob("*.log")):
        data = bytearray(path.read_bytes())
        assert redact(data) == 0, path


def test_several_on_one_line_and_numbers_as_passwords() -> None:
    data = bytearray(b"password=12345 api_key='a', token=\"b\"; secret=c&x=1 max_tokens=7")
    assert redact(data) == 4
    assert data == b"password=***** api_key='*', token=\"*\"; secret=*&x=1 max_tokens=7"


def test_a_quoted_value_is_masked_to_its_end() -> None:
    data = bytearray(b"""password='it has "blanks", commas and an escape \\' too' next""")
    assert redact(data) == 1
    assert re.fullmatch(rb"password='\*+' next", data)


KEY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
BEGIN, END = "-----BEGIN RSA " + "PRIVATE KEY-----", "-----END RSA " + "PRIVATE KEY-----"


@pytest.mark.parametrize("prefix", ["", "[2026-02-27 15:17:28] ", "(EngineCore pid=7) "])
@pytest.mark.parametrize("cut", ["none", "begin", "end"])
def test_private_keys_with_prefixes_and_cut_by_a_chunk(prefix: str, cut: str) -> None:
    lines = ["before the key", BEGIN, KEY, KEY, KEY[:20], END, "[2026-02-27 15:17:29] after the key"]
    lines = lines[2:] if cut == "begin" else lines[:4] if cut == "end" else lines
    data = bytearray("\n".join(prefix + line for line in lines).encode())
    size, ends = len(data), data.count(b"\n")
    assert redact(data) > 0
    assert KEY[:20].encode() not in data
    assert (len(data), data.count(b"\n")) == (size, ends)
    if cut != "end":
        assert data.endswith(b"after the key")
    if cut != "begin":
        assert b"before the key" in data
    assert redact(data) == 0


def test_a_private_key_in_a_string_with_spelled_out_line_ends() -> None:
    data = bytearray(f'{{"key": "{BEGIN}\\n{KEY}\\n{KEY}\\n{END}\\n", "port": 30000}}'.encode())
    redact(data)
    assert b"MIIE" not in data
    assert data.endswith(b', "port": 30000}')


def test_hits_from_outside_are_enough() -> None:
    text = f"a\npassword={SECRET}\nb\ntoken={SECRET}\n".encode()
    assert redact(bytearray(text), []) == 0
    for at in (text.index(b"password"), text.index(b"=") + 1, text.index(b"dor") + 3):
        data = bytearray(text)
        assert redact(data, [at]) == 1
        assert data.startswith(b"a\npassword=*********\nb\ntoken=Tr0")
    everything = bytearray(text)
    assert redact(everything, find_naively(text)) == redact(bytearray(text)) == 2


PARTS = st.sampled_from(
    [
        *(literal.decode() for literal in LITERALS),
        *TOKENS,
        *(
            "=",
            ": ",
            "'",
            '"',
            "\\",
            "\n",
            " ",
            "--",
            "[",
            "]",
            "name: ",
            "value: ",
            "x",
            "1",
            "None",
            "*",
            "é",
        ),
        *("://", "a:b@c", "Bearer ", "Authorization: ", BEGIN, END, KEY),
    ]
)
COMPANY = st.lists(PARTS.filter(lambda part: part not in (*TOKENS, KEY)), max_size=6).map("".join)


@given(st.lists(PARTS, max_size=25).map("".join))
@example("token=[token=")
def test_masking_keeps_every_place(text: str) -> None:
    raw = text.encode()
    data = bytearray(raw)
    redact(data)
    assert len(data) == len(raw)
    assert [i for i, byte in enumerate(data) if byte == 10] == [i for i, byte in enumerate(raw) if byte == 10]
    assert all(data[i] in (raw[i], ord("*")) for i in range(len(raw)))
    with_hits = bytearray(raw)
    redact(with_hits, find_naively(raw))
    assert with_hits == data


@given(st.lists(PARTS, max_size=25).map("".join))
def test_the_fast_search_finds_what_the_slow_one_finds(text: str) -> None:
    raw = text.encode()
    lines = {raw.rfind(b"\n", 0, hit) for hit in find(raw)}
    assert lines == {raw.rfind(b"\n", 0, hit) for hit in find_naively(raw)}


@given(
    st.sampled_from(TOKENS),
    st.lists(PARTS.filter(lambda part: part not in (*TOKENS, KEY)), max_size=6).map("".join),
)
def test_a_token_is_found_in_any_company(token: str, company: str) -> None:
    data = bytearray(f"{company}\n[2026] got {token} at last\n{company}".encode())
    redact(data)
    assert token[-15:].encode() not in data


@given(st.binary(max_size=300), st.lists(st.integers(-5, 400), max_size=5))
def test_no_bytes_and_no_hits_raise(raw: bytes, hits: list[int]) -> None:
    redact(bytearray(raw), hits, addresses=True)
    redact(bytearray(raw), addresses=True)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (b"api_key", "key"),
        (b"apiKey", "key"),
        (b"NCCL_KEY", "key"),
        (b"sort_key", None),
        (b"ssl_keyfile_password", "password"),
        (b"first_pass", None),
        (b"DB_PASS", "password"),
        (b"hf_token", "token"),
        (b"accessToken", "token"),
        (b"eos_token", None),
        (b"tiktoken", None),
        (b"tokens", None),
    ],
)
def test_kinds_of_names(name: bytes, kind: str | None) -> None:
    assert kind_of(name) == kind


def test_addresses_are_masked_on_request_only() -> None:
    text = (
        b"http://gpu-07.corp.example:8000/v1 from 10.1.2.3:52718 via fe80::42:acff:fe11:2 and 02:42:ac:11:00:02\n"
        b"UUID: GPU-12345678-1234-1234-1234-123456789012\n"
    )
    stays = (
        b"Uvicorn running on http://127.0.0.1:30000, http://0.0.0.0:8000, http://localhost:8000 and ::1\n"
        b"https://huggingface.co/meta-llama nvidia-cudnn-cu12==9.1.0.70\nnvidia-cublas-cu12      12.4.5.8\n"
        b"[2026-02-27 02:33:17] 00000000:1B:00.0 c10::Error at::detail driver 580.159.04 NCCL 2.27.5\n"
    )
    data = bytearray(text + stays)
    assert redact(bytearray(data)) == 0
    assert redact(data, addresses=True) == 5
    for secret in (b"gpu-07", b"10.1", b"fe80", b"02:42", b"12345678"):
        assert secret not in data
    assert data.endswith(stays)
    assert len(data) == len(text + stays)
    assert redact(data, addresses=True) == 0


def test_literals_do_not_stand_in_metric_lines() -> None:
    for line in STAYS[:2]:
        assert find_naively(line.encode()) == []


HOSTILE = (
    *(b"a" * 300_000, b"token=" * 50_000, b'token="' * 40_000, b"token=[ " * 40_000, b"eyJ" * 100_000),
    *(b"://a:" * 60_000 + b"@", b"password=" + b"x," * 150_000, b"api_key=[" * 30_000, b"Bearer " * 40_000),
    *(
        BEGIN.encode() * 10_000,
        END.encode() * 10_000,
        b"name: a value: " * 20_000,
        b"@" * 300_000,
        b"1:" * 150_000,
    ),
)


@pytest.mark.parametrize("line", HOSTILE, ids=lambda line: repr(line[:12]))
def test_no_line_runs_away(line: bytes) -> None:
    start = time.process_time()
    redact(bytearray(line + b" password=x"), addresses=True)
    assert time.process_time() - start < 5  # 300 kB; measured below 1
