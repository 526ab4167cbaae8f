"""The postmortem's page in a real Chromium: `make test-browser` (Debian: chromium)."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

axe = pytest.importorskip("axe_playwright_python.sync_playwright")
pytestmark = pytest.mark.slow

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
STORY = FIXTURES / "story" / "step6-triton-default.log"
NASTY = "<script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)>\"'></pre></style>"

JOURNAL = [
    {"event": "planned", "change": "--attention-backend flashinfer", "workload": "decode_single_stream"},
    {"event": "measured", "arm": "A", "values": [83.9, 83.8, 84.0]},
    {"event": "starting", "arm": "B", "at": 1772207300.0},
    {"event": "measured", "arm": "B", "values": [92.5, 92.6, 92.7]},
    {"event": "look", "at": 1772208000.0, "verdict": "confirmed", "effect": 0.104, "low": 0.09, "high": 0.12},
]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages with every section and chart: an experiment, a good time beside it, a hostile log, nothing found."""
    folder = tmp_path_factory.mktemp("reports")
    (folder / "e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in JOURNAL))
    minutes = "".join(
        f"[2026-02-27 15:{40 + n}:11] Decode batch, #running-req: 1, #token: {9000 * n}, token usage: 0.01, "
        f"cuda graph: True, gen throughput (token/s): {150 if n < 9 else 50}.00, #queue-req: 0\n"
        for n in range(1, 19)
    )
    (folder / "long.log").write_text(STORY.read_text() + minutes)
    hostile = STORY.read_text().replace("/shared/kimi-k2.5-int4", f"/m/{NASTY}")
    (folder / "hostile.log").write_text(
        hostile.replace("backend by default.", f"backend by default. {NASTY}")
    )
    (folder / "unknown.log").write_text("ERROR something nobody knows 42\n")
    calls: dict[str, list[str | Path]] = {
        "story": [folder / "long.log", "--proof", folder / "e.jsonl"],
        "beside": [
            "--baseline",
            FIXTURES / "pairs" / "story" / "before",
            FIXTURES / "pairs" / "story" / "after",
        ],
        "many": [FIXTURES / "captures" / "sglang_h200"],
        "hostile": [folder / "hostile.log"],
        "unknown": [folder / "unknown.log"],
    }
    for name, arguments in calls.items():
        command = [
            sys.executable,
            "-m",
            "diagnoser",
            *map(str, arguments),
            "--report",
            str(folder / f"{name}.html"),
        ]
        assert subprocess.run(command, capture_output=True, check=False).returncode in (0, 1)
    return {name: folder / f"{name}.html" for name in calls}


Open = Callable[..., Any]


@pytest.fixture
def show(reports: dict[str, Path], browser: Any) -> Open:
    """Opens a report; nothing may be asked of a network."""

    def open_page(name: str, width: int = 1100, scheme: str = "light") -> Any:
        page = browser.page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        own = reports[name].as_uri()
        page.on("request", lambda request: browser.said.append(request.url) if request.url != own else None)
        page.goto(own)
        return page

    return open_page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["story", "beside", "many", "hostile", "unknown"])
def test_accessible_in_light_and_dark(show: Open, name: str, scheme: str) -> None:
    for width in (1100, 360):
        found = axe.Axe().run(show(name, width, scheme)).response["violations"]
        assert [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in found] == []


@pytest.mark.parametrize("name", ["story", "beside", "many", "hostile", "unknown"])
def test_no_line_runs_off_a_phone(show: Open, name: str) -> None:
    page = show(name, 320)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_charts_are_drawn_and_have_words(show: Open) -> None:
    page = show("story")
    charts = page.locator("figure.chart svg[role=img]")
    assert charts.count() == 3  # speed, effect, runs
    for number in range(3):
        assert charts.nth(number).get_attribute("aria-label")
        box = charts.nth(number).bounding_box()
        assert box is not None
        assert box["width"] > 600
        assert box["height"] > 100
    assert "The fix is put to the test" in page.text_content("#chart-speed")
    assert show("beside").locator("#chart-waterfall rect.rect:visible").count() >= 3


def test_a_hostile_log_is_inert(show: Open) -> None:
    page = show("hostile")
    assert page.locator("script, img, iframe, svg[onload]").count() == 0
    assert "<script>alert(1)</script>" in page.inner_text("main")
    page.wait_for_timeout(300)


def test_the_keyboard_reaches_everything(show: Open) -> None:
    page = show("many")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    reached = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "document.activeElement.getAttribute('aria-label') || document.activeElement.tagName"
            )
        )
    assert "Command of a fix" in reached
    assert any(str(label).startswith("Evidence, ") for label in reached)
    page.locator("svg a.node >> nth=0").focus()
    page.keyboard.press("Enter")
    assert page.url.rpartition("#")[2].startswith("rule-")


def test_paper_is_white_whatever_the_screen(show: Open, tmp_path: Path) -> None:
    page = show("story", scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.is_visible("nav")
    assert page.is_visible("dd >> nth=0")  # what was ruled out is not folded away
    assert page.pdf(format="A4")[:5] == b"%PDF-"


def test_copied_lines_are_the_logs_lines(show: Open) -> None:
    page = show("story")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.lines .hit'))")
    assert page.evaluate("getSelection().toString()").strip() == STORY.read_text().splitlines()[1]
