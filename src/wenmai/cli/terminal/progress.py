"""Progress bars on stderr, shown only in a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """A progress bar."""

    def __init__(self, progress: "Progress", task: "TaskID") -> None:
        self._progress = progress
        self._task = task

    def show(self, completed: float, text: str = "", *, total: float | None = None) -> None:
        """Update the position and the text."""
        self._progress.update(self._task, completed=completed, total=total, text=text)


@contextmanager
def bar(title: str, total: float | None = None) -> Iterator[Bar]:
    """A progress bar for the duration of the context; ``total`` is None if unknown."""
    from rich.console import Console  # noqa: PLC0415 — slow to import
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    console = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with progress:
        yield Bar(progress, progress.add_task(title, total=total, text=""))
