"""Input that wants to hurt: bombs, climbing names, links, endless streams, monstrous lines."""

import gzip
import io
import os
import random
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnoser.sources import Limits, Source, SourceError, open_sources

SMALL = Limits(bomb_bytes=100_000, bomb_ratio=50)


def tar_of(*infos: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for info, data in infos:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


def zip_of(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def test_a_gzip_bomb_is_given_up(tmp_path: Path, read: Any) -> None:
    (tmp_path / "bomb").write_bytes(gzip.compress(b"a\n" * 5_000_000))
    found = read("bomb", limits=SMALL)
    assert len(found.texts["bomb"]) < 3_000_000
    assert "50 times its size" in found.notes["bomb"][0]


def test_a_bomb_in_a_tar_stops_the_tar(tmp_path: Path, read: Any) -> None:
    (tmp_path / "t.gz").write_bytes(
        gzip.compress(tar_of((member("a"), b"a\n"), (member("b"), b"b\n" * 5_000_000), (member("c"), b"c\n")))
    )
    found = read("t.gz", limits=SMALL)
    assert found.texts["t.gz:a"] == b"a\n"
    assert "50 times its size" in found.notes["t.gz:b"][0]
    assert "50 times its size" in found.reasons["t.gz"]


def test_a_zip_bomb_is_counted_over_all_members(tmp_path: Path, read: Any) -> None:
    (tmp_path / "z").write_bytes(zip_of(**{f"m{i}": b"a\n" * 40_000 for i in range(20)}))
    found = read("z", limits=SMALL)
    assert sum(map(len, found.texts.values())) < 400_000
    assert any("50 times its size" in reason for reason in found.reasons.values())


def test_a_healthy_log_of_the_same_size_is_read(tmp_path: Path, read: Any) -> None:
    noise = random.Random(1)
    text = b"".join(b"Decode batch, gen throughput (token/s): %f\n" % noise.random() for _ in range(9000))
    (tmp_path / "a").write_bytes(gzip.compress(text))
    assert read("a", limits=SMALL) == ({"a": text}, {"a": []}, {})


def test_archives_are_entered_three_deep(tmp_path: Path, read: Any) -> None:
    data = zip_of(log=b"x\n")
    for _ in range(2):
        data = zip_of(z=data)
    (tmp_path / "three").write_bytes(data)
    (tmp_path / "four").write_bytes(zip_of(z=data))
    found = read("three", "four")
    assert found.texts == {"three:z:z:log": b"x\n"}
    assert "more than 3 deep" in found.reasons["four:z:z:z"]


def test_compression_upon_compression_ends_too(tmp_path: Path, read: Any) -> None:
    data = b"x\n"
    for _ in range(9):
        data = gzip.compress(data)
    (tmp_path / "a").write_bytes(data)
    assert "3 deep" in read("a").reasons["a"]


def test_too_many_members(tmp_path: Path, read: Any) -> None:
    (tmp_path / "t").write_bytes(tar_of(*((member(f"m{i}"), b"x\n") for i in range(12))))
    (tmp_path / "z").write_bytes(zip_of(**{f"m{i}": b"x\n" for i in range(12)}))
    found = read("t", "z", limits=Limits(members=10))
    assert len(found.texts) == 10
    assert "more than 10 files" in found.reasons["t"]
    assert "more than 10 files" in found.reasons["z"]


def test_members_of_inner_archives_count(tmp_path: Path, read: Any) -> None:
    inner = zip_of(a=b"a\n", b=b"b\n", c=b"c\n")
    (tmp_path / "t").write_bytes(tar_of(*((member(f"{i}.zip"), inner) for i in range(5))))
    assert len(read("t", limits=Limits(members=10)).texts) < 10


@pytest.mark.parametrize("extra", [{"source_bytes": 1000}, {"member_bytes": 1000, "sane_ratio": 2}])
def test_the_limit_for_one_text(extra: dict[str, int], tmp_path: Path, read: Any) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"abc\n" * 1000))
    found = read("a.gz", limits=Limits(**extra))
    assert found.texts["a.gz"] == b"abc\n" * 250
    assert "first 1000 bytes" in found.notes["a.gz"][0]


def test_a_plain_file_at_its_limit_is_whole(tmp_path: Path, read: Any) -> None:
    (tmp_path / "a").write_bytes(b"abc\n" * 250)
    assert read("a", limits=Limits(source_bytes=1000)).notes == {"a": []}


