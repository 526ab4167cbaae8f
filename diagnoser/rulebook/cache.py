"""The compiled pack and scanner database, kept between runs.

A file is used only when its checksum is right, so that a broken, cut or foreign file means compiling again and
never an error. Writing is atomic; a folder that cannot be written is no problem.
"""

import hashlib
import marshal
import os
import sys
from pathlib import Path
from typing import Any

from diagnoser.rulebook.pack import MARSHAL

_DIGEST = 32
KEPT_ENTRIES = 8
SHIPPED = Path(__file__).resolve().parent.parent / "compiled"
"""Tables made when the package was built (`diagnoser.inference.shipped`), so that the first call is fast too."""


def folder() -> Path:
    """Where compiled packs are kept: ``$DIAGNOSER_CACHE`` or the user's cache folder."""
    override = os.environ.get("DIAGNOSER_CACHE")
    if override:
        return Path(override)
    base = os.environ.get("XDG_CACHE_HOME")
    if sys.platform == "linux":
        return Path(base or Path.home() / ".cache") / "diagnoser"
    from platformdirs import user_cache_path

    return user_cache_path("diagnoser", appauthor=False)


def key_of(parts: list[str]) -> str:
    """A file name for what depends on all of ``parts`` and on this Python."""
    text = "\0".join([sys.implementation.cache_tag or "", sys.platform, *parts])
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def read(kind: str, key: str) -> bytes | None:
    """The bytes kept under ``key``, or None where there are none or they are damaged."""
    try:
        return _checked(folder() / f"{key}.{kind}")
    except RuntimeError:
        return None


def _checked(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    body = data[_DIGEST:]
    if len(data) <= _DIGEST or hashlib.blake2b(body, digest_size=_DIGEST).digest() != data[:_DIGEST]:
        return None
    return body


def write(kind: str, key: str, body: bytes) -> bool:
    """Keep ``body``; False where the folder cannot be written."""
    import tempfile

    try:
        target = folder()
        target.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target, prefix=".new-")
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.blake2b(body, digest_size=_DIGEST).digest() + body)
        Path(name).replace(target / f"{key}.{kind}")
        _prune(target, kind)
    except (OSError, RuntimeError):
        return False
    return True


def _prune(target: Path, kind: str) -> None:
    entries = sorted(target.glob(f"*.{kind}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in entries[KEPT_ENTRIES:]:
        path.unlink(missing_ok=True)


def read_plain(kind: str, key: str) -> Any:
    """The tables kept under ``key``, or None."""
    return _plain(read(kind, key))


def write_plain(kind: str, key: str, plain: Any) -> bool:
    return write(kind, key, marshal.dumps(plain, MARSHAL))


def read_shipped(kind: str, stamp: str) -> Any:
    """The tables that came with the package, or None where there are none of this stamp."""
    plain = _plain(_checked(SHIPPED / kind))
    return plain[1] if isinstance(plain, list) and plain[0] == stamp else None


def write_shipped(target: Path, kind: str, stamp: str, plain: Any) -> None:
    """Raises OSError."""
    body = marshal.dumps([stamp, plain], MARSHAL)
    target.mkdir(parents=True, exist_ok=True)
    (target / kind).write_bytes(hashlib.blake2b(body, digest_size=_DIGEST).digest() + body)


def _plain(body: bytes | None) -> Any:
    try:
        return None if body is None else marshal.loads(body)
    except (ValueError, EOFError, TypeError):
        return None
