"""A progress bar for long inputs: on a terminal only, and only after a moment."""

import time
from types import TracebackType
from typing import IO, Any

SHOW_AFTER_S = 1.0


class Bar:
    """Shown on ``file`` when it is a terminal and reading takes longer than `SHOW_AFTER_S`."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._terminal = file.isatty()
        self._began = time.monotonic()
        self._progress: Any = None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> "Bar":
        return self

    def update(self, name: str, done: int, size: int | None) -> None:
        """So many bytes of a source are read."""
        if not self._terminal or time.monotonic() - self._began < SHOW_AFTER_S:
            return
        if self._progress is None:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                DownloadColumn(),
                TimeRemainingColumn(),
                console=Console(file=self._file),
                transient=True,
            )
            self._progress.start()
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name[-40:], total=size)
        self._progress.update(self._tasks[name], completed=done)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
