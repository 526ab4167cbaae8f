"""Chat, tickets, pipelines and pagers: each in the form its reader asks for, and hostile text inert in all."""

import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as Xml

import pytest

from diagnoser import diagnose
from diagnoser.inference.diagnosis import Diagnosis
from diagnoser.report.outlets import OUTLETS, body, render

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
STORY = FIXTURES / "story" / "step6-triton-default.log"
WELL = FIXTURES / "story" / "step7-flashinfer.log"
RULE = "triton-attn-default-sm120"
NASTY = "<!channel> <https://evil.example|x> @octocat fixes #12 a/b#3 ]]> <script>alert(1)</script> ``` & \x07\x1b[31m\ud800"


@pytest.fixture(scope="module")
def story() -> Diagnosis:
    return diagnose(STORY)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    log = tmp_path_factory.mktemp("x") / "a<b>&c.log"
    text = STORY.read_text().replace("/shared/kimi-k2.5-int4", f"/m/{NASTY}")
    text = text.replace("Use triton backend by default.", f"Use triton backend by default. {NASTY}")
    log.write_text(text, "utf-8", errors="surrogatepass")
    found = diagnose(log)
    assert found.causes[0].rule == RULE
    return found


def test_slack_says_what_why_and_how(story: Diagnosis) -> None:
    text = render(story, "slack")
    first = text.splitlines()[0]
    assert "Triton" in first
    assert "95%" in first
    assert "Attention backend not specified. Use triton backend by default." in text
    assert "`--attention-backend flashinfer`" in text
    assert "+10.4%" in text
    assert len(text) < 4000  # Slack's limit for a message's text
    sent = body(story, "slack")
    assert sent.media_type == "application/json"
    assert json.loads(sent.content)["text"] == text


def test_slack_cannot_be_made_to_ring_or_link(hostile: Diagnosis) -> None:
    text = render(hostile, "slack")
    # <!channel>, <@user> and <url|text> act; their brackets must come as &lt;
    assert "<" not in text
    assert "&lt;!channel&gt;" in text
    for line in text.splitlines():
        assert line.count("`") % 2 == 0
    assert len(text) < 4000


def test_github_issue_names_nobody_and_links_no_thread(hostile: Diagnosis) -> None:
    text = render(hostile, "github")
    outside = re.sub(r"(?s)(?m)^(`{3,})text\n.*?^\1$", "", text)
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", outside)
    assert "<script>" not in outside
    assert not re.search(r"(?<!\w)@\w", outside)
    assert not re.search(r"\b[\w-]+/[\w-]+#\d", outside)
    sent = json.loads(body(hostile, "github").content)
    assert set(sent) == {"title", "body"}
    assert "\n" not in sent["title"]
    assert sent["body"] == text


def test_github_issue_of_the_story(story: Diagnosis) -> None:
    text = render(story, "github")
    assert text.startswith("### Attention of an MLA model runs on Triton")
    assert "```text\n--attention-backend flashinfer\n```" in text
    assert (
        "[sgl-project/sglang#<!-- -->18758](https://redirect.github.com/sgl-project/sglang/issues/18758)"
        in text
    )
    assert text.count("<details>") == text.count("</details>") == 2


def test_junit_has_a_failed_test_for_each_cause(story: Diagnosis) -> None:
    root = Xml.fromstring(render(story, "junit"))
    assert root.tag == "testsuites"
    (suite,) = root
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    case = next(case for case in suite.iter("testcase") if case.get("name") == RULE)
    assert case.get("classname") == "diagnose.decode_slower"
    assert (case.get("file"), case.get("line")) == (str(STORY), "2")
    failure = case.find("failure")
    assert failure is not None
    assert failure.get("type") == "decode_slower"
    assert "fix: --attention-backend flashinfer (risk low)" in (failure.text or "")


def test_junit_of_a_well_server_passes() -> None:
    (suite,) = Xml.fromstring(render(diagnose(WELL), "junit"))
    assert suite.get("failures") == "0"
    assert int(suite.get("tests", "0")) >= 1
    assert not list(suite.iter("failure"))


def test_junit_holds_only_what_xml_allows(hostile: Diagnosis) -> None:
    text = render(hostile, "junit")
    Xml.fromstring(text.encode())
    # XML 1.0, production 2: Char
    assert re.fullmatch("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*", text)


