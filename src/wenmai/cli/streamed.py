"""An answer on the terminal while it is written."""

from rich.cells import cell_len
from rich.console import Console

from wenmai.chat.turn import TurnEvent
from wenmai.cli.console import printable
from wenmai.cli.wrapping import Wrapping


class Streamed:
    """Prints the tokens of one answer, and the whole of it again if it is replaced.

    Args:
        console: a terminal.
        name: stands before the answer.
        replaced: stands before the answer that replaces what was printed.
    """

    def __init__(self, console: Console, name: str, replaced: str) -> None:
        self._console = console
        self._name = printable(name)
        self._replaced = replaced
        self._wrapping: Wrapping | None = None

    async def hear(self, event: TurnEvent) -> None:
        """Print a token or a replacement."""
        if event.kind == "replace" and self._wrapping is not None:
            self.end()
            self._console.print(self._replaced, style="dim", markup=False)
        if event.kind in ("token", "replace"):
            self._print(self._begin().add(printable(event.data["text"])))

    def end(self) -> None:
        """End the line, if there is one."""
        if self._wrapping is not None:
            self._print(self._wrapping.end() + "\n")
            self._wrapping = None

    def _begin(self) -> Wrapping:
        if self._wrapping is None:
            self._console.print(self._name, style="bold cyan", end="", markup=False)
            self._wrapping = Wrapping(self._console.width, used=cell_len(self._name))
        return self._wrapping

    def _print(self, text: str) -> None:
        self._console.print(text, end="", markup=False, soft_wrap=True)
