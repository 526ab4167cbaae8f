"""Who a machine is: its key must be the one that is known, and a changed key is never taken."""

import base64
import contextlib
import hashlib
import hmac
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from diagnoser.sources.hosts.channel import ChannelError

SYSTEM_FILE = Path("/etc/ssh/ssh_known_hosts")


class Line(NamedTuple):
    """One line of a known_hosts file that speaks of a host."""

    file: Path
    number: int
    marker: str
    kind: str
    key: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


def lines_for(name: str, files: Sequence[Path]) -> Iterator[Line]:
    """The lines about a host (``host`` or ``[host]:port``). Raises `ChannelError`."""
    for file in files:
        try:
            text = file.read_text("utf-8", "replace")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ChannelError(f"{file} cannot be read: {error.strerror}") from error
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            marker = words.pop(0) if words and words[0].startswith("@") else ""
            if len(words) >= 3 and not words[0].startswith("#") and _speaks_of(words[0], name):
                yield Line(file, number, marker, words[1], words[2])


def _speaks_of(names: str, name: str) -> bool:
    """sshd(8), SSH_KNOWN_HOSTS FILE FORMAT: one hashed name, or patterns with * and ?, of which ! excludes."""
    if names.startswith("|1|"):
        try:
            salt, digest = (base64.b64decode(part) for part in names[3:].split("|"))
        except ValueError:
            return False
        return hmac.digest(salt, name.lower().encode(), "sha1") == digest
    hits = [pattern for pattern in names.split(",") if _like(pattern.removeprefix("!"), name)]
    return bool(hits) and not any(pattern.startswith("!") for pattern in hits)


def _like(pattern: str, name: str) -> bool:
    signs = {"*": ".*", "?": "."}
    return (
        re.fullmatch("".join(signs.get(sign) or re.escape(sign) for sign in pattern), name, re.I) is not None
    )


def _known(name: str, files: Sequence[Path]) -> list[Line]:
    """As ssh does, what is known of a host without its port counts where nothing is known with it."""
    files = [*files, SYSTEM_FILE]
    known = list(lines_for(name, files))
    with_port = re.fullmatch(r"\[(.+)\]:\d+", name)
    if with_port is not None:
        bare = list(lines_for(with_port[1], files))
        plain = any(not line.marker for line in known)
        known += [line for line in bare if line.marker == "@revoked" or not plain]
    return known


def check(name: str, key: Any, files: Sequence[Path], accept_new: bool) -> None:
    """Pass when the key is known. key: a `paramiko.PKey`.

    accept_new: write down the key of a host of which no key of any kind is known. Raises `ChannelError`.
    """
    known = _known(name, files)
    kind, encoded = key.get_name(), key.get_base64()
    for line in known:
        if line.marker == "@revoked" and line.key == encoded:
            raise ChannelError(f"{name}: its key {fingerprint(encoded)} is revoked in {line}; do not connect")
    plain = [line for line in known if not line.marker]
    if any(line.kind == kind and line.key == encoded for line in plain):
        return
    changed = next((line for line in plain if line.kind == kind), None)
    if changed is not None:
        raise ChannelError(
            f"{name}: its {kind} key has changed: {fingerprint(encoded)} now, {fingerprint(changed.key)} in {changed}; "
            "somebody may be in between, or it was installed anew: if you know that it was, remove that line"
        )
    if plain:
        raise ChannelError(
            f"{name}: it shows a {kind} key {fingerprint(encoded)}, but {plain[0]} knows only its {plain[0].kind} key; "
            "compare the fingerprint on the machine and add the key by hand"
        )
    if any(line.marker == "@cert-authority" for line in known):
        raise ChannelError(
            f"{name}: certificates of hosts are not checked here; add the host's own key to {files[0]}"
        )
    if not accept_new:
        raise ChannelError(
            f"{name}: its key {fingerprint(encoded)} ({kind}) is not in {files[0]}; compare it on the machine and use "
            "--accept-new-host-key to add it, or connect once with ssh"
        )
    add(files[0], f"{name} {kind} {encoded}")


def kinds(name: str, files: Sequence[Path]) -> set[str]:
    """The kinds of keys that are known of a host, so that it can be asked for one of them. Raises `ChannelError`."""
    known = _known(name, files)
    revoked = {line.key for line in known if line.marker == "@revoked"}
    return {line.kind for line in known if not line.marker and line.key not in revoked}


def add(file: Path, line: str) -> None:
    """Append a line; what other processes append at the same time stays whole. Raises `ChannelError`."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(file, "a+b", opener=_private) as known:
            with contextlib.suppress(ImportError):  # there is none on Windows
                import fcntl

                fcntl.flock(known, fcntl.LOCK_EX)
            known.seek(0, 2)
            if known.tell():
                known.seek(-1, 2)
                line = line if known.read(1) == b"\n" else "\n" + line
            known.write(line.encode() + b"\n")
    except OSError as error:
        raise ChannelError(f"{file} cannot be written: {error.strerror}") from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def fingerprint(encoded: str) -> str:
    """As `ssh-keygen -lf` prints it."""
    try:
        digest = hashlib.sha256(base64.b64decode(encoded)).digest()
    except ValueError:
        return "SHA256:?"
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")
