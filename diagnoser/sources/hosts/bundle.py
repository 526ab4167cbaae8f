"""What was seen of machines, kept in one file: ``bundle.tar.zst``, masked, with a manifest, diagnosed later."""

import io
import json
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from diagnoser.sources import redaction
from diagnoser.sources.base import SourceError
from diagnoser.sources.hosts.channel import now
from diagnoser.sources.hosts.collect import Item, Row
from diagnoser.sources.hosts.remote_log import Part
from diagnoser.version import __version__

MANIFEST = "diagnoser-bundle.json"
FORMAT = "diagnoser/bundle/1"
MAX_MANIFEST = 64 << 20
MAX_UNPACKED = 2 << 30


class Seen(NamedTuple):
    """One machine in a bundle. error: why nothing was seen of it."""

    host: str
    items: Sequence[Item]
    rows: Sequence[Row]
    error: str | None = None


def write(path: Path, machines: Sequence[Seen]) -> None:
    """Write a bundle; it is there whole or not at all. Secrets are masked. Raises OSError."""
    import zstandard

    manifest: dict[str, Any] = {
        "format": FORMAT,
        "version": __version__,
        "at": now().isoformat(timespec="seconds"),
        "hosts": [],
    }
    files: list[tuple[str, bytes]] = []
    for number, machine in enumerate(machines, 1):
        documents = []
        for index, item in enumerate(machine.items, 1):
            name = f"{number:02d}/{index:03d}.txt"
            files.append((name, b"".join(_masked(part.text) for part in item.parts)))
            stretches = [[part.first_line, len(part.text)] for part in item.parts]
            documents.append({"file": name, "name": item.name, "note": item.note, "parts": stretches})
        manifest["hosts"].append(
            {
                "host": machine.host,
                "error": machine.error,
                "documents": documents,
                "commands": [row._asdict() for row in machine.rows],
            }
        )
    head = json.dumps(manifest, indent=1).encode()
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".diagnose-", delete=False) as file:
        partial = Path(file.name)
        try:
            with (
                zstandard.ZstdCompressor(level=6).stream_writer(file, closefd=False) as packed,
                tarfile.open(fileobj=packed, mode="w|") as archive,
            ):
                for name, data in [(MANIFEST, head), *files]:
                    info = tarfile.TarInfo(name)
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
            file.close()
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def _masked(text: bytes) -> bytes:
    data = bytearray(text)
    redaction.redact(data)
    return bytes(data)


def is_bundle(path: Path) -> bool:
    """Whether a file is a bundle: a packed tar whose first entry is the manifest."""
    try:
        with path.open("rb") as file:
            if file.read(4) != b"\x28\xb5\x2f\xfd":
                return False
            file.seek(0)
            with _unpacked(file) as text:
                return bool(text.read(100).rstrip(b"\0") == MANIFEST.encode())
    except Exception:
        # Whatever it is, the readers of archives say what is wrong with it.
        return False


def _unpacked(file: IO[bytes]) -> Any:
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file, closefd=False)


def read(path: Path) -> list[Seen]:
    """The machines of a bundle. Raises `SourceError` with one sentence for a damaged one."""
    try:
        with (
            path.open("rb") as file,
            _unpacked(file) as text,
            tarfile.open(fileobj=text, mode="r|") as archive,
        ):
            return list(_machines(archive, path))
    except SourceError:
        raise
    except Exception as error:
        raise SourceError(f"{path}: the bundle is damaged: {error}; collect again") from error


def _machines(archive: tarfile.TarFile, path: Path) -> Iterator[Seen]:
    manifest: dict[str, Any] = {}
    texts: dict[str, bytes] = {}
    size = 0
    for entry in archive:
        size += entry.size
        limit = MAX_MANIFEST if not manifest else MAX_UNPACKED
        if size > limit:
            raise SourceError(f"{path}: the bundle holds more than {limit >> 20} MiB; it is not read")
        stream = archive.extractfile(entry)
        data = stream.read() if stream is not None else b""
        if not manifest:
            manifest = json.loads(data)
            if manifest.get("format") != FORMAT:
                raise SourceError(f"{path}: the bundle is of format {manifest.get('format')}, not {FORMAT}")
        else:
            texts[entry.name] = data
    for machine in manifest["hosts"]:
        items = [
            Item(document["name"], machine["host"], tuple(_parts(document, texts)), document["note"])
            for document in machine["documents"]
        ]
        yield Seen(machine["host"], items, [Row(**row) for row in machine["commands"]], machine["error"])


def _parts(document: dict[str, Any], texts: dict[str, bytes]) -> Iterator[Part]:
    text, at = texts[document["file"]], 0
    for first_line, size in document["parts"]:
        yield Part(first_line, text[at : at + size])
        at += size
