"""Checks at opening that the database can be used and has current tables."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from time import monotonic

import asyncpg

from wenmai.errors import InvalidInput, StoreTooNew, StoreUnavailable
from wenmai.stores.postgresql.address import EXAMPLE, Address
from wenmai.stores.postgresql.database import connect, translated_errors
from wenmai.stores.postgresql.pool import Connection
from wenmai.stores.sql.migrations import REVISION, VERSION_TABLE, upgrade_script
from wenmai.stores.upgrades import OnStep, Schema, Step

OLDEST_SERVER = 14
LOCK_KEY = 0x57454E4D
"""``WENM``: the advisory lock for creating and upgrading the tables."""

LOCK_SECONDS = 60
"""How long a process waits for a migration by another process before it reports the store unavailable."""

MIGRATION_SECONDS = 3_600.0

KNOWN = int(REVISION)

_CONFIGURATION_ERRORS: tuple[tuple[type[asyncpg.PostgresError], str], ...] = (
    (asyncpg.InvalidAuthorizationSpecificationError, "a URL whose user and password the server accepts"),
    (asyncpg.InvalidCatalogNameError, "a URL of a database that exists (createdb makes one)"),
    (asyncpg.InsufficientPrivilegeError, "a database in which this user may connect and create tables"),
    (asyncpg.UndefinedObjectError, "a URL whose parameters the server knows"),
)
"""Errors that no retry can fix, and what is required instead."""


async def prepare_schema(address: Address, on_step: OnStep) -> None:
    """Check the server, and create or upgrade the tables, revision by revision, each in one transaction.

    Raises:
        InvalidInput: the URL, user, database or server cannot be used; the message says what is required.
        StoreTooNew: a newer Wenmai wrote the tables.
        StoreUnavailable: the server cannot be reached or is read-only, or the tables are another program's.
    """
    async with _checked_server(address) as connection:
        await _check_writable(connection, address)
        while await _revision(connection, address) < KNOWN:
            await _step(connection, address, on_step)
        await _check_rights(connection, address)


async def schema_of(address: Address) -> Schema:
    """The schema of the tables, which are not changed.

    Raises:
        InvalidInput, StoreTooNew, StoreUnavailable: as for :func:`prepare_schema`.
    """
    async with _checked_server(address) as connection:
        return Schema(await _revision(connection, address), KNOWN)


@asynccontextmanager
async def _checked_server(address: Address) -> AsyncIterator[Connection]:
    """A separate connection to a checked server; failures are raised as our errors."""
    with translated_errors(), _translated_configuration_errors(address):
        connection = await connect(address)
        try:
            await _check_server(connection, address)
            yield connection
        finally:
            connection.terminate()


@contextmanager
def _translated_configuration_errors(address: Address) -> Iterator[None]:
    """Raise errors in the configuration as :class:`InvalidInput`, unlike temporary failures."""
    try:
        yield
    except (ValueError, asyncpg.ClientConfigurationError) as problem:
        if isinstance(problem, asyncpg.PostgresError):
            raise
        # The driver's message may quote the password.
        raise InvalidInput("store", address.shown, f"a URL like {EXAMPLE}") from None
    except OSError as problem:
        why = "no answer in time" if isinstance(problem, TimeoutError) else problem.strerror or type(problem).__name__
        reason = f"no connection to {address.shown} ({why})"
        raise StoreUnavailable("postgresql", reason) from problem
    except asyncpg.PostgresError as problem:
        for kind, wanted in _CONFIGURATION_ERRORS:
            if isinstance(problem, kind):
                raise InvalidInput("store", address.shown, f"{wanted}: {problem.args[0]}") from problem
        raise


async def _check_server(connection: Connection, address: Address) -> None:
    settings = connection.get_settings()
    if connection.get_server_version().major < OLDEST_SERVER:
        wanted = f"a server of PostgreSQL {OLDEST_SERVER} or later (it is {settings.server_version})"
        raise InvalidInput("store", address.shown, wanted)
    encoding = settings.server_encoding
    if encoding != "UTF8":
        raise InvalidInput("store", address.shown, f"a database whose encoding is UTF8 (it is {encoding})")


async def _check_writable(connection: Connection, address: Address) -> None:
    if await connection.fetchval("SHOW transaction_read_only") == "on":
        reason = f"{address.shown} is read-only: it is a standby, or default_transaction_read_only is on"
        raise StoreUnavailable("postgresql", reason)


async def _check_rights(connection: Connection, address: Address) -> None:
    """Report at the start, not at the first message, that the user may not write."""
    rows = await connection.fetch(
        "SELECT c.relname FROM pg_class c "
        "WHERE c.relkind = 'r' AND c.relname <> $1 "
        "AND c.relnamespace = (SELECT m.relnamespace FROM pg_class m WHERE m.oid = to_regclass('messages')) "
        "AND NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') "
        "AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')) ORDER BY 1",
        VERSION_TABLE,
    )
    if rows:
        tables = ", ".join(row["relname"] for row in rows)
        wanted = (
            f"a database whose tables this user may read and write (GRANT SELECT, INSERT, UPDATE, DELETE ON {tables})"
        )
        raise InvalidInput("store", address.shown, f"{wanted} {tables}")


async def _revision(connection: Connection, address: Address) -> int:
    """The revision of the tables, 0 if there are none yet.

    Raises:
        StoreTooNew: it is newer than this Wenmai knows.
        StoreUnavailable: another program has tables with our names.
    """
    ours, others = await connection.fetchrow(
        "SELECT to_regclass($1) IS NOT NULL, to_regclass('conversations') IS NOT NULL", VERSION_TABLE
    ) or (False, False)
    if not ours:
        if others:
            reason = (
                f"{address.shown} has a table 'conversations' of another program; use a separate database for Wenmai"
            )
            raise StoreUnavailable("postgresql", reason)
        return 0
    found = int(await connection.fetchval(f"SELECT version_num FROM {VERSION_TABLE}") or 0)
    if found > KNOWN:
        raise StoreTooNew(address.shown, found=found, known=KNOWN)
    return found


async def _step(connection: Connection, address: Address, on_step: OnStep) -> None:
    """Upgrade the tables to the next revision, unless another process has done it meanwhile."""
    await _detect_dead_client(connection)
    async with connection.transaction():
        await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'; SET LOCAL statement_timeout = 0")
        await connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK_KEY, timeout=LOCK_SECONDS + 1)
        began = monotonic()
        found = await _revision(connection, address)
        if found == KNOWN:
            return
        script = upgrade_script(found)
        step = Step("postgresql", found, found + 1, *await _row_counts(connection, found))
        on_step(step)
        await connection.execute(script, timeout=MIGRATION_SECONDS)
    on_step(step._replace(seconds=monotonic() - began))


async def _detect_dead_client(connection: Connection) -> None:
    """Let the server abort a step, and release its locks, if this process is killed."""
    with suppress(asyncpg.InvalidParameterValueError):  # not supported on every operating system
        await connection.execute("SET client_connection_check_interval = '1s'")


async def _row_counts(connection: Connection, found: int) -> tuple[int, int]:
    """The number of sessions and messages."""
    if not found:
        return 0, 0
    counted = "SELECT (SELECT count(*) FROM conversations), (SELECT count(*) FROM messages)"
    sessions, messages = await connection.fetchrow(counted, timeout=MIGRATION_SECONDS) or (0, 0)
    return sessions, messages
