"""What is done, on disk: a scan whose driver died goes on where it was."""

import json
import os
import time
from pathlib import Path
from typing import IO

from diagnoser.agent.scan.incidents import Incident, Row, Settings
from diagnoser.rulebook.book import default_folders, fingerprint, stamp
from diagnoser.rulebook.cache import key_of
from diagnoser.version import __version__

SCHEMA = "diagnoser/scan-state/1"
_SYNC_S = 1.0


class State:
    """Rows that are done, by the keys of their incidents; each is written as it comes.

    One JSON object a line, the first says which rules and settings the rows come from: rows of others are not used.
    Incidents that failed are tried again. Raises OSError.
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        made_with = key_of(
            [__version__, stamp(), repr(settings), *fingerprint(*default_folders(settings.options.rules))]
        )
        head = json.dumps({"schema": SCHEMA, "made_with": made_with})
        self._rows = _read(path, head)
        self._file: IO[str] = path.open("a" if self._rows is not None else "w", encoding="utf-8")
        if self._rows is None:
            self._rows = {}
            self._file.write(head + "\n")
        else:
            # A line that a dying driver left half-written must not run into the next.
            self._file.write("\n")
        self._file.flush()
        self._synced = time.monotonic()

    def __len__(self) -> int:
        return len(self._rows or {})

    def row(self, incident: Incident) -> Row | None:
        """The row of an incident that is done and has not changed since."""
        return (self._rows or {}).get(incident.key)

    def add(self, incident: Incident, row: Row) -> None:
        self._file.write(json.dumps({"key": incident.key, "row": row.as_plain()}) + "\n")
        self._file.flush()
        if time.monotonic() - self._synced > _SYNC_S:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    def close(self) -> None:
        self._file.close()


def _read(path: Path, head: str) -> dict[str, Row] | None:
    """The rows of a state file made with the same rules; None where there is none."""
    if not path.exists():
        return None
    rows: dict[str, Row] = {}
    with path.open(encoding="utf-8", errors="replace") as file:
        if file.readline().rstrip("\n") != head:
            return None
        for line in file:
            try:
                plain = json.loads(line)
                row = Row.from_plain(plain["row"])
                if row.error is None:
                    rows[plain["key"]] = row
            except (ValueError, TypeError, KeyError):
                continue
    return rows
