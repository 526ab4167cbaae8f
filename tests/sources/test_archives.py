"""Compression and archives: recognised by their bytes, streamed, and honest about what is missing."""

import bz2
import gzip
import io
import lzma
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from diagnoser.sources import Limits, Source, Unreadable, open_sources

LOG = b"".join(b"[2026-02-27 15:17:%02d TP0] line %d\n" % (i % 60, i) for i in range(3000))
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}


def tar(members: dict[str, bytes], format: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


@pytest.mark.parametrize("form", PACK)
def test_compressed_files_whatever_their_name(form: str, tmp_path: Path, read: Any) -> None:
    (tmp_path / "server.log").write_bytes(PACK[form](LOG))
    assert read("server.log").texts == {"server.log": LOG}


@pytest.mark.parametrize("form", PACK)
def test_several_members_in_a_row_are_one_text(form: str, tmp_path: Path, read: Any) -> None:
    (tmp_path / "a").write_bytes(PACK[form](b"one\n") + PACK[form](b"") + PACK[form](b"two\n") + bytes(700))
    assert read("a") == ({"a": b"one\ntwo\n"}, {"a": []}, {})


def test_a_skippable_zstd_frame_is_skipped(tmp_path: Path, read: Any) -> None:
    (tmp_path / "a").write_bytes(b"\x50\x2a\x4d\x18\x03\0\0\0abc" + PACK["zst"](b"one\n"))
    assert read("a").texts == {"a": b"one\n"}


@pytest.mark.parametrize("form", [*PACK, None])
@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tars_of_every_compression_and_format(
    form: str | None, format: int, tmp_path: Path, read: Any
) -> None:
    long = "d" * 90 + "/" + "e" * 90 + ".log"
    data = tar({"logs/b.log": LOG, "a.log": b"a\n", long: b"long\n", "empty": b""}, format)
    (tmp_path / "bundle").write_bytes(PACK[form](data) if form else data)
    found = read("bundle")
    assert found.texts == {
        "bundle:logs/b.log": LOG,
        "bundle:a.log": b"a\n",
        f"bundle:{long}": b"long\n",
        "bundle:empty": b"",
    }
    assert next(iter(found.texts)) == "bundle:logs/b.log"  # the archive's own order
    assert found.reasons == {}


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_zips_give_their_members_by_name(method: int, tmp_path: Path, read: Any) -> None:
    (tmp_path / "bundle.zip").write_bytes(zipped({"logs/b.log": LOG, "a.log": b"a\n", "dir/": b""}, method))
    found = read("bundle.zip")
    assert list(found.texts.items()) == [("bundle.zip:a.log", b"a\n"), ("bundle.zip:logs/b.log", LOG)]


def test_archives_in_archives(tmp_path: Path, read: Any) -> None:
    inner = zipped({"x.log.gz": gzip.compress(b"x\n")})
    (tmp_path / "outer.tgz").write_bytes(
        gzip.compress(tar({"in.zip": inner, "in.tar.xz": lzma.compress(tar({"y": b"y\n"}))}))
    )
    assert read("outer.tgz").texts == {"outer.tgz:in.zip:x.log.gz": b"x\n", "outer.tgz:in.tar.xz:y": b"y\n"}


def test_sizes_are_known_where_the_archive_says_them(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(tar({"a": b"abc\n"}))
    (tmp_path / "z").write_bytes(zipped({"a": b"abcd\n"}))
    (tmp_path / "g").write_bytes(gzip.compress(b"abc\n"))
    (tmp_path / "p").write_bytes(b"ab\n")
    (tmp_path / "e").write_bytes(b"")
    sources = [source for source in open_sources([tmp_path]) if isinstance(source, Source)]
    assert {Path(source.name).name: source.size for source in sources} == {
        "t:a": 4, "z:a": 5, "g": None, "p": 3, "e": 0,
    }  # fmt: skip
    assert {source.host for source in sources} == {None}


def test_the_same_name_twice_is_told_apart(tmp_path: Path, read: Any) -> None:
    (tmp_path / "t").write_bytes(tar({"a": b"1\n"})[:1024] + tar({"a": b"2\n"}))
    assert read("t").texts == {"t:a": b"1\n", "t:a#2": b"2\n"}


def test_a_member_can_be_read_late_and_again(tmp_path: Path) -> None:
    members = {f"{i}.log": b"%d\n" % i * 4000 for i in range(5)}
    (tmp_path / "t.tgz").write_bytes(gzip.compress(tar(members)))
    (tmp_path / "z.zip").write_bytes(zipped(members))
    sources = [source for source in open_sources([tmp_path]) if isinstance(source, Source)]
    for _ in range(2):
        for source in reversed(sources):
            data = b"".join(chunk.data for chunk in source.chunks())
            assert data == members[source.name.rpartition(":")[2]]


def test_a_member_left_half_read_does_not_disturb_the_next(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(tar({"a": b"a\n" * 9000, "b": b"b\n"}))
    texts = []
    for source in open_sources([tmp_path / "t"], limits=Limits(chunk_bytes=100, hold_bytes=0)):
        assert isinstance(source, Source)
        texts.append(next(iter(source.chunks())).data[:2])
    assert texts == [b"a\n", b"b\n"]


@pytest.mark.parametrize("form", PACK)
def test_a_cut_file_gives_what_is_there(form: str, tmp_path: Path, read: Any) -> None:
    noise = random.Random(1)
    text = b"".join(
        b"%030x\n" % noise.getrandbits(120) for _ in range(70_000)
    )  # hard to compress: many blocks
    packed = PACK[form](text)
    (tmp_path / "a").write_bytes(packed[: len(packed) * 2 // 3])
    found = read("a")
    assert text.startswith(found.texts["a"])
    assert len(found.texts["a"]) > len(text) // 10
    assert "the archive ends early" in found.notes["a"][0]


def test_a_cut_tar_gives_what_is_there_and_says_so_twice(tmp_path: Path, read: Any) -> None:
    whole = tar({"a": LOG, "b": LOG, "c": LOG})
    (tmp_path / "t").write_bytes(whole[: len(whole) // 2])
    found = read("t")
    assert list(found.texts) == ["t:a", "t:b"]
    assert found.texts["t:a"] == LOG
    assert LOG.startswith(found.texts["t:b"])
    assert "ends early" in found.notes["t:b"][0]
    assert "ends early" in found.reasons["t"]


@pytest.mark.parametrize("form", PACK)
def test_damage_ends_the_text_with_a_note(form: str, tmp_path: Path, read: Any) -> None:
    packed = bytearray(PACK[form](LOG))
    packed[-12:-2] = b"\xaa" * 10
    (tmp_path / "a").write_bytes(packed)
    found = read("a")
    said = [*found.reasons.values(), *found.notes.get("a", [])]
    assert any("archive" in words for words in said)


@pytest.mark.parametrize("form", PACK)
def test_a_file_with_nothing_but_a_magic(form: str, tmp_path: Path, read: Any) -> None:
    (tmp_path / "a").write_bytes(PACK[form](LOG)[:6])
    found = read("a")
    assert found.texts == {}
    assert "ends early" in found.reasons["a"]


def test_a_zip_whose_member_is_damaged(tmp_path: Path, read: Any) -> None:
    packed = bytearray(zipped({"a.log": LOG, "b.log": b"b\n"}, zipfile.ZIP_STORED))
    packed[200] ^= 0xFF
    (tmp_path / "z").write_bytes(packed)
    found = read("z")
    assert found.texts["z:b.log"] == b"b\n"
    assert "damaged" in found.notes["z:a.log"][0]


@pytest.mark.parametrize("size", [3, 30, 60])
def test_a_cut_zip_is_unreadable(size: int, tmp_path: Path, read: Any) -> None:
    packed = zipped({"a.log": LOG})
    (tmp_path / "z").write_bytes(packed[:-size])
    found = read("z")
    assert found.texts == {}
    assert "damaged or cut" in found.reasons["z"]


def test_an_empty_archive_says_that_it_holds_nothing(tmp_path: Path, read: Any) -> None:
    (tmp_path / "z").write_bytes(zipped({}))
    (tmp_path / "t").write_bytes(tar({"only": b""}))
    found = read("z", "t")
    assert "holds no files" in found.reasons["z"]
    assert found.texts == {"t:only": b""}


def test_binary_members_are_named_with_what_they_are(tmp_path: Path, read: Any) -> None:
    (tmp_path / "t").write_bytes(
        tar({"a.png": b"\x89PNG\r\n\x1a\n" + bytes(99), "m": b"GGUF" + bytes(99), "l": b"x\n"})
    )
    found = read("t")
    assert list(found.texts) == ["t:l"]
    assert "PNG" in found.reasons["t:a.png"]
    assert "GGUF" in found.reasons["t:m"]


def test_every_reason_is_one_sentence_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "z").write_bytes(zipped({})[:-1])
    (unreadable,) = open_sources([tmp_path / "z"])
    assert isinstance(unreadable, Unreadable)
    assert ";" in unreadable.reason or "," in unreadable.reason
    assert "\n" not in unreadable.reason
