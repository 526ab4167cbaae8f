"""What the user names is found once, in order, and nothing is skipped in silence."""

import io
import itertools
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from diagnoser.sources import Limits, Source, Unreadable, open_sources


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "logs/b.log",
        "logs/a.log",
        "logs/sub/c.log",
        "logs/.hidden",
        "logs/.git/config",
        "other.log",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")
    (tmp_path / "logs/core").write_bytes(b"\x7fELF" + os.urandom(200))
    return tmp_path


def test_a_folder_is_read_recursively_and_in_order(tree: Path, read: Any) -> None:
    found = read("logs")
    assert list(found.texts) == ["logs/a.log", "logs/b.log", "logs/sub/c.log"]
    assert "hidden" in found.reasons["logs/.hidden"]
    assert "hidden" in found.reasons["logs/.git"]
    assert "program or core dump" in found.reasons["logs/core"]
    assert len(found.reasons) == 3


def test_a_hidden_file_that_is_named_is_read(tree: Path, read: Any) -> None:
    assert read("logs/.hidden").texts == {"logs/.hidden": b"logs/.hidden\n"}


def test_the_order_of_arguments_does_not_matter(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    args = ["other.log", "logs", "logs/b.log", "./logs/a.log", "missing"]
    orders = {tuple(item.name for item in open_sources(order)) for order in itertools.permutations(args)}
    assert orders == {
        (
            "logs/.git",
            "logs/.hidden",
            "logs/a.log",
            "logs/b.log",
            "logs/core",
            "logs/sub/c.log",
            "missing",
            "other.log",
        )
    }


def test_links_to_the_same_file_count_once_and_the_file_keeps_its_name(tree: Path, read: Any) -> None:
    (tree / "logs/0-current").symlink_to("b.log")
    (tree / "link").symlink_to("logs/b.log")
    assert list(read("logs").texts) == ["logs/a.log", "logs/b.log", "logs/sub/c.log"]
    assert list(read("link").texts) == ["link"]


def test_a_link_to_a_hidden_place_in_the_tree_is_followed(tree: Path, read: Any) -> None:
    (tree / "logs/config").symlink_to(".git/config")  # as Kubernetes mounts its ConfigMaps
    assert read("logs").texts["logs/config"] == b"logs/.git/config\n"


def test_links_out_of_the_tree_loops_and_dangling_links(tree: Path, read: Any) -> None:
    (tree / "logs/out").symlink_to("../other.log")
    (tree / "logs/etc").symlink_to("/etc")
    (tree / "logs/loop").symlink_to(".")
    (tree / "logs/sub/up").symlink_to("..")
    (tree / "logs/nowhere").symlink_to("gone")
    (tree / "logs/self").symlink_to("self")
    found = read("logs")
    assert list(found.texts) == ["logs/a.log", "logs/b.log", "logs/sub/c.log"]
    assert "leads out" in found.reasons["logs/out"]
    assert "leads out" in found.reasons["logs/etc"]
    assert "link to nothing" in found.reasons["logs/nowhere"]
    assert "link to nothing" in found.reasons["logs/self"]
    assert "logs/loop" not in found.reasons


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("logs/*.log", ["logs/a.log", "logs/b.log"]),
        ("logs/**/*.log", ["logs/a.log", "logs/b.log", "logs/sub/c.log"]),
        ("**/c.log", ["logs/sub/c.log"]),
        ("*/[ab].log", ["logs/a.log", "logs/b.log"]),
        ("lo?s/a.*", ["logs/a.log"]),
        ("logs/.h*", ["logs/.hidden"]),
    ],
)
def test_patterns_that_the_shell_left_alone(pattern: str, names: list[str], tree: Path, read: Any) -> None:
    (tree / "logs/loop").symlink_to(".")
    found = read(pattern)
    assert list(found.texts) == names
    assert list(read(tree / pattern).texts) == [str(tree / name) for name in names]


def test_a_file_whose_name_is_a_pattern(tree: Path, read: Any) -> None:
    (tree / "a[1].log").write_text("x\n")
    assert list(read("a[1].log").texts) == ["a[1].log"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nope.log", "no such file"),
        ("logs/a.log/x", "no such file"),
        ("*.nope", "no file matches"),
        ("http://gpu-07:8000/metrics", "not opened here"),
        ("", "no file name"),
        ("a\0b", "no file name"),
        ("x" * 300, "cannot be opened"),
    ],
)
def test_what_is_not_there(path: str, words: str, tree: Path, read: Any) -> None:
    (reason,) = read(path).reasons.values()
    assert words in reason
    assert ";" in reason


