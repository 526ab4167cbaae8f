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


def test_the_experiments_runs_and_intervals_are_drawn_and_told(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"event": "planned", "plan": {"changes": [["set_flag", "--attention-backend", "flashinfer"]],
                                      "workload": "decode_single_stream", "metric": "output_tok_s_request"}},
        {"event": "measured", "arm": "A", "values": [83.9, 84.0]},
        {"event": "starting", "arm": "B", "at": 1772207300.0},
        {"event": "measured", "arm": "B", "values": [92.5, 92.7]},
        {"event": "look", "at": 1772208000.0, "verdict": "inconclusive", "effect": 0.1, "low": -0.01, "high": 0.22},
        {"event": "measured", "arm": "A", "values": [83.8]},
        {"event": "measured", "arm": "B", "values": [92.6]},
        {"event": "look", "at": 1772209000.0, "verdict": "confirmed", "effect": 0.104, "low": 0.09, "high": 0.12},
        {"event": "kept", "at": 1772209500.0},
    ]  # fmt: skip
    journal, target = tmp_path / "e.jsonl", tmp_path / "i.html"
    journal.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(str(STORY), "--report", str(target), "--proof", str(journal)).returncode == 1
    text = target.read_text()
    assert (
        'aria-label="look 1: inconclusive, +10.0% [-1.0%, +22.0%]; look 2: confirmed, +10.4% [+9.0%, +12.0%]"'
        in text
    )
    drawn = text.split('id="chart-runs"')[1].split("</svg>")[0]
    assert drawn.count("<circle") == 6  # a dot for each run
    said = " ".join(" ".join(Page(text).text).split())
    # 1772207300 s is 2026-02-27 15:48:20 UTC
    assert "2026-02-27 15:48:20 The fix is put to the test: --attention-backend flashinfer" in said
    assert "2026-02-27 16:25:00 The fix stays in place" in said
    assert "A1 83.9, 84.0 B1 92.5, 92.7 A2 83.8 B2 92.6" in said


def test_a_secret_in_the_change_is_masked(tmp_path: Path) -> None:
    plan = {
        "changes": [["set_env", "HF_TOKEN", "hf_abcdefghijklmnopqrstuvwxyz012345"]],
        "workload": "w",
        "metric": "m",
    }
    rows = [
        {"event": "planned", "plan": plan},
        {"event": "starting", "arm": "B", "at": 1772207300.0},
        {"event": "look", "verdict": "refuted", "effect": 0.0, "low": -0.01, "high": 0.01},
    ]
    journal, target = tmp_path / "e.jsonl", tmp_path / "i.html"
    journal.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(str(STORY), "--report", str(target), "--proof", str(journal)).returncode == 1
    assert "HF_TOKEN" in target.read_text()
    assert "abcdefghijklmnop" not in target.read_text()


def slowing(minutes: int, fast: int, slow: int, at: int) -> str:
    """Decode lines, one a minute, from 03:00 on; from minute `at` on they are slow."""
    line = "[2026-12-01 03:{:02d}:11] Decode batch, #running-req: 1, #token: {}, token usage: 0.01, cuda graph: True, gen throughput (token/s): {}.00, #queue-req: 0\n"
    held, text = 100, ""
    for minute in range(minutes):
        speed = fast if minute < at else slow
        held += 60 * speed
        text += line.format(minute, held, speed)
    return text


def test_the_first_slow_minute_and_every_start_are_in_the_timeline(tmp_path: Path) -> None:
    story = STORY.read_text().splitlines(keepends=True)
    log = tmp_path / "s.log"
    again = "".join(line.replace("2026-02-27 15", "2026-12-01 02") for line in story)
    log.write_text("".join(story) + again + slowing(20, 200, 80, 11))
    target = tmp_path / "i.md"
    run(str(log), "--report", str(target))
    timeline = target.read_text().split("## Timeline (UTC)")[1].split("## Root cause")[0]
    assert "2026-02-27 15:31:04 Start 1 of 2" in timeline
    assert (
        f"2026-12-01 02:31:04 Start 2 of 2 (`{log}:{len(story) + 2}`)" in timeline
    )  # its first line that opens a start
    assert "2026-12-01 03:11:00 First slow minute: 80 tok/s, 180.6 before" in timeline  # (83.9 + 5 x 200) / 6
    assert "starts of the server: 2" in target.read_text()


