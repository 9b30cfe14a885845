"""A writer process to be killed by tests."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
from crash_writer import Acknowledged, Order
from program import Program, output_of
from store_places import Place

WRITER = Path(__file__).with_name("crash_writer.py")


class Victim:
    """A writer process and its acknowledgements so far."""

    def __init__(self, program: Program, output: asyncio.StreamReader) -> None:
        self._program = program
        self._output = output
        self._lines: list[bytes] = []
        self._opening = asyncio.Event()
        self._writing = asyncio.Event()
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, place: Place, name: str, sessions: Sequence[str], begin: Sequence[int]) -> "Victim":
        """Start it and collect its acknowledgements. ``begin`` as in :class:`Order`."""
        order = Order(place=place, name=name, sessions=list(sessions), begin=list(begin))
        return cls(*await output_of([str(WRITER), msgspec.json.encode(order).decode()]))

    def __len__(self) -> int:
        return len(self._lines)

    async def opening(self) -> None:
        """Wait until it is about to open the store."""
        await self._opening.wait()
        assert self._lines, "it ended before"

    async def writing(self) -> None:
        """Wait for its first acknowledgement."""
        await self._writing.wait()
        assert len(self._lines) > 1, "it ended before"

    async def kill(self) -> list[Acknowledged]:
        """``kill -9``; returns everything that it had acknowledged."""
        self._program.kill()
        await asyncio.to_thread(self._program.wait)
        await self._listening
        return [msgspec.json.decode(line, type=Acknowledged) for line in self._lines]

    async def _listen(self) -> None:
        async for line in self._output:
            self._lines.append(line)
            (self._opening if len(self._lines) == 1 else self._writing).set()
        self._opening.set()
        self._writing.set()


def last_batches(acknowledged: Sequence[Acknowledged]) -> Counter[str]:
    """The number of the last acknowledged batch, by writer name."""
    latest: Counter[str] = Counter()
    for each in acknowledged:
        if each.kind == "append":
            writer, _, number = each.contents[0].removeprefix("completed ").split("|")[0].rpartition(".")
            latest[writer] = max(latest[writer], int(number))
    return latest
