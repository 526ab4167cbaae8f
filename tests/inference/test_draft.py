"""A draft of any line loads, is clean, and passes its own tests."""

from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diagnoser.facts.registry import kinds
from diagnoser.inference.catalog import Catalog
from diagnoser.inference.draft import MAX_LINE, DraftError, draft, said_by
from diagnoser.inference.generalise import MAX_WORDING, WordingError, wording
from diagnoser.inference.ruletest import run_tests
from diagnoser.rulebook import template
from diagnoser.rulebook.compile import CAPTURE_TYPES
from diagnoser.rulebook.lint import lint
from diagnoser.rulebook.models import Cause

LINES = {
    "sglang": "[2026-12-01 02:11:43 TP0] Ignore import error when loading sglang.srt.models.midashenglm: No module 'torchaudio'",
    "vllm": "(EngineCore pid=28035) ERROR 12-01 02:17:20 [core.py:906] EngineCore failed after 12.5 s: out of slots",
    "llama.cpp": "0.00.004.318 E cmn  common_init_: failed to load model 'models/none.gguf'",
    "python warning": "/opt/llm/lib/python3.11/site-packages/vllm/triton_utils/dispatcher.py:138: FutureWarning: `torch.distributed.reduce_op` is deprecated",
    "glog": "W1201 02:01:49.386000 17766 torch/utils/cpp_extension.py:140] No CUDA runtime is found, using CUDA_HOME='/usr/local'",
    "address and grouped number": "RuntimeError: operation not permitted on address 0x7f3a1c000000 (was 1,234,567 bytes)",
    "quotes, braces, comment": """ValueError: {'type': 'foo', "bar": [1, 2]} is not: a valid 'config' # comment""",
    "backslashes": r"C:\Users\me\models\llama.gguf: cannot open 'file' \n with code 0x80070005",
    "path": "FileNotFoundError: [Errno 2] No such file or directory: '/models/Qwen/Qwen3-8B/config.json'",
    "path before a colon": "NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:219, unhandled, NCCL version 2.21.5",
    "tabs": "\ttabs\tbetween\twords\tin\ta\trow\t77",
    "unicode": "Fehler: Gerät „GPU 3“ wurde nicht gefunden – Übertemperatur 93 °C",
    "japanese": "エラー：メモリ不足です。要求 1024 MiB",
    "yaml signs": """%YAML: - & * ! | > ' " % @ ` start of line with specials: yes""",
    "list sign": r"- [x] item: 'unbalanced quote and backslash \n \t \\",
    "template signs": "<|im_start|> token <id:int> not in vocabulary <name>",
    "logfmt": 'time=2026-02-27T15:31:04.123Z level=WARN source=server.go:12 msg="model runner stopped <nil>" pid=99',
    "json": '{"timestamp":"2026-02-27T15:31:04Z","level":"ERROR","fields":{"message":"Shard 0 failed: oom"},"target":"text_generation_launcher"}',
    "kernel": "[12345.678901] NVRM: GPU at PCI:0000:3b:00 lost power in slot 4",
    "colours": "\x1b[31m[2026-02-27 15:31:04] The flux capacitor lost 12 jigawatts\x1b[0m",
    "docker": '{"log":"[2026-02-27 15:31:04] The flux capacitor lost 12 jigawatts\\n","stream":"stderr","time":"2026-02-27T15:31:04.5Z"}',
    "very long": "RuntimeError: " + "very long thing " * 400 + "end 42",
    "one long word": "x" * 5000,
    "many numbers": "sizes of all the buffers in bytes: "
    + " ".join(str(number) for number in range(100, 160)),
}


def checked(text: str, folder: Path) -> Cause:
    """The draft as a rule, after lint and its own tests."""
    (folder / "draft.yaml").write_text(text, "utf-8")
    assert [str(problem) for problem in lint([folder], kinds())] == []
    result = run_tests([folder])
    assert (result.ran, [str(failure) for failure in result.failures]) == (2, [])
    return Cause.model_validate(yaml.safe_load(text))


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_a_draft_loads_is_clean_and_passes_its_tests(line: str, tmp_path: Path) -> None:
    rule = checked(draft(line), tmp_path)
    assert rule.status == "experimental"
    assert rule.severity == "info"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (LINES["vllm"], "EngineCore failed after <number1:float> s: out of slots"),
        (LINES["address and grouped number"], "RuntimeError: operation not permitted on address <address1:name> (was <int2:int> bytes)"),
        (LINES["path"], "FileNotFoundError: [Errno <int1:int>] No such file or directory: '<path2>'"),
        (LINES["python warning"], "FutureWarning: `torch.distributed.reduce_op` is deprecated"),
        (LINES["template signs"], r"\<|im_start|> token \<id:int> not in vocabulary \<name>"),
        ("Loading H100 weights of fp8 model at sm_120, 10ms left", "Loading H100 weights of fp8 model at sm_120, <int1:int>ms left"),
        ("listening on 10.0.0.17:30000 for torch 2.9.1+cu128", "listening on <version1:name>:<int2:int> for torch <version3:name>"),
    ],
)  # fmt: skip
def test_what_varies_becomes_a_capture(line: str, said: str) -> None:
    assert Cause.model_validate(yaml.safe_load(draft(line))).messages[0].wordings[0].text == said