def test_climbing_and_absolute_names_are_only_names(tmp_path: Path, read: Any) -> None:
    (tmp_path / "in").mkdir()
    tar = tar_of(
        (member("../../evil"), b"1\n"), (member("/etc/evil"), b"2\n"), (member("a\x1b[31m\n"), b"3\n")
    )
    (tmp_path / "in" / "t").write_bytes(tar)
    found = read("in/t")
    assert list(found.texts.values()) == [b"1\n", b"2\n", b"3\n"]
    assert r"in/t:a\x1b[31m\n" in found.texts
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["in", "t"]


def test_links_and_devices_in_a_tar_are_reported(tmp_path: Path, read: Any) -> None:
    entries = [
        (member("link", tarfile.SYMTYPE, "/etc/shadow"), b""),
        (member("hard", tarfile.LNKTYPE, "a.log"), b""),
        (member("null", tarfile.CHRTYPE), b""),
        (member("pipe", tarfile.FIFOTYPE), b""),
        (member("dir", tarfile.DIRTYPE), b""),
        (member("a.log"), b"a\n"),
    ]
    (tmp_path / "t").write_bytes(tar_of(*entries))
    found = read("t")
    assert found.texts == {"t:a.log": b"a\n"}
    assert set(found.reasons) == {"t:link", "t:hard", "t:null", "t:pipe"}
    assert "'/etc/shadow'" in found.reasons["t:link"]


def test_links_in_a_zip_are_reported(tmp_path: Path, read: Any) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo("link")
        info.create_system = 3
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/shadow")
    (tmp_path / "z").write_bytes(out.getvalue())
    found = read("z")
    assert found.texts == {}
    assert "link" in found.reasons["z:link"]


def test_encrypted_zips_and_unknown_methods_are_reported(tmp_path: Path, read: Any) -> None:
    encrypted = bytearray(zip_of(a=b"secret\n"))
    encrypted[6] |= 1
    encrypted[encrypted.rindex(b"PK\1\2") + 8] |= 1
    (tmp_path / "e").write_bytes(encrypted)
    unknown = bytearray(zip_of(a=b"text\n"))
    unknown[8] = unknown[unknown.rindex(b"PK\1\2") + 10] = 97
    (tmp_path / "u").write_bytes(unknown)
    found = read("e", "u")
    assert "encrypted" in found.reasons["e:a"]
    assert "not known here (97)" in found.reasons["u:a"]


def test_impossible_sizes_in_a_tar(tmp_path: Path, read: Any) -> None:
    header = bytearray(tar_of((member("L", tarfile.GNUTYPE_LONGNAME), b"x" * 100))[:512])
    header[124:136] = b"77777777777\0"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "t").write_bytes(header + bytes(4096))
    assert "impossible size" in read("t").reasons["t"]


def test_a_zip_that_cannot_be_sought_is_held_up_to_its_limit(tmp_path: Path, read: Any) -> None:
    data = zip_of(log=os.urandom(3000).hex().encode())
    (tmp_path / "t").write_bytes(tar_of((member("z"), data)))
    assert list(read("t").texts) == ["t:z:log"]
    assert "unpack it" in read("t", limits=Limits(held_bytes=1000)).reasons["t:z"]


def test_pipes_sockets_and_devices_are_refused(tmp_path: Path, read: Any) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        found = read("fifo", "zero", "socket")
    assert found.texts == {}
    assert "pipe" in found.reasons["fifo"]
    assert "device" in found.reasons["zero"]
    assert "socket" in found.reasons["socket"]


def test_what_this_user_may_not_read(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from diagnoser.sources import open_sources\n"
        "os.chdir(sys.argv[1])\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "for item in open_sources(['.', 'd/x']): print(item.name, item.reason)\n"
    )
    folder = Path(tempfile.mkdtemp())  # the parents of tmp_path are root's own
    try:
        (folder / "a").touch(0)
        (folder / "d").mkdir(0)
        folder.chmod(0o755)
        run = subprocess.run(
            [sys.executable, "-c", script, folder], capture_output=True, text=True, check=True
        )
    finally:
        (folder / "d").chmod(0o700)
        shutil.rmtree(folder)
    words = "this user may not read it; run as its owner or give a copy"
    assert run.stdout.splitlines() == [f"a {words}", f"d {words}", f"d/x {words}"]


