"""In the library, what belongs to another tenant, site or user looks absent; no method with an id is left out."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from typing import Any

import msgspec
import pytest

from wenmai.errors import WenmaiError
from wenmai.interchange import export_lines
from wenmai.memory.library import Memory, open_memory
from wenmai.memory.preferences import PreferenceChange
from wenmai.memory.state_correction import StateCorrection
from wenmai.memory.window import WindowLimits
from wenmai.scope import Scope, ThreadKey

OWNER = Scope("t1", "s1", "u1")
OTHERS = [Scope("t1", "s1", "u2"), Scope("t1", "s2", "u1"), Scope("t2", "s1", "u1")]
OWN, ABSENT = "own-session", "any-session"
SAID = "屋后的老樟树下埋着一坛酒"
MESSAGE = {"role": "user", "content": "你好"}
PARTS = ("contexts", "history", "preferences", "sessions", "states", "summaries", "transcript")
"""Parts of the memory that callers use; the others work for these."""

Arguments = Callable[[str, ThreadKey], tuple[Any, ...]]

ROWS: dict[str, Arguments] = {
    "contexts.build": lambda _, thread: (thread, "樟树"),
    "history.append": lambda id_, _: (id_, [(None, MESSAGE)]),
    "history.latest_turns": lambda _, thread: (thread, 5),
    "history.overview": lambda id_, _: (id_,),
    "history.page": lambda id_, _: (id_,),
    "preferences.get": lambda id_, _: (id_,),
    "preferences.infer": lambda id_, _: (id_, [[("assistant#1", "以后请简短一点回答。")]], ["樟树"]),
    "preferences.set": lambda id_, _: (id_, PreferenceChange(tone="casual")),
    "preferences.would_change": lambda id_, _: (id_, [[("assistant#1", "以后请简短一点回答。")]], ["樟树"]),
    "sessions.change": lambda id_, _: (id_, lambda session: session),
    "sessions.delete": lambda id_, _: (id_,),
    "sessions.delete_thread": lambda id_, _: (id_, "assistant"),
    "sessions.get": lambda id_, _: (id_,),
    "sessions.of_thread": lambda _, thread: (thread,),
    "sessions.rename": lambda id_, _: (id_, "New"),
    "states.changes": lambda id_, _: (id_,),
    "states.correct": lambda id_, _: (id_, StateCorrection(current_customer_id="c1")),
    "states.get": lambda id_, _: (id_,),
    "states.reset": lambda id_, _: (id_,),
    "states.understand": lambda id_, _: (id_, "樟树呢"),
    "summaries.discard": lambda _, thread: (thread,),
    "summaries.get": lambda _, thread: (thread,),
    "transcript.append": lambda _, thread: (thread, [MESSAGE]),
    "transcript.latest": lambda _, thread: (thread, 5),
    "transcript.threads": lambda id_, _: (id_,),
    "transcript.truncate": lambda _, thread: (thread, 0),
    "transcript.window": lambda _, thread: (thread, WindowLimits()),
}
"""The arguments after the scope, for the id of a session and for its thread."""

CREATING = {"sessions.insert", "sessions.open"}
"""They say that an id is taken: they give a new one."""

OF_A_MESSAGE = {"transcript.complete"}
"""It takes a message, which only its owner has read."""


SILENT = {"states.understand", "summaries.discard"}
"""The owner gets the same back, as the memory has no rules, and as discarding returns nothing."""


@pytest.fixture
async def memory(store_url: str) -> AsyncIterator[Memory]:
    """The owner's session of six turns, in each store."""
    async with open_memory(store_url) as opened:
        session = await opened.session(OWN, scope=OWNER)
        for number in range(6):
            question, answer = f"{number}：{SAID}？", f"{number}：{SAID}。"
            await session.append([{"role": "user", "content": question}, {"role": "assistant", "content": answer}])
        await session.prefer(verbosity="brief")
        await opened.states.correct(OWNER, OWN, StateCorrection(current_customer_id="owner"))
        await opened.derived.catch_up()
        yield opened


def methods(memory: Memory) -> Iterator[str]:
    """The methods of the parts that take the id of a session, or a thread."""
    for part in PARTS:
        for name, method in inspect.getmembers(getattr(memory, part), inspect.iscoroutinefunction):
            if not name.startswith("_") and {"session_id", "thread"} & set(inspect.signature(method).parameters):
                yield f"{part}.{name}"


async def outcome(memory: Memory, method: str, scope: Scope, session_id: str, incarnation: str | None) -> str:
    """What a method returns or raises, without times and with a mark for the session's id."""
    part, _, name = method.partition(".")
    arguments = ROWS[method](session_id, ThreadKey(session_id, "assistant", incarnation))
    try:
        returned = await getattr(getattr(memory, part), name)(scope, *arguments)
    except WenmaiError as problem:
        returned = f"{type(problem).__name__}: {problem}"
    plain = msgspec.to_builtins(returned, enc_hook=repr, builtin_types=(datetime,))
    return repr(_without_times(plain)).replace(session_id, "{}")


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_times(each) for each in value]
    return "time" if isinstance(value, datetime) else value


async def exported(memory: Memory) -> list[bytes]:
    """Everything of the owner."""
    return [line async for line in export_lines(memory, OWNER)]


async def test_every_method_with_an_id_has_a_row(memory: Memory) -> None:
    """A new method that takes a session or a thread is tried with a foreign one."""
    assert {*methods(memory)} == {*ROWS, *CREATING, *OF_A_MESSAGE}


@pytest.mark.parametrize("method", ROWS)
async def test_what_is_anothers_looks_absent(memory: Memory, method: str) -> None:
    """A method does with another's session what it does with one that nobody has, and the owner's stays as it is."""
    foreign, before = "", await exported(memory)
    incarnation = (await memory.sessions.get(OWNER, OWN)).record.incarnation
    for other in OTHERS:
        for named in (None, incarnation):
            foreign = await outcome(memory, method, other, OWN, named)
            assert foreign == await outcome(memory, method, other, ABSENT, named), (other, named)
            assert SAID not in foreign
    assert await exported(memory) == before
    assert (await outcome(memory, method, OWNER, OWN, incarnation) == foreign) == (method in SILENT)
