"""Offline turns of the assistant beside those of a persona, on SQLite: ``python -m benchmarks.assistant_turn``.

Both profiles answer conversations of four questions that need evidence, in turns. CPU and wall time per turn are
medians over the rounds. The assistant's turns have the business state and say how they were understood.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

from benchmarks.http_turn import QUESTIONS
from wenmai.chat.turn import TurnRequest
from wenmai.engine import Engine, load_engine_settings, open_engine
from wenmai.scope import Scope

ROUNDS, SESSIONS = 21, 8
ASKED = {
    "npc": ("ancestor_yan", (*QUESTIONS[:3], QUESTIONS[4])),
    "assistant": ("assistant", ("押品怎么创建？", "那入库呢？", "合同怎么审批？", "住宅押品的抵押率上限是多少？")),
}

Ask = Callable[[TurnRequest], Awaitable[str]]


def _asking(engine: Engine, *, queries: bool) -> Ask:
    """Runs a turn and returns its session."""

    async def ask(request: TurnRequest) -> str:
        answer = (await engine.queries.ask(request)).turn if queries else await engine.chat.ask(request)
        return answer.session_id

    return ask


async def _round(ask: Ask, persona: str, questions: tuple[str, ...]) -> tuple[float, float]:
    """CPU and wall time per turn, in ms."""
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(SESSIONS):
        session = None
        for question in questions:
            session = await ask(TurnRequest(scope=Scope(), persona_id=persona, query=question, session_id=session))
    turns = SESSIONS * len(questions)
    return 1e3 * (time.process_time() - cpu) / turns, 1e3 * (time.perf_counter() - wall) / turns


async def main() -> None:
    """Print the times of both, and their ratio."""
    async with AsyncExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="wenmai-bench-")))
        asks: dict[str, Ask] = {}
        for profile in ASKED:
            flags = {"profile": profile, "store": f"sqlite:///{folder / profile}.db", "embedder": "none"}
            engine = await opened.enter_async_context(
                open_engine(load_engine_settings(flags=flags, environment={}).values)
            )
            asks[profile] = _asking(engine, queries=profile == "assistant")
        times: dict[str, list[tuple[float, float]]] = {profile: [] for profile in ASKED}
        for _ in range(ROUNDS):
            for profile, (persona, questions) in ASKED.items():
                times[profile].append(await _round(asks[profile], persona, questions))
    for profile, rounds in times.items():
        cpu, wall = (median(each[at] for each in rounds[1:]) for at in (0, 1))
        print(f"{profile:10} CPU {cpu:.2f} ms, wall {wall:.2f} ms a turn")
    ratio = median(mine[0] / theirs[0] for mine, theirs in zip(times["assistant"], times["npc"], strict=True))
    print(f"assistant / npc: {ratio:.2f} of the CPU")


if __name__ == "__main__":
    asyncio.run(main())
