"""Shared by all tests: where the fixtures are, and the catalog of the built-in rules."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes depends on the machine.
settings.register_profile("diagnoser", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("diagnoser")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return ROOT / "fixtures"


@pytest.fixture(scope="session")
def catalog() -> Any:
    from diagnoser.inference.catalog import catalog_for
    from diagnoser.rulebook.book import builtin_folder

    return catalog_for((str(builtin_folder()),))


class Browser:
    """A real Chromium; ``said`` takes whatever its pages say on the console, throw, or pop up."""

    def __init__(self, chromium: Any) -> None:
        self._chromium = chromium
        self.said: list[str] = []

    def page(self, **context: Any) -> Any:
        """A page of its own context, such as ``viewport`` and ``color_scheme``."""
        page = self._chromium.new_context(**context).new_page()
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))
        return page


@pytest.fixture
def browser() -> Iterator[Browser]:
    """Its pages may have said nothing at the end (`make test-browser`; Debian: chromium)."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        browser = Browser(chromium)
        yield browser
        chromium.close()
        assert browser.said == []


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests neither see nor touch the user's cache, rules and config; one cache serves a whole worker."""
    base = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("DIAGNOSER_CACHE", str(base / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(base / "config"))
    monkeypatch.delenv("DIAGNOSER_CONFIG", raising=False)
