"""The documentation's site builds without a broken link, holds every rule, and needs nothing from elsewhere."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from diagnoser.rulebook.book import default_folders, pack_for

ROOT = Path(__file__).resolve().parents[1]
pytest.importorskip("zensical")


@pytest.mark.slow
def test_the_site(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("catalogue", "commands.md")
    )
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    for command in (
        ["diagnoser", "rules", "docs", "-o", "docs/catalogue"],
        ["diagnoser", "manual", "--format", "markdown", "-o", "docs/commands.md"],
        ["zensical", "build", "--strict"],
    ):
        told = subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert told.returncode == 0, told.stdout + told.stderr
    pages = {
        file.relative_to(tmp_path / "site"): file.read_text() for file in (tmp_path / "site").rglob("*.html")
    }
    assert Path("index.html") in pages
    catalogue = "".join(text for name, text in pages.items() if name.parts[0] == "catalogue")
    missing = [rule for rule in pack_for(default_folders()).causes if f'id="{rule}"' not in catalogue]
    assert missing == []
    elsewhere = re.compile(
        r'<(?:script|img|iframe|link rel="(?:stylesheet|preload|preconnect)")[^>]*(?:src|href)="(?:https?:)?//'
    )
    assert not [name for name, text in pages.items() if elsewhere.search(text)]
