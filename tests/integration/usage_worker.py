"""A process beside a test that counts usage: ``python usage_worker.py STORE_URL TASKS TIMES``.

So many tasks at once each add one call so many times for one user of one tenant, then the process ends.
"""

import asyncio
import sys

from wenmai.memory.library import open_memory
from wenmai.scope import Scope
from wenmai.stores.records import TokenUsage

CALL = TokenUsage(calls=1, prompt_tokens=100, completion_tokens=10, cost_usd=0.25)
PAYER = Scope("payer", "site", "user")
SESSION_ID = "session-shared"


async def spend(url: str, tasks: int, times: int) -> None:
    """Add them all."""
    async with open_memory(url) as memory:

        async def one_after_the_other() -> None:
            for _ in range(times):
                await memory.usage.add(PAYER, SESSION_ID, CALL)

        await asyncio.gather(*(one_after_the_other() for _ in range(tasks)))


if __name__ == "__main__":
    asyncio.run(spend(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
