"""The history in one SQLite file. Several processes may write at the same time: each waits for the other.

The file is ``$DIAGNOSER_HISTORY`` or ``history.sqlite3`` in the user's data folder. It is made when something is first
kept, and readable by its owner alone.
"""

import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from pydantic import ValidationError

from diagnoser.compare.history.entry import Entry, Kept, Service

VERSION = 1
WAIT_S = 30.0
"""How long a writer waits for another one; a write takes milliseconds."""

_TABLES = """
CREATE TABLE entries (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    digest TEXT NOT NULL UNIQUE,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    name TEXT,
    host TEXT, model TEXT, workload TEXT,
    metric TEXT, value REAL,
    body BLOB NOT NULL
);
CREATE INDEX by_service ON entries (host, model, workload, at);
CREATE INDEX by_name ON entries (name, at);
CREATE TABLE baselines (
    service TEXT PRIMARY KEY,
    number INTEGER NOT NULL REFERENCES entries ON DELETE CASCADE
);
"""
_COLUMNS = "number, body, name, number IN (SELECT number FROM baselines)"


class HistoryError(Exception):
    """The history cannot be used; the message is one sentence."""


def default_path() -> Path:
    """Where the history is kept. Raises `HistoryError` where there is no home."""
    override = os.environ.get("DIAGNOSER_HISTORY")
    if override:
        return Path(override)
    from platformdirs import user_data_path

    try:
        return user_data_path("diagnoser", appauthor=False) / "history.sqlite3"
    except (RuntimeError, OSError) as error:
        raise HistoryError(
            f"there is no data folder for the history ({error}); set DIAGNOSER_HISTORY"
        ) from None


class History:
    """Reads and writes; every method raises `HistoryError` where the file cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, entry: Entry) -> int:
        """Keep a result; its number. One that is kept already keeps its number and takes the new name, if any."""
        with self._writing() as database:
            return _insert(database, entry)

    def merge(self, entries: Sequence[Entry], baselines: Sequence[str]) -> int:
        """Keep several or none; how many were new. baselines: digests of those that stand for their service."""
        with self._writing() as database:
            (before,) = database.execute("SELECT count(*) FROM entries").fetchone()
            for entry in entries:
                number = _insert(database, entry)
                if entry.digest in baselines:
                    _set_baseline(database, entry.service, number)
            (after,) = database.execute("SELECT count(*) FROM entries").fetchone()
            return int(after - before)

    def all(self, service: Service | None = None, name: str | None = None) -> list[Kept]:
        """Everything that is kept, in time; of one service or of one name where they are given."""
        where, values = "1", ()
        if service is not None:
            where, values = "host IS ? AND model IS ? AND workload IS ?", tuple(service)  # type: ignore[assignment]
        elif name is not None:
            where, values = "name = ?", (name,)  # type: ignore[assignment]
        with self._reading() as database:
            if database is None:
                return []
            query = f"SELECT {_COLUMNS} FROM entries WHERE {where} ORDER BY at, number"
            return [_kept(row) for row in database.execute(query, values)]

    def get(self, number: int) -> Kept | None:
        with self._reading() as database:
            if database is None:
                return None
            row = database.execute(f"SELECT {_COLUMNS} FROM entries WHERE number = ?", (number,)).fetchone()
            return _kept(row) if row else None

    def baseline(self, service: Service) -> Kept | None:
        """The result that stands for a service."""
        with self._reading() as database:
            if database is None:
                return None
            query = f"SELECT {_COLUMNS} FROM entries WHERE number = (SELECT number FROM baselines WHERE service = ?)"
            row = database.execute(query, (_key(service),)).fetchone()
            return _kept(row) if row else None

    def set_baseline(self, number: int) -> Service | None:
        """Let an entry stand for its service; None where there is no such entry."""
        with self._writing() as database:
            row = database.execute(f"SELECT {_COLUMNS} FROM entries WHERE number = ?", (number,)).fetchone()
            if row is None:
                return None
            service = _kept(row).entry.service
            _set_baseline(database, service, number)
            return service

    def remove(self, number: int) -> bool:
        """Forget an entry; whether there was one."""
        with self._writing() as database:
            return database.execute("DELETE FROM entries WHERE number = ?", (number,)).rowcount > 0

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """None where nothing was kept yet: looking must not make a file."""
        if not self.path.exists():
            yield None
            return
        with self._told(), closing(self._open()) as database:
            yield database

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._told():
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            with closing(self._open()) as database:
                # The lock is taken before anything is read, so that two writers never decide on the same state.
                database.execute("BEGIN IMMEDIATE")
                try:
                    _prepare(database, self.path)
                    yield database
                except BaseException:
                    database.rollback()
                    raise
                database.commit()

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=WAIT_S, isolation_level=None)
        database.execute("PRAGMA foreign_keys = ON")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            database.close()
            raise HistoryError(f"{self.path}: it was written by a newer diagnoser; update this one")
        return database

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise HistoryError(f"{self.path}: the history cannot be used: {error}") from error
        except OSError as error:
            raise HistoryError(f"{self.path}: the history cannot be used: {error.strerror}") from error
        except (zlib.error, ValidationError) as error:
            raise HistoryError(f"{self.path}: an entry is damaged: {str(error).splitlines()[0]}") from error


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version == VERSION:
        return
    (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables:
        raise HistoryError(f"{path}: it is a database of something else; set DIAGNOSER_HISTORY")
    for statement in _TABLES.split(";"):
        database.execute(statement)
    database.execute(f"PRAGMA user_version = {VERSION}")


def _insert(database: sqlite3.Connection, entry: Entry) -> int:
    body = zlib.compress(json.dumps(entry.model_dump(mode="json", exclude={"name"})).encode(), 6)
    database.execute(
        "INSERT INTO entries (digest, at, kind, name, host, model, workload, metric, value, body)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (digest) DO UPDATE SET name = coalesce(excluded.name, name)",
        (entry.digest, entry.at, entry.kind, entry.name, *entry.service, entry.metric, entry.value, body),
    )
    (number,) = database.execute("SELECT number FROM entries WHERE digest = ?", (entry.digest,)).fetchone()
    return int(number)


def _set_baseline(database: sqlite3.Connection, service: Service, number: int) -> None:
    database.execute(
        "INSERT OR REPLACE INTO baselines (service, number) VALUES (?, ?)", (_key(service), number)
    )


def _key(service: Service) -> str:
    return json.dumps(list(service))


def _kept(row: tuple[int, bytes, str | None, int]) -> Kept:
    number, body, name, baseline = row
    said = json.loads(zlib.decompress(body))
    return Kept(number, Entry.model_validate({**said, "name": name}), bool(baseline))
