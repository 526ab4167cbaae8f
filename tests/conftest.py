"""Shared by all tests: where the fixtures are, and the catalog of the built-in rules."""

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


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests neither see nor touch the user's cache, rules and config; one cache serves a whole worker."""
    base = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("DIAGNOSER_CACHE", str(base / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(base / "config"))
    monkeypatch.delenv("DIAGNOSER_CONFIG", raising=False)