def test_the_engine_and_the_level_come_from_the_prefix(tmp_path: Path) -> None:
    vllm = checked(draft(LINES["vllm"]), tmp_path)
    assert vllm.applies == {"vllm": "*"}
    assert vllm.messages[0].id.startswith("vllm.")
    assert vllm.messages[0].level == "error"
    assert Cause.model_validate(yaml.safe_load(draft(LINES["llama.cpp"]))).applies == {"llama.cpp": "*"}
    assert Cause.model_validate(yaml.safe_load(draft(LINES["path"]))).applies == {}


def test_the_same_text_with_other_values_is_found(tmp_path: Path) -> None:
    text = draft("[2026-02-27 15:31:04] The flux capacitor lost 12 jigawatts on /dev/flux/3 at 0x7f")
    written = yaml.safe_load(text)
    written["tests"] = [
        {
            "name": "others",
            "log": ">! The flux capacitor lost 9,876 jigawatts on /dev/a/b/c at 0xffee",
            "fires": True,
        },
        {
            "name": "none",
            "log": "The flux capacitor lost many jigawatts on /dev/a/b/c at 0xffee",
            "fires": False,
        },
    ]
    checked(yaml.safe_dump(written), tmp_path)


def test_secrets_never_get_into_a_draft(tmp_path: Path) -> None:
    secret = "hf_abcdefghijklmnopqrstuvwxyz123456"
    text = draft(f"HF_TOKEN={secret} was rejected by the gateway")
    assert secret not in text
    assert "hf_" not in text
    assert (
        checked(text, tmp_path).messages[0].wordings[0].text
        == "HF_TOKEN=<secret1> was rejected by the gateway"
    )


def test_a_long_line_gives_a_short_wording() -> None:
    for line in (LINES["very long"], LINES["one long word"], LINES["many numbers"]):
        rule = Cause.model_validate(yaml.safe_load(draft(line)))
        assert len(rule.messages[0].wordings[0].text or "") <= MAX_WORDING + 200
        assert len(rule.tests[0].log) <= MAX_LINE + 10


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "empty"),
        (" \t ", "empty"),
        ("(APIServer pid=25365) INFO 12-01 01:36:59 [api_utils.py:347] ", "empty"),
        ("12345 67890 11 22 33", "no fixed text"),
        ("           ^^^^^^^^^^^^^^^^^^^^^", "no fixed text"),
        ("  0%|          | 0/6 [00:00<?, ?it/s]", "no fixed text"),
        ("| 0  NVIDIA H200   On | 00000000:17:00.0 Off | 0 |", "part of a table"),
    ],
)
def test_what_no_message_can_say_is_refused_with_the_reason(line: str, why: str) -> None:
    with pytest.raises(DraftError, match=why):
        draft(line)


@pytest.mark.parametrize("identifier", ["Not An Id", "a: b", "x\nseverity: high", "-a", "a" * 100, "ä"])
def test_a_wrong_id_is_refused(identifier: str) -> None:
    with pytest.raises(DraftError, match="is no id"):
        draft(LINES["path"], identifier)


def test_ids_that_are_taken_are_not_taken_again() -> None:
    line = "The flux capacitor lost 12 jigawatts"
    first = yaml.safe_load(draft(line))["id"]
    second = yaml.safe_load(draft(line, taken={first}))["id"]
    assert (first, second) == ("the-flux-capacitor-lost-jigawatts", "the-flux-capacitor-lost-jigawatts-2")
    assert yaml.safe_load(draft(line, taken={first, second}))["id"].endswith("-3")


def test_a_line_that_is_known_names_its_message(catalog: Catalog) -> None:
    line = "[2026-02-27 15:31:04] Attention backend not specified. Use triton backend by default."
    assert said_by(line, catalog) == ["sglang.attention-default"]
    assert said_by("The flux capacitor lost 12 jigawatts", catalog) == []


@given(text=st.text(max_size=120) | st.text("ab <>:'\"{}[]\\0.9/,#%-|`*&!\t", max_size=80))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_gives_a_draft_that_loads_or_a_reason(text: str, tmp_path: Path) -> None:
    with suppress(DraftError):
        checked(draft(text), tmp_path)


@given(st.text(max_size=60))
def test_a_wording_is_well_formed(text: str) -> None:
    with suppress(WordingError):
        assert template.parse(wording(text), CAPTURE_TYPES)
