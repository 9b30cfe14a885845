"""Who is measured: each keeps the messages of sessions in one SQLite file, or on one server, its own way."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Any, NamedTuple, Protocol, cast

WINDOW = 10
"""Messages that the model sees."""

RoleAndContent = tuple[str, str]


class Contender(Protocol):
    """An open store of one contender."""

    async def fill(self, session: str, messages: Sequence[RoleAndContent]) -> None:
        """Begin a session with these messages, however fast it goes."""
        ...

    async def turn(self, session: str, question: str, answer: str) -> Sequence[str]:
        """Append the two messages durably, then give the contents of the newest ten, in order."""
        ...

    async def count(self, session: str) -> int:
        """How many messages the session has."""
        ...

    async def durability(self) -> dict[str, str]:
        """What SQLite says of the connection: ``journal_mode`` and ``synchronous``; of a server, nothing."""
        ...


Opened = Callable[[Any], AbstractAsyncContextManager[Contender]]
"""Opens a contender at its place: the path of a file, or the URL of a server."""

SQLITE, POSTGRESQL, REDIS = "SQLite", "PostgreSQL", "Redis"


class Entry(NamedTuple):
    """Where a contender is found.

    Attributes:
        module, opened: a module of this package, and the function in it that opens the contender.
        needs: the module without which it is skipped.
        what: one line for the table.
        on: what keeps its messages.
    """

    module: str
    opened: str
    needs: str
    what: str
    on: str = SQLITE


FLOOR = "sqlite3"
SHARED_FLOOR = "sqlite3, shared commits"
WENMAI = "Wenmai"
WENMAI_TWO_CALLS = "Wenmai, two calls"
ASYNCPG = "asyncpg"
WENMAI_ON_POSTGRESQL = "Wenmai on PostgreSQL"
REDIS_PY = "redis-py"
WENMAI_ON_REDIS = "Wenmai on Redis"

ENTRIES: dict[str, Entry] = {
    FLOOR: Entry("floor", "direct", "sqlite3", "one connection, called directly, a commit per turn"),
    SHARED_FLOOR: Entry("floor", "shared", "sqlite3", "one writer thread, what waits shares a commit"),
    WENMAI: Entry("own", "one_step", "wenmai", "SessionMemory.append_and_window"),
    WENMAI_TWO_CALLS: Entry("own", "two_calls", "wenmai", "SessionMemory.append, then window"),
    "OpenAI Agents SDK": Entry("openai_agents", "opened", "agents", "SQLiteSession: add_items, get_items(10)"),
    "LangGraph": Entry(
        "langgraph_saver",
        "opened",
        "langgraph.checkpoint.sqlite.aio",
        "AsyncSqliteSaver: aget_tuple, aput of the longer list",
    ),
    "agno": Entry("agno_db", "opened", "agno.db.sqlite", "SqliteDb: upsert_run, get_session of five runs"),
    ASYNCPG: Entry("server_floor", "on_postgresql", "asyncpg", "one statement that checks nothing", POSTGRESQL),
    WENMAI_ON_POSTGRESQL: Entry("own", "on_server", "asyncpg", "SessionMemory.append_and_window", POSTGRESQL),
    "OpenAI Agents SDK on PostgreSQL": Entry(
        "openai_agents_servers",
        "on_postgresql",
        "agents.extensions.memory.sqlalchemy_session",
        "SQLAlchemySession over asyncpg: add_items, get_items(10)",
        POSTGRESQL,
    ),
    REDIS_PY: Entry("server_floor", "on_redis", "redis.asyncio", "RPUSH and LRANGE in one pipeline", REDIS),
    WENMAI_ON_REDIS: Entry("own", "on_server", "redis.asyncio", "SessionMemory.append_and_window", REDIS),
    "OpenAI Agents SDK on Redis": Entry(
        "openai_agents_servers",
        "on_redis",
        "agents.extensions.memory.redis_session",
        "RedisSession: add_items, get_items(10)",
        REDIS,
    ),
}

FLOORS = {SQLITE: (FLOOR, SHARED_FLOOR), POSTGRESQL: (ASYNCPG, ASYNCPG), REDIS: (REDIS_PY, REDIS_PY)}
"""What the others are compared with: with one task, and with many."""


def load(name: str) -> Opened:
    """The function that opens the contender of that name.

    Raises:
        ModuleNotFoundError: what it needs is not installed.
    """
    entry = ENTRIES[name]
    import_module(entry.needs)
    return cast("Opened", getattr(import_module(f"{__name__}.{entry.module}"), entry.opened))


def library(module: str) -> Any:
    """The module of a peer."""
    return import_module(module)
