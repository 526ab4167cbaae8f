"""Any text in any field of a diagnosis: every outlet stays well-formed, and nothing in it acts."""

import json
import re
from xml.etree import ElementTree as Xml

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from diagnoser.compare.digest import Cause, Incident, weeks
from diagnoser.facts.base import Evidence
from diagnoser.inference.diagnosis import (
    Diagnosis,
    DocumentRead,
    Finding,
    FixText,
    GainText,
    Question,
    UnknownLine,
)
from diagnoser.report import digest
from diagnoser.report.outlets import render
from tests.report.test_outlets import check_sarif

ACTING = ["<!channel>", "@here", "a/b#1", "`", "```", "</details>", "]]>", "<script>", "|", "\\", "&amp;", "*", "_", "~", "\u202e", "#2 (x)", " ", "\n", "x"]  # fmt: skip
# Everything but lone surrogates, which no source lets through.
text = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.lists(st.sampled_from(ACTING), max_size=10).map("".join),
)
words = text.map(lambda value: value or "x")
few = {"max_size": 2}

evidence = st.builds(
    Evidence, document=words, line=st.integers(1, 10**9), end_line=st.integers(1, 10**9), text=text,
    host=st.none() | words, rank=st.none(), at=st.none() | st.floats(0, 4e9),
)  # fmt: skip
fixes = st.builds(
    FixText, action=st.just("do"), command=text, risk=st.sampled_from(["low", "high"]), restart=st.booleans(),
    undo=st.none() | text, note=st.none() | text,
)  # fmt: skip
findings = st.builds(
    Finding, rule=st.sampled_from(["a", "b-c", "d.1-e"]), title=words,
    kind=st.sampled_from(["cause", "symptom", "bystander", "engine"]),
    role=st.sampled_from(["root", "consequence", "bystander", "echo"]),
    effect=st.sampled_from(["crash", "decode_slower", "none"]), severity=st.sampled_from(["info", "low", "critical"]),
    confidence=st.floats(0, 1), summary=text, evidence=st.lists(evidence, **few), fixes=st.lists(fixes, **few),
    gain=st.none() | st.builds(GainText, metric=words, change=words, where=text, source=text),
    because_of=st.none() | words, unchecked=st.lists(text, **few), references=st.lists(text, **few),
)  # fmt: skip
lines = st.builds(UnknownLine, document=words, line=st.integers(1, 9), text=text, count=st.integers(1, 9))
questions = st.builds(Question, question=text, command=text, decides=st.lists(words, max_size=1))
documents = st.builds(
    DocumentRead, document=words, kind=words, host=st.none() | words, first_line=st.integers(1, 9),
    last_line=st.integers(1, 9), notes=st.just([]),
)  # fmt: skip
diagnoses = st.builds(
    Diagnosis, version=st.just("0"), headline=words, server=st.sampled_from(["ready", "not ready", "not told"]),
    findings=st.lists(findings, **few), unknown=st.lists(lines, **few), questions=st.lists(questions, **few),
    coverage=st.lists(documents, **few), unreadable=st.lists(text, **few), notes=st.lists(text, **few),
)  # fmt: skip
calm = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))


@calm
@given(diagnoses)
def test_sarif_and_pagerduty(diagnosis: Diagnosis) -> None:
    check_sarif(render(diagnosis, "sarif"))
    event = json.loads(render(diagnosis, "pagerduty"))
    assert event["event_action"] in ("trigger", "resolve")
    if "payload" in event:
        assert 0 < len(event["payload"]["summary"]) <= 1024
        assert event["payload"]["source"]


@calm
@given(diagnoses)
def test_junit(diagnosis: Diagnosis) -> None:
    (suite,) = Xml.fromstring(render(diagnosis, "junit").encode())
    cases = list(suite.iter("testcase"))
    assert len(cases) == int(suite.get("tests", "-1"))
    assert len(list(suite.iter("failure"))) == int(suite.get("failures", "-1")) == len(diagnosis.causes)
    assert all(case.get("name") for case in cases)


@calm
@given(diagnoses)
def test_slack(diagnosis: Diagnosis) -> None:
    shown = render(diagnosis, "slack")
    assert "<" not in shown
    assert len(shown) < 4000
    assert all(line.count("`") % 2 == 0 for line in shown.split("\n"))


@calm
@given(diagnoses)
def test_github(diagnosis: Diagnosis) -> None:
    shown = render(diagnosis, "github")
    assert len(shown) <= 65_536
    # As CommonMark reads it: no markup but ours, no mention and no thread in prose; code may hold anything.
    blocks = MarkdownIt("commonmark", {"html": True}).parse(shown)
    tokens = [token for block in blocks for token in (block, *(block.children or ()))]
    html = "".join(token.content for token in tokens if token.type in ("html_inline", "html_block"))
    ours = re.sub(r"<!-- -->|</?details>|</?sub>|<summary>[A-Za-z ]*</summary>|\s", "", html)
    assert ours == ""
    assert html.count("<details>") == html.count("</details>")
    prose = [token.content for token in tokens if token.type == "text"]
    assert not [words for words in prose if re.search(r"(?<!\w)@\w|\w#\d", words)]


@calm
@given(st.lists(st.tuples(words, words, text), max_size=4))
def test_the_digests_tables(rows: list[tuple[str, str, str]]) -> None:
    named = [(where, Cause("rule", title, "crash", "low", 0.1, fix)) for title, where, fix in rows]
    told = weeks([Incident(1.0, where, (cause,)) for where, cause in named])
    for line in digest.as_markdown(told, []).split("\n"):
        if line.startswith("| ") and not line.startswith("| times"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 8
    assert json.loads(digest.as_json(told, []))["schema"] == "diagnoser/digest/1"
