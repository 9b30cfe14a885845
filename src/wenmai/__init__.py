"""Wenmai 文脉: conversation memory in which facts come from evidence, never from memory.

>>> import wenmai
>>> async def conversation() -> None:
...     async with wenmai.open("memory://") as memory:
...         session = await memory.session()
...         await session.append([{"role": "user", "content": "你好"}, {"role": "assistant", "content": "你好！"}])
...         window = await session.window()
...         context = await session.context("我们说到哪儿了？", budget_tokens=1000)
"""

from wenmai.clock import MovableClock
from wenmai.errors import (
    Conflict,
    InvalidInput,
    MissingExtra,
    ModelError,
    NotFound,
    SessionExpired,
    SessionNotFound,
    StoreError,
    StoreUnavailable,
    WenmaiError,
)
from wenmai.memory.library import Memory, MemoryPolicy
from wenmai.memory.library import open_memory as open  # noqa: A004 — reads as wenmai.open(url)
from wenmai.memory.session_memory import SessionMemory
from wenmai.memory.window import Window, WindowLimits
from wenmai.scope import Scope
from wenmai.stores.encryption.settings import Encryption
from wenmai.stores.records import Message, NewMessage

__all__ = [
    "Conflict",
    "Encryption",
    "InvalidInput",
    "Memory",
    "MemoryPolicy",
    "Message",
    "MissingExtra",
    "ModelError",
    "MovableClock",
    "NewMessage",
    "NotFound",
    "Scope",
    "SessionExpired",
    "SessionMemory",
    "SessionNotFound",
    "StoreError",
    "StoreUnavailable",
    "WenmaiError",
    "Window",
    "WindowLimits",
    "open",
]
