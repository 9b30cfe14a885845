"""A whole turn of a persona, without a model: the question is checked against evidence, and the answer cites it.

Needs ``pip install 'wenmai[chat]'``. The profile ``npc`` brings two personas of an invented village and their evidence.
"""

import asyncio

from wenmai.chat.turn import Token, TurnEvent, TurnRequest
from wenmai.engine import load_engine_settings, open_engine
from wenmai.scope import Scope


async def show(event: TurnEvent) -> None:
    """Print the answer as it comes."""
    if isinstance(event, Token):
        print(event.text, end="", flush=True)


async def main() -> None:
    """Ask, and show what supports the answer."""
    settings = load_engine_settings(flags={"store": "memory://"}).values
    async with open_engine(settings) as engine:
        request = TurnRequest(scope=Scope(), persona_id="ancestor_yan", query="祠堂是哪一年建的？")
        answer = await engine.chat.ask(request, on_event=show)
        print()
        for citation in answer.citations:
            print(f"[{citation.source_ref}] {citation.excerpt}")
        assert answer.policy_mode == "normal"


if __name__ == "__main__":
    asyncio.run(main())