def test_evidence_close_together_is_one_excerpt(tmp_path: Path) -> None:
    target = tmp_path / "i.md"
    run(str(STORY), "--report", str(target))
    text = target.read_text()
    # Lines 2 and 3 prove; two before and two behind stand around them, each line once.
    block = text.split(f"`{STORY}:2, 3`")[1].split("```")[1]
    numbers = [int(line.lstrip("> ").split(maxsplit=1)[0]) for line in block.strip().splitlines()]
    assert numbers == [1, 2, 3, 4, 5]
    assert f"sed -n '2p;3p' {STORY}" in text


def test_what_was_considered_is_ruled_out_with_the_reason(tmp_path: Path) -> None:
    target = tmp_path / "i.md"
    run(str(STORY), "--report", str(target))
    ruled_out = target.read_text().split("## Ruled out")[1].split("## Prevention")[0]
    # Nobody asked for triton, it was the default: line 2 says so.
    assert "The attention backend that was asked for is slower than this GPU's default" in ruled_out
    assert f"{STORY}:2" in ruled_out


def test_beside_a_good_time_the_change_is_taken_apart(tmp_path: Path) -> None:
    pair, target = FIXTURES / "pairs" / "story", tmp_path / "i.html"
    assert (
        run("--baseline", str(pair / "before"), str(pair / "after"), "--report", str(target)).returncode == 1
    )
    text = target.read_text()
    # 1 / 1.104 - 1, what 89.5 -> 83.9 leaves, and 83.9 / 89.5 - 1
    assert "triton-attn-default-sm120 -9.4%; unexplained +3.5%; the whole change -6.3%" in text
    assert "89.5 -> 83.9 tok/s decoded, -6.3%" in "".join(Page(text).text)


def test_the_chain_is_drawn_from_what_was_found(tmp_path: Path) -> None:
    target = tmp_path / "i.html"
    run(str(FIXTURES / "captures" / "sglang_h200" / "memory.log"), "--report", str(target))
    text = target.read_text()
    assert 'data-a="cuda-oom" data-b="server-died-at-start"' in text
    assert 'href="#rule-cuda-oom"' in text
    assert 'id="rule-cuda-oom"' in text


def test_a_paste_of_several_documents_has_its_lines_in_context(tmp_path: Path) -> None:
    target = tmp_path / "i.md"
    smi = (FIXTURES / "story" / "step4-clean-gpus.txt").read_text()
    run("-", "--report", str(target), text=smi + STORY.read_text())
    many = len(smi.splitlines())
    text = target.read_text()
    assert f">  {many + 2:>5}" in text
    assert f"   {many + 5:>5}  [2026-02-27 15:31:07] Using default HuggingFace chat template" in text


def test_speed_over_time_is_drawn_with_its_events(tmp_path: Path) -> None:
    log = tmp_path / "s.log"
    log.write_text(STORY.read_text() + slowing(30, 200, 80, 15))
    target = tmp_path / "i.html"
    run(str(log), "--report", str(target))
    text = target.read_text()
    assert 'id="chart-speed"' in text
    assert "03:15 First slow minute: 80 tok/s" in "".join(Page(text).text)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--report", "x.pdf"], ".md or .html"),
        (["--report", "/nowhere/x.md"], "/nowhere"),
        (["--proof", "x.jsonl"], "belongs to --report"),
        (["--report", "x.md", "-o", "./x.md"], "the same file"),
        (["--report", "x.md", "--explain", "cuda-oom"], "goes without --report"),
        (["--report", "x.md", "--follow"], "goes without --follow"),
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
