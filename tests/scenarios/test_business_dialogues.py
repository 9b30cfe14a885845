"""Dialogues of ``business/`` over the engine with the profile they are named after, with no model."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from support import engine_at
from wenmai.chat.turn import TurnRequest
from wenmai.engine import Engine
from wenmai.scope import Scope

FOLDER = Path(__file__).parent / "business"
PROFILES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("profile", PROFILES)
async def test_state_and_citation_after_each_turn_are_as_written(profile: str) -> None:
    """Intent, object, stage and customer are exact; the passages are cited, whatever else is."""
    dialogues = yaml.safe_load((FOLDER / f"{profile}.yaml").read_text(encoding="utf-8"))
    async with engine_at("memory://", profile=profile) as engine:
        wrong = [line for name, turns in dialogues.items() for line in await _wrong_turns(engine, name, turns)]
    assert wrong == []


async def _wrong_turns(engine: Engine, name: str, turns: list[Any]) -> list[str]:
    session_id, wrong = None, []
    for ask, expected, *passages in turns:
        request = TurnRequest(scope=Scope(), persona_id="assistant", query=ask, session_id=session_id)
        answer = await engine.chat.ask(request)
        session_id = answer.session_id
        state = await engine.memory.states.get(Scope(), session_id)
        now = state.current
        found = [now.intent, now.business_object, now.operation_stage] if now else ["", "", ""]
        seen = " ".join(each or "-" for each in [*found, state.current_customer_id])
        cited = [citation.title.rpartition(" · ")[2] for citation in answer.citations]
        wanted = " ".join(passages).split()
        if seen != expected or not set(wanted) <= set(cited):
            wrong.append(f"{name}: {ask}: {seen} {cited}, expected {expected} {wanted}")
    return wrong