def test_names_are_printable(tmp_path: Path, read: Any) -> None:
    (tmp_path / "a\nb\x1b[31m").write_text("x\n")
    (tmp_path / os.fsdecode(b"\xff.log")).write_text("y\n")
    assert list(read(".").texts) == [r"\udcff.log", r"a\nb\x1b[31m"]


def test_too_many_files_are_said(tree: Path, read: Any) -> None:
    assert "more than 2 files" in read("logs", limits=Limits(files=2)).reasons["logs"]


class _Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def test_standard_input_is_read_once(monkeypatch: pytest.MonkeyPatch, tree: Path) -> None:
    monkeypatch.setattr(sys, "stdin", _Stdin(b"pasted\n"))
    file, stdin = open_sources(["-", tree / "other.log", "-"])
    assert isinstance(stdin, Source)
    assert isinstance(file, Source)
    assert (stdin.name, stdin.size) == ("stdin", None)
    assert [chunk.data for chunk in stdin.chunks()] == [b"pasted\n"]
    assert [chunk.data for chunk in stdin.chunks()] == [b""]
    assert "only once" in stdin.notes[0]


def test_an_archive_on_standard_input(monkeypatch: pytest.MonkeyPatch, read: Any) -> None:
    import gzip
    import tarfile
    import zipfile

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo("a.log")
        info.size = 2
        archive.addfile(info, io.BytesIO(b"a\n"))
    monkeypatch.setattr(sys, "stdin", _Stdin(out.getvalue()))
    assert read("-").texts == {"stdin:a.log": b"a\n"}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as zipped:
        zipped.writestr("b.log", "b\n")
    monkeypatch.setattr(sys, "stdin", _Stdin(out.getvalue()))
    assert read("-").texts == {"stdin:b.log": b"b\n"}
    monkeypatch.setattr(sys, "stdin", _Stdin(gzip.compress(b"c\n")))
    assert read("-").texts == {"stdin": b"c\n"}


def test_what_a_shell_passes_for_a_command(tree: Path) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"from a command\n")
    os.close(write_end)
    (source,) = open_sources([f"/dev/fd/{read_end}"])
    assert isinstance(source, Source)
    assert b"".join(chunk.data for chunk in source.chunks()) == b"from a command\n"
    os.close(read_end)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("journal", b"LPKSHHRH" + bytes(50), "journalctl --file"),
        ("weights", (99).to_bytes(8, "little") + b'{"__metadata__":{}', "safetensors"),
        ("noise", bytes(range(256)) * 20, "binary data"),
        ("wtmp", b"\x08\0\0\0\x01\x02\x03ab\0\0\0\0\0" * 20, "binary data"),
        ("7z", b"7z\xbc\xaf\x27\x1c" + bytes(20), "unpack it"),
    ],
)
def test_binary_files_are_named(name: str, data: bytes, words: str, tmp_path: Path, read: Any) -> None:
    (tmp_path / name).write_bytes(data)
    found = read(name)
    assert found.texts == {}
    assert words in found.reasons[name]


@pytest.mark.parametrize(
    "data",
    [
        "größe in latin-1\n".encode("latin-1") * 9,
        "日志 GBK\n".encode("gbk") * 9,
        b"\x1b[31mred\x1b[0m\x07\x08\n",
        b"\0" * 9000 + b"after a hole\n",
        b"x",
        b"BZ is no bzip2\n",
        b"PK is no zip\n",
    ],
)
def test_these_are_texts(data: bytes, tmp_path: Path, read: Any) -> None:
    (tmp_path / "a").write_bytes(data)
    assert list(read("a").texts) == ["a"]


def test_files_without_a_size_are_read(read: Any) -> None:
    assert b"MemTotal" in read("/proc/meminfo").texts["/proc/meminfo"]


def test_nothing_given_is_nothing() -> None:
    assert list(open_sources([])) == []


def test_reasons_name_what_to_do(tree: Path) -> None:
    for item in open_sources([tree / "logs"]):
        if isinstance(item, Unreadable):
            assert ";" in item.reason
