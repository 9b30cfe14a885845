"""Prints an answer to the terminal while it is streamed."""

from rich.cells import cell_len
from rich.console import Console

from wenmai.chat.turn import Replacement, Token, TurnEvent
from wenmai.cli.terminal.wrapping import LineWrapper
from wenmai.text.printable import printable


class StreamPrinter:
    """Prints the tokens of one answer, and the whole answer if it is replaced.

    Args:
        console: a terminal.
        name: printed before the answer.
        replaced: printed before a replacement.
    """

    def __init__(self, console: Console, name: str, replaced: str) -> None:
        self._console = console
        self._name = printable(name)
        self._replaced = replaced
        self._wrapper: LineWrapper | None = None

    async def on_event(self, event: TurnEvent) -> None:
        """Print a token or a replacement."""
        if isinstance(event, Replacement) and self._wrapper is not None:
            self.end()
            self._console.print(self._replaced, style="dim", markup=False)
        if isinstance(event, Token | Replacement):
            self._print(self._begin().add(printable(event.text)))

    def end(self) -> None:
        """End the line, if one was started."""
        if self._wrapper is not None:
            self._print(self._wrapper.end() + "\n")
            self._wrapper = None

    def _begin(self) -> LineWrapper:
        if self._wrapper is None:
            self._console.print(self._name, style="bold cyan", end="", markup=False)
            self._wrapper = LineWrapper(self._console.width, used=cell_len(self._name))
        return self._wrapper

    def _print(self, text: str) -> None:
        self._console.print(text, end="", markup=False, soft_wrap=True)
