"""`--rules DIR`, which several commands take."""

from collections.abc import Sequence
from pathlib import Path


def rule_folders(given: Sequence[str] | None) -> tuple[Path, ...] | str:
    """The folders that were named, or the sentence which of them is none."""
    folders = tuple(Path(name) for name in given or ())
    missing = next((folder for folder in folders if not folder.is_dir()), None)
    return folders if missing is None else f"--rules {missing}: there is no such folder"
