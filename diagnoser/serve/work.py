"""One diagnosis in a process of its own: bounded in time and memory, killed when nobody waits for it any more.

What was sent is written to a folder that is gone when the answer is there; nothing else is kept.
"""

import asyncio
import contextlib
import os
import re
import resource
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NamedTuple

from diagnoser.serve.limits import Limits

_UNSAFE = re.compile(r"[^\w.+-]")


class Upload(NamedTuple):
    """A file as it was sent. name: what the sender called it."""

    name: str
    data: bytes


class WorkError(Exception):
    """Why there is no answer: an HTTP status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Desk:
    """Runs diagnoses, a few at a time; the rest waits in line, and who comes when the line is full is sent away."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._places = asyncio.Semaphore(limits.at_once)
        self._waiting = 0

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place to work. Raises `WorkError` (429) where too many wait already."""
        if self._waiting >= self.limits.waiting:
            raise WorkError(429, "too many diagnoses are waiting; try again in a minute")
        self._waiting += 1
        try:
            await self._places.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._places.release()

    async def diagnose(self, uploads: Sequence[Upload], report: str | None = None) -> tuple[str, str | None]:
        """The diagnosis as JSON, and the postmortem where ``report`` names its suffix ("html", "md")."""
        async with self.place():
            with tempfile.TemporaryDirectory(prefix="diagnose-") as name:
                folder = Path(name)
                names = _written(folder / "given", uploads)
                target = folder / f"report.{report}"
                further = ["--report", str(target)] if report else []
                text = await self._run(["-f", "json", *further, "--", *names], folder / "given")
                return text, target.read_text("utf-8") if report and target.exists() else None

    async def _run(self, arguments: Sequence[str], folder: Path) -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "diagnoser", *arguments,
            cwd=folder, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, env={**os.environ, "NO_COLOR": "1"},
        )  # fmt: skip
        if sys.platform == "linux":
            resource.prlimit(process.pid, resource.RLIMIT_AS, (self.limits.memory_bytes,) * 2)
        try:
            output, errors = await asyncio.wait_for(process.communicate(), self.limits.seconds)
        except TimeoutError:
            raise WorkError(
                504, f"the diagnosis took longer than {self.limits.seconds:g} s and was stopped"
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode not in (0, 1):
            sentence = errors.decode("utf-8", "replace").removeprefix("diagnose: ").strip()
            raise WorkError(422, sentence.splitlines()[0] if sentence else "nothing could be read")
        return output.decode("utf-8", "replace")


def _written(folder: Path, uploads: Sequence[Upload]) -> list[str]:
    """Write the files under names that lead nowhere else; two of one name are told apart."""
    folder.mkdir()
    names: list[str] = []
    for number, upload in enumerate(uploads, 1):
        name = (
            _UNSAFE.sub("_", upload.name.replace("\\", "/").rsplit("/", 1)[-1])[-100:].lstrip(".-") or "paste"
        )
        if name in names:
            name = f"{number}-{name}"
        (folder / name).write_bytes(upload.data)
        names.append(name)
    return names