def test_a_source_left_half_read_says_so(tmp_path: Path) -> None:
    text = b"abc\n" * 300_000
    (tmp_path / "1.log").write_bytes(text)
    (tmp_path / "2.tar").write_bytes(tar_of((member("a"), text), (member("b"), b"b\n")))
    (tmp_path / "3.zip").write_bytes(zip_of(a=os.urandom(900_000).hex("\n", 30).encode(), b=b"b\n"))
    (tmp_path / "4.log").write_bytes(b"x\n")
    late = []
    for source in open_sources([tmp_path], limits=Limits(chunk_bytes=1000)):
        assert isinstance(source, Source)
        chunks = source.chunks()
        next(chunks)
        late.append((source, chunks))
    for source, chunks in late:
        assert sum(1 for _ in chunks) >= 0
        if source.size and source.size > 1_000_000:
            assert "read it again" in source.notes[-1]


def test_limits_that_leave_nothing_are_refused() -> None:
    with pytest.raises(SourceError, match="at least one byte"):
        Limits(chunk_bytes=0)


def test_a_file_that_grows_is_read_to_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"abc\n" * 100_000)
    (source,) = _sources(path, Limits(chunk_bytes=1000))
    data = b""
    for chunk in source.chunks():
        with path.open("ab") as file:
            file.write(b"more\n")
        data += chunk.data
    # The reading began after the source was found, so lines may have come in between; none is cut.
    assert data.startswith(b"abc\n" * 100_000)
    assert "it grew while it was read" in source.notes[0]


def test_a_file_that_vanishes_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"abc\n")
    (source,) = _sources(path, Limits())
    path.unlink()
    (chunk,) = source.chunks()
    assert (chunk.data, chunk.last) == (b"", True)
    assert "vanished" in source.notes[0]


def _sources(path: Path, limits: Limits) -> list[Source]:
    return [source for source in open_sources([path], limits=limits) if isinstance(source, Source)]


def _packed(data: bytes) -> list[bytes]:
    return [
        data,
        gzip.compress(data),
        tar_of((member("a"), data)),
        zip_of(a=data),
        gzip.compress(tar_of((member("a"), data))),
    ]


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_no_bytes_whatever_raise(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    raw = bytearray(
        data.draw(st.sampled_from(_packed(b"[2026-02-27 15:17:28] a\n" * 30)) | st.binary(max_size=600))
    )
    for _ in range(data.draw(st.integers(0, 5))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "hostile"
    path.write_bytes(raw[: data.draw(st.integers(0, len(raw)))])
    for source in open_sources([path]):
        if isinstance(source, Source):
            assert list(source.chunks())[-1].last


@pytest.mark.slow
def test_a_line_of_100_mb_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with path.open("wb") as file:
        file.write(b"before\n")
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b"\nafter\n")
    tracemalloc.start()
    try:
        (source,) = _sources(path, Limits())
        data = b"".join(chunk.data for chunk in source.chunks())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert data.startswith(b"before\nxxx")
    assert data.endswith(b" ...[99934464 bytes of this line not read]\nafter\n")
    assert (source.notes[0].line, source.notes[0].length_bytes) == (2, 100_000_000)
    assert peak < 16 << 20


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["yes '[2026-02-27 15:17:28] line'", "cat /dev/zero", "tr '\\0' x < /dev/zero"]
)
def test_an_endless_stream_stays_small_and_ends(command: str) -> None:
    script = (
        "import resource\n"
        "from diagnoser.sources import Limits, open_sources\n"
        "base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for source in open_sources(['-'], limits=Limits(source_bytes=1 << 30)):\n"
        "    for chunk in source.chunks(): pass\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) // 1024, source.notes[-1])\n"
    )
    start = time.monotonic()
    with subprocess.Popen(["sh", "-c", f"exec {command}"], stdout=subprocess.PIPE) as endless:
        out = subprocess.run(
            [sys.executable, "-c", script], stdin=endless.stdout, capture_output=True, text=True, check=True
        )
        endless.kill()
    mebibytes, note = out.stdout.split(" ", 1)
    assert int(mebibytes) < 64
    assert "1073741824 bytes" in note
    assert time.monotonic() - start < 120
