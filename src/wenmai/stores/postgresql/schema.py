"""Making sure at opening that the database can be used and has our tables."""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from wenmai.errors import InvalidInput, StoreTooNew, StoreUnavailable
from wenmai.stores.migrations import REVISION, VERSION_TABLE, upgrade_script
from wenmai.stores.postgresql.address import EXAMPLE, Address
from wenmai.stores.postgresql.database import connect, translated_errors
from wenmai.stores.postgresql.pool import Connection

OLDEST_SERVER = 14
LOCK_KEY = 0x57454E4D
"""``WENM``: the advisory lock under which one process at a time makes or changes the tables."""

LOCK_SECONDS = 60
"""How long a process waits for another one's migration before it reports the store unavailable."""

MIGRATION_SECONDS = 3_600.0

_NOT_USABLE: tuple[tuple[type[asyncpg.PostgresError], str], ...] = (
    (asyncpg.InvalidAuthorizationSpecificationError, "a URL whose user and password the server accepts"),
    (asyncpg.InvalidCatalogNameError, "a URL of a database that exists (createdb makes one)"),
    (asyncpg.InsufficientPrivilegeError, "a database in which this user may connect and create tables"),
    (asyncpg.UndefinedObjectError, "a URL whose parameters the server knows"),
)
"""What no later try would change, and what would."""


async def prepare_schema(address: Address) -> None:
    """Check the server, and create or upgrade the tables.

    Raises:
        InvalidInput: the URL, the user, the database or the server will not do; says what would.
        StoreTooNew: a newer Wenmai wrote the tables.
        StoreUnavailable: the server cannot be reached, or the tables are another program's.
    """
    with translated_errors(), _refused_urls(address):
        connection = await connect(address)
        try:
            await _check_server(connection, address)
            if await _revision(connection, address) != REVISION:
                await _upgrade(connection, address)
        finally:
            connection.terminate()


@contextmanager
def _refused_urls(address: Address) -> Iterator[None]:
    """Raise as :class:`InvalidInput` what is wrong with the setting, not with the moment."""
    try:
        yield
    except (ValueError, asyncpg.ClientConfigurationError) as problem:
        if isinstance(problem, asyncpg.PostgresError):
            raise
        # The driver's words may quote the password.
        raise InvalidInput("store", address.shown, f"a URL like {EXAMPLE}") from None
    except OSError as problem:
        reason = f"no connection to {address.shown} ({problem.strerror or type(problem).__name__})"
        raise StoreUnavailable("postgresql", reason) from problem
    except asyncpg.PostgresError as problem:
        for kind, wanted in _NOT_USABLE:
            if isinstance(problem, kind):
                raise InvalidInput("store", address.shown, f"{wanted}: {problem.args[0]}") from problem
        raise


async def _check_server(connection: Connection, address: Address) -> None:
    found = connection.get_server_version()
    if found.major < OLDEST_SERVER:
        wanted = f"a server of PostgreSQL {OLDEST_SERVER} or later (it is {found.major}.{found.minor})"
        raise InvalidInput("store", address.shown, wanted)
    encoding = connection.get_settings().server_encoding
    if encoding != "UTF8":
        raise InvalidInput("store", address.shown, f"a database whose encoding is UTF8 (it is {encoding})")
    available = await connection.fetchval("SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')")
    if not available:
        wanted = "a server with pgvector: install the extension 'vector' beside PostgreSQL"
        raise InvalidInput("store", address.shown, wanted)


async def _revision(connection: Connection, address: Address) -> str | None:
    """The revision of our tables, None if there are none yet.

    Raises:
        StoreTooNew: it is newer than ours.
        StoreUnavailable: there are tables of ours by name that are not ours.
    """
    ours, others = await connection.fetchrow(
        "SELECT to_regclass($1) IS NOT NULL, to_regclass('conversations') IS NOT NULL", VERSION_TABLE
    ) or (False, False)
    if not ours:
        if others:
            reason = (
                f"{address.shown} has a table 'conversations' of another program; give Wenmai a database of its own"
            )
            raise StoreUnavailable("postgresql", reason)
        return None
    found: str | None = await connection.fetchval(f"SELECT version_num FROM {VERSION_TABLE}")
    if found is not None and int(found) > int(REVISION):
        raise StoreTooNew(address.shown, found=int(found), known=int(REVISION))
    return found


async def _upgrade(connection: Connection, address: Address) -> None:
    async with connection.transaction():
        await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'; SET LOCAL statement_timeout = 0")
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK_KEY, timeout=LOCK_SECONDS + 1)
        found = await _revision(connection, address)
        if found != REVISION:
            await connection.execute(upgrade_script(found), timeout=MIGRATION_SECONDS)
