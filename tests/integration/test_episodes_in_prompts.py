"""Earlier turns that are related to a question are in the prompt, beside the window."""

from collections.abc import AsyncIterator

import pytest

from scripted_model import ScriptedModel, scripted_model
from support import engine_at
from wenmai.chat.turn import TurnAnswer, TurnRequest
from wenmai.engine import Engine
from wenmai.scope import Scope
from wenmai.stores.records import Block

PLANTED = "我的船叫白鹭号，停在渡口。"
QUESTION = "祠堂是什么时候建的？离白鹭号停的渡口远吗？"


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    """A model that answers from the evidence."""
    async with scripted_model() as running:
        running.answer = "严氏祠堂始建于明嘉靖二年（1523年）[1]。"
        yield running


async def ask(engine: Engine, query: str, **changes: object) -> TurnAnswer:
    """Ask the ancestor, unless another persona is given."""
    given = {"scope": Scope(), "persona_id": "ancestor_yan", "query": query} | changes
    return await engine.chat.ask(TurnRequest(**given))  # type: ignore[arg-type]


async def blocks(engine: Engine, answer: TurnAnswer) -> dict[str, Block]:
    """The blocks that the model saw, by kind."""
    trace = (await engine.traces.get(Scope(), answer.trace_id)).record
    return {block.kind: block for block in trace.blocks}


@pytest.mark.parametrize("store", ["memory://", "sqlite"])
async def test_what_was_said_in_another_session_is_recalled(model: ScriptedModel, store: str, tmp_path: object) -> None:
    """To the same persona alone; nothing is recalled that the history shows, nor for an incognito turn."""
    url = f"sqlite:///{tmp_path}/wenmai.db" if store == "sqlite" else store
    async with engine_at(url, **model.settings) as engine:
        await ask(engine, PLANTED)
        await engine.memory.derived.catch_up()
        answer = await ask(engine, QUESTION)
        recalled = await blocks(engine, answer)
        assert PLANTED in recalled["episodes"].text
        assert answer.degraded == []
        await engine.memory.derived.catch_up()
        again = await blocks(engine, await ask(engine, QUESTION, session_id=answer.session_id))
        assert again["episodes"].text.count(QUESTION) == 0
        assert QUESTION in again["history"].text
        elder = await blocks(engine, await ask(engine, QUESTION, persona_id="village_elder"))
        assert PLANTED not in "".join(block.text for block in elder.values())
        incognito = await blocks(engine, await ask(engine, QUESTION, incognito=True))
        assert "episodes" not in incognito