def check_sarif(text: str) -> dict[str, object]:
    """What section 3 of SARIF 2.1.0 requires of the objects used here; the whole public schema finds no more."""
    log: dict[str, object] = json.loads(text)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]  # type: ignore[misc]
    driver = run["tool"]["driver"]
    assert driver["name"]
    identifiers = [rule["id"] for rule in driver["rules"]]
    assert len(identifiers) == len(set(identifiers))
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"]
        assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
        assert urlsplit(rule.get("helpUri", "https://x")).scheme == "https"
    for result in run["results"]:
        assert identifiers[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        assert 0 <= result["rank"] <= 100
        assert all(isinstance(value, str) for value in result["partialFingerprints"].values())
        for place in (*result["locations"], *result["relatedLocations"]):
            physical = place["physicalLocation"]
            region = physical["region"]
            assert 1 <= region["startLine"] <= region["endLine"]
            # RFC 3986: these characters and escapes, nothing else
            assert re.fullmatch(
                r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-F]{2})+", physical["artifactLocation"]["uri"]
            )
    for invocation in run["invocations"]:
        assert isinstance(invocation["executionSuccessful"], bool)
    return log


def test_sarif_of_the_story(story: Diagnosis) -> None:
    log = check_sarif(render(story, "sarif"))
    (result,) = log["runs"][0]["results"]  # type: ignore[index]
    assert (result["ruleId"], result["level"]) == (RULE, "error")
    physical = result["locations"][0]["physicalLocation"]
    assert physical["region"]["startLine"] == 2
    assert physical["artifactLocation"]["uri"] == STORY.as_uri()
    assert physical["region"]["snippet"]["text"] == STORY.read_text().splitlines()[1]


@pytest.mark.parametrize("name", ["story", "captures/sglang_h200", "captures/cpu_servers", "gpu_host"])
def test_sarif_of_many(name: str) -> None:
    check_sarif(render(diagnose(FIXTURES / name), "sarif"))


def test_sarif_and_pagerduty_keep_hostile_text_as_text(hostile: Diagnosis) -> None:
    log = check_sarif(render(hostile, "sarif"))
    address = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]  # type: ignore[index]
    assert unquote(address).endswith("a<b>&c.log")
    assert "<" not in address
    for outlet in ("sarif", "pagerduty"):
        assert "\x1b" not in render(hostile, outlet)
        assert "\\u001b[31m" not in render(hostile, outlet)


def test_a_line_that_moved_keeps_its_fingerprint(story: Diagnosis, tmp_path: Path) -> None:
    moved = tmp_path / STORY.name
    moved.write_text("[2026-02-27 15:31:03] INFO something before\n" + STORY.read_text())
    one, other = (
        json.loads(render(found, "sarif"))["runs"][0]["results"][0]["partialFingerprints"]
        for found in (story, diagnose(moved))
    )
    assert one == other


def test_pagerduty_triggers_and_resolves(story: Diagnosis, monkeypatch: pytest.MonkeyPatch) -> None:
    event = json.loads(render(story, "pagerduty"))
    assert event["event_action"] == "trigger"
    # Events API v2: severity is one of four words, summary at most 1024, dedup_key at most 255 characters
    assert event["payload"]["severity"] in ("critical", "error", "warning", "info")
    assert 0 < len(event["payload"]["summary"]) <= 1024
    assert event["payload"]["source"] == str(STORY)
    assert event["payload"]["timestamp"] == "2026-02-27T15:31:04+00:00"
    assert 0 < len(event["dedup_key"]) <= 255
    well = json.loads(render(diagnose(WELL), "pagerduty"))
    assert well["event_action"] == "resolve"
    assert "payload" not in well
    monkeypatch.setenv("PAGERDUTY_ROUTING_KEY", "R0UT1NGKEY")
    assert "R0UT1NGKEY" not in render(story, "pagerduty")
    assert json.loads(body(story, "pagerduty").content)["routing_key"] == "R0UT1NGKEY"


def test_without_its_key_no_event_is_sent(story: Diagnosis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAGERDUTY_ROUTING_KEY", raising=False)
    with pytest.raises(ValueError, match="PAGERDUTY_ROUTING_KEY"):
        body(story, "pagerduty")


@pytest.mark.parametrize("outlet", OUTLETS)
@pytest.mark.parametrize("text", ["nothing of the kind\n", "ERROR something nobody knows 42\n" * 3, "\x00\n"])
def test_a_text_without_a_known_cause_has_every_form(outlet: str, text: str) -> None:
    assert render(diagnose(text), outlet).endswith("\n")
