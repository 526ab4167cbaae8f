"""The postmortem: what it says of the story, and that nothing in a document becomes markup or leaks."""

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
STORY = FIXTURES / "story" / "step6-triton-default.log"


def run(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "diagnoser", *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


class Page(HTMLParser):
    """Tags, their attributes, and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_story_as_markdown(tmp_path: Path) -> None:
    target = tmp_path / "incident.md"
    shown = run(str(STORY), "--report", str(target))
    assert shown.returncode == 1
    text = target.read_text()
    summary = text.split("## Summary\n\n")[1].split("\n\n## Impact")[0].splitlines()
    assert len(summary) == 3
    assert "Triton" in summary[0]
    assert "+10.4%" in summary[1]
    assert "--attention-backend flashinfer" in summary[2]
    lines = STORY.read_text().splitlines()
    for number in (1, 2, 3):  # the evidence is line 2; what stands around it comes with it
        assert f"{number}  {lines[number - 1][:200]}" in text
    assert f">      2  {lines[1]}" in text
    assert "- 2026-02-27 15:37:32 The server says that it serves" in text
    assert "time until it served: 387 s" in text  # 15:31:05 to 15:37:32
    assert "DeepGemm scale" in text.split("## Ruled out")[1].split("## Prevention")[0]
    assert f"diagnose --explain triton-attn-default-sm120 {STORY}" in text


def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    target = tmp_path / "incident.html"
    run(str(STORY), "--report", str(target))
    page = Page(target.read_text())
    assert not {"script", "img", "link", "iframe"} & set(page.tags)
    links = [value for name, value in page.attributes if name in ("href", "src", "xlink:href")]
    assert links
    assert all(value is not None and value.startswith("#") for value in links)
    assert page.tags.count("h1") == 1
    assert ("lang", "en") in page.attributes


def test_a_hostile_log_is_inert(tmp_path: Path) -> None:
    nasty = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    log = tmp_path / "a<b>.log"
    log.write_text(
        f"[2026-02-27 15:31:04] {nasty}\n"
        + STORY.read_text()
        .replace("/shared/kimi-k2.5-int4", f"/m/{nasty}")
        .replace("15:31:05]", f"15:31:05] {nasty}")
        + f"```\n# not a heading {nasty}\n"
    )
    page_file, text_file = tmp_path / "i.html", tmp_path / "i.md"
    run(str(log), "--report", str(page_file))
    run(str(log), "--report", str(text_file))
    page = Page(page_file.read_text())
    assert not {"script", "img"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "alert(1)" in "".join(page.text)
    outside = text_file.read_text().split("```")[::2]
    assert not any("<script>" in part for part in outside)


def test_secrets_beside_the_evidence_are_masked(tmp_path: Path) -> None:
    log = tmp_path / "s.log"
    lines = STORY.read_text().splitlines()
    lines.insert(1, "export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345")
    log.write_text("\n".join(lines) + "\n")
    for name in ("i.html", "i.md"):
        run(str(log), "--report", str(tmp_path / name))
        text = (tmp_path / name).read_text()
        assert "HF_TOKEN" in text
        assert "abcdefghijklmnop" not in text


def test_proof_from_the_journal_of_an_experiment(tmp_path: Path) -> None:
    journal = tmp_path / "experiment.jsonl"
    events = [
        {"event": "planned", "change": "remove --attention-backend", "workload": "decode_long_context"},
        {"event": "measured", "arm": "A", "values": [8.23, 8.25]},
        {"event": "measured", "arm": "B", "values": [4.89, 4.9]},
        {
            "event": "look",
            "verdict": "confirmed",
            "effect": 0.682,
            "low": 0.666,
            "high": 0.699,
            "level": 0.03,
        },
    ]
    journal.write_text("".join(json.dumps(event) + "\n" for event in events))
    target = tmp_path / "i.html"
    assert run(str(STORY), "--report", str(target), "--proof", str(journal)).returncode == 1
    text = "".join(Page(target.read_text()).text)
    assert (
        "confirmed: remove --attention-backend changes decode_long_context by +68.2% [+66.6%, +69.9%]" in text
    )
    assert "8.23, 8.25" in text
    assert "<svg" in target.read_text()


def test_speed_over_time_is_drawn(tmp_path: Path) -> None:
    line = "[2026-12-01 03:{:02d}:11] Decode batch, #running-req: 1, #token: {}, token usage: 0.01, cuda graph: True, gen throughput (token/s): {}.00, #queue-req: 0\n"
    log = tmp_path / "s.log"
    log.write_text(STORY.read_text() + "".join(line.format(m, 100 + 12_000 * m, 200) for m in range(30)))
    target = tmp_path / "i.html"
    run(str(log), "--report", str(target))
    assert 'id="chart-speed"' in target.read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--report", "x.pdf"], ".md or .html"),
        (["--report", "/nowhere/x.md"], "/nowhere"),
        (["--report", "x.md", "--proof", "/nowhere.jsonl"], "/nowhere.jsonl"),
        (["--report", "x.md", "--proof", str(STORY)], "no journal"),
    ],
)
def test_wrong_calls_are_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = run(str(STORY), *arguments)
    assert shown.returncode == 2
    assert sentence in shown.stderr
    assert "Traceback" not in shown.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_pasted_text_has_a_postmortem_too(tmp_path: Path) -> None:
    target = tmp_path / "i.md"
    shown = run("-", "--report", str(target), text=STORY.read_text())
    assert shown.returncode == 1
    assert "Use triton backend by default" in target.read_text()
