"""The catalogue: every rule once, every link leads somewhere, and the words say what the rule file says."""

import re
from pathlib import Path

import pytest

from diagnoser.facts.registry import kinds
from diagnoser.report.catalogue import MARK, catalogue
from diagnoser.rulebook.book import builtin_folder
from diagnoser.rulebook.compile import compile_pack
from diagnoser.rulebook.load import load

MESSAGES = r"""
- id: sglang.one
  wordings:
    - {until: 0.4.9, text: 'Use <backend> of `old` kind'}
    - {since: 0.5.0, until: 0.5.5, text: 'Use the <backend> of | new kind'}
    - {since: 0.5.7, pattern: 'Use no [a-z]{1,9} at all', literal: 'Use no '}
  gives: {fact: attention_backend, name: <backend>}
- id: plain.two
  wordings: [{text: 'The second thing was said'}]
"""
RULE = """
id: one-rule
title: Runs on <b>*Triton*</b> [here](there)
kind: cause
effect: decode_slower
severity: low
severity_if:
  - {when: {fact: server_arg, name: tp_size, value: {ge: 4}}, severity: critical}
applies: {sglang: ">=0.5,<0.6", gpu: {arch: [sm90, sm100, sm120]}}
when:
  any:
    - {message: sglang.one, backend: [triton, fa3], times: ">=3", within: 10m}
    - {sequence: [{message: plain.two}, {message: sglang.one}], within: 90s}
    - {after: {message: plain.two}, absent: {message: sglang.one}, within: 2h}
  none:
    - {fact: gpu, under_load: true, reasons: null}
strength: weak
explains: [two-rule, throughput_lower]
why: The __reason__ is plain.
gain: {metric: decode_tok_s, change: +10.4%, where: 8 GPUs, source: sgl-project/sglang#7}
fixes:
  - {set_flag: --attention-backend, value: flashinfer, risk: low, note: install it first}
  - {do: wait for *it*, risk: none, undo: stop waiting, when: {message: plain.two}}
ask: {question: Which GPU is it?, command: nvidia-smi -L}
references: [sglang 0.5.9 server_args.py:1835]
"""
SECOND = """
id: two-rule
title: The second
kind: symptom
effect: throughput_lower
severity: info
when: {all: [{message: plain.two}]}
excludes: [one-rule]
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("rules")
    for name, text in {
        "a/messages.yaml": MESSAGES,
        "a/one-rule.yaml": RULE,
        "b/two-rule.yaml": SECOND,
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return pages_of(folder)


def pages_of(folder: Path) -> dict[str, str]:
    loaded = load([folder])
    pack, problems = compile_pack(loaded, kinds())
    assert problems == []
    return catalogue(loaded, pack)


@pytest.fixture(scope="module")
def built_in() -> dict[str, str]:
    return pages_of(builtin_folder())


def test_a_page_per_pack_an_index_and_the_facts(small: dict[str, str]) -> None:
    assert list(small) == ["a.md", "b.md", "facts.md", "index.md"]
    assert all(text.startswith(MARK) and text.endswith("\n") for text in small.values())
    assert "1 cause, 1 symptom, 0 bystanders; 2 messages in 4 wordings." in small["index.md"]
    assert "| [a](a.md) | 1 | 0 | 0 | 2 |" in small["index.md"]
    assert "| throughput lower | 0 | [`two-rule`](b.md#two-rule) |" in small["index.md"]


@pytest.mark.parametrize(
    "line",
    [
        r"### Runs on &lt;b&gt;\*Triton\*&lt;/b&gt; \[here\](there)",
        "`one-rule`: cause, decode slower, low, weak evidence, stable",
        r"The \_\_reason\_\_ is plain.",
        "- message `sglang.one` with `backend` is `triton` or `fa3`, at least 3 times in 10 min",
        "  - `` Use <backend> of `old` kind `` (sglang up to 0.4.9)",
        "  - `Use the <backend> of | new kind` (sglang 0.5.0 to 0.5.5)",
        "  - pattern `Use no [a-z]{1,9} at all` (sglang 0.5.7 and later)",
        "- in this order, within 90 s",
        "    - `The second thing was said`",
        "- and not within 2 h",
        "- fact [`gpu`](facts.md#gpu) with `under_load` is true, `reasons` is not shown",
        "- critical when",
        "  - fact [`server_arg`](facts.md#server_arg) with `name` is `tp_size`, `value` at least `4`",
        r"- sglang &gt;=0.5,&lt;0.6",
        "- gpu arch sm90, sm100 or sm120",
        "- `--attention-backend flashinfer` (risk low; restart needed; undo: remove --attention-backend)",
        "  - install it first",
        r"- wait for \*it\* (risk none; no restart; undo: stop waiting)",
        "  - only when",
        "- Which GPU is it? `nvidia-smi -L`",
        "- [`two-rule`](b.md#two-rule) The second",
        "- every [symptom](index.md#effects) of: decode slower",
        "- every [symptom](index.md#effects) of: throughput lower",
        "- sglang 0.5.9 server_args.py:1835",
    ],
)
def test_an_entry_says_it_in_words(line: str, small: dict[str, str]) -> None:
    assert line in small["a.md"].splitlines()


def test_a_gain_has_its_source(small: dict[str, str]) -> None:
    assert "([sgl-project/sglang#7](https://github.com/sgl-project/sglang/issues/7))" in small["a.md"]


def test_relations_are_shown_from_both_sides(small: dict[str, str]) -> None:
    assert "**Explained by**\n\n- [`one-rule`](a.md#one-rule)" in small["b.md"]
    assert "**Excluded by**\n\n- [`two-rule`](b.md#two-rule)" in small["a.md"]


def test_facts_name_their_fields_and_messages(small: dict[str, str]) -> None:
    text = small["facts.md"]
    assert all(f'<a id="{kind}"></a>' in text for kind in kinds())
    section = text[text.index('id="attention_backend"') : text.index('id="bench_result"')]
    assert "- `name`: str" in section
    assert "Stated by the messages `sglang.one`." in section


def test_every_built_in_rule_stands_once_and_every_link_leads_somewhere(built_in: dict[str, str]) -> None:
    anchors = {
        (name, anchor) for name, text in built_in.items() for anchor in re.findall(r'<a id="([^"]+)"', text)
    }
    rules = [path for path in builtin_folder().rglob("*.yaml") if not path.stem.startswith("messages")]
    assert sum(name != "facts.md" for name, _ in anchors) == len(rules)
    anchors.add(("index.md", "effects"))
    for name, text in built_in.items():
        for target, anchor in re.findall(r"\]\(([\w.-]*\.md)?(?:#([^)\s]+))?\)", text):
            assert (target or name) in built_in
            assert not anchor or (target or name, anchor) in anchors, anchor


def test_the_same_rules_give_the_same_bytes(built_in: dict[str, str]) -> None:
    assert pages_of(builtin_folder()) == built_in
