"""The page in a real Chromium: `make test-browser` (Debian: chromium)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
STORY = FIXTURES / "story" / "step6-triton-default.log"


@pytest.fixture
def page(serve: Callable[..., str], browser: Any) -> Any:
    page = browser.page()
    page.set_default_timeout(60_000)
    page.goto(serve())
    return page


def paste(page: Any, text: str) -> None:
    page.fill("#text", text)
    page.click("button[type=submit]")
    page.wait_for_selector("#answer:not([hidden])")


def test_paste_read_open_the_evidence_download(page: Any, tmp_path: Path) -> None:
    paste(page, STORY.read_text())
    assert "runs on Triton" in page.inner_text("#answer h2")
    assert "--attention-backend flashinfer" in page.inner_text("#answer .command >> nth=0")
    page.click("#answer .place >> nth=0")
    hit = page.inner_text(".line.hit").split("\n")
    assert hit == ["2", STORY.read_text().splitlines()[1]]
    with page.expect_download() as download:
        page.click("text=Postmortem (HTML)")
    target = tmp_path / "incident.html"
    download.value.save_as(target)
    assert "Postmortem: Attention of an MLA model" in target.read_text()
    assert not page.is_visible("#token-row")


def test_fifty_megabytes_are_read_and_shown_line_by_line(page: Any, tmp_path: Path) -> None:
    lines = STORY.read_text().splitlines(keepends=True)
    log = tmp_path / "big.log"
    tail = "".join(lines[-8:-1])
    log.write_text("".join(lines) + tail * (50_000_000 // len(tail)))
    assert log.stat().st_size > 49_000_000
    page.set_input_files("#pick", str(log))
    page.click("button[type=submit]")
    page.wait_for_selector("#answer:not([hidden])", timeout=180_000)
    page.click("#answer .place >> nth=0")
    page.wait_for_selector(".line.hit")
    page.evaluate("document.getElementById('lines').scrollTop = 1e9")
    page.wait_for_timeout(300)
    assert page.locator(".line").count() < 200
    assert page.inner_text(".line >> nth=-1").strip()


def test_a_hostile_log_is_inert(page: Any) -> None:
    nasty = "<script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)>"
    text = STORY.read_text().replace("/shared/kimi-k2.5-int4", f"/m/{nasty}")
    paste(page, f"{nasty}\n{text}\nERROR {nasty} something nobody knows\n")
    page.click("#answer .place >> nth=0")
    page.wait_for_selector(".line.hit")
    assert page.locator("#answer script, #answer img, #answer svg, #viewer script, #viewer img").count() == 0
    assert nasty in page.inner_text("#viewer")


def test_at_phone_width_nothing_sticks_out(page: Any) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    paste(page, STORY.read_text())
    page.click("#answer .place >> nth=0")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_and_the_report_pass_axe(page: Any, scheme: str, tmp_path: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page.emulate_media(color_scheme=scheme)
    paste(page, STORY.read_text())
    page.click("#answer .place >> nth=0")
    found = axe.run(page)
    assert found.violations_count == 0, found.generate_report()


def test_by_keyboard_alone(page: Any) -> None:
    page.fill("#text", STORY.read_text())
    page.focus("#text")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer:not([hidden])")
    page.focus("#answer .place >> nth=0")
    page.keyboard.press("Enter")
    page.wait_for_selector(".line.hit")
    assert page.evaluate("document.activeElement.id") == "lines"
