"""One question to a chat model whose answer is a JSON object of a known form."""

import asyncio
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from wenmai.chat.budgets import BudgetKeeper, exhausted
from wenmai.chat.metering import UsageMeter
from wenmai.errors import ModelError
from wenmai.memory.blocks import escape_markers
from wenmai.memory.library import Memory
from wenmai.providers.models import ChatModel, PromptMessage
from wenmai.scope import Scope

Reply = TypeVar("Reply")


class ReplyFailed(Exception):
    """The model gave no answer in time, or none of the form."""


class StructuredModel:
    """A chat model that is asked for JSON.

    Args:
        memory: the usage of the model is added to its ledger.
        budgets: checked before each call.
        model: asked once for each reply.
        seconds: timeout of a call.
    """

    def __init__(self, memory: Memory, budgets: BudgetKeeper, model: ChatModel, seconds: float) -> None:
        self._memory = memory
        self._budgets = budgets
        self._model = model
        self._seconds = seconds

    async def reply(
        self, scope: Scope, session_id: str | None, task: str, material: Mapping[str, object], form: type[Reply]
    ) -> Reply:
        """The model's answer.

        Args:
            scope: whose budgets are checked, and to whom the usage is counted.
            session_id: the same for a session.
            task: what the model is to do; it says that the material stands between markers.
            material: shown as JSON between markers, which nothing in it can close.
            form: of the answer.

        Raises:
            ReplyFailed: there is none; the message says why.
        """
        meter = UsageMeter()
        shown = f"【Material】\n{escape_markers(msgspec.json.encode(material).decode())}\n【End of material】"
        try:
            async with asyncio.timeout(self._seconds):
                if exhausted(await self._budgets.statuses(scope, session_id)):
                    raise ReplyFailed("a budget is exhausted")
                messages = [PromptMessage("system", task), PromptMessage("user", shown)]
                text = (await self._model.answer(messages, on_usage=meter)).text
        except (ModelError, TimeoutError) as problem:
            raise ReplyFailed(str(problem) or f"no answer within {self._seconds:g} s") from problem
        finally:
            await self._memory.usage.add(scope, session_id, meter.usage)
        try:
            return msgspec.json.decode(text[text.find("{") : text.rfind("}") + 1], type=form)
        except (msgspec.DecodeError, UnicodeEncodeError) as problem:
            raise ReplyFailed(str(problem)) from problem
