"""The calls to a Milvus server: blocking, each with a timeout, in batches; its errors as ours.

No text of a user is ever part of a filter: rows are found by digests (:mod:`.rows`), so there is nothing to escape.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

import grpc
from pymilvus import DataType, MilvusClient
from pymilvus.exceptions import MilvusException

from wenmai.errors import StoreUnavailable

Row = Mapping[str, Any]

READ_SECONDS = 4.0
"""Timeout of a read, below that of a search (:data:`wenmai.retrieval.index.SEARCH_SECONDS`)."""
WRITE_SECONDS = 30.0
"""Timeout of a write, of a listing, and of a change of collections."""

BATCH = 500
"""Rows of a call."""
BATCH_BYTES = 8 * 2**20
"""Bytes of a call, about; a server takes 64 MB."""
LISTED = 16_384
"""Most rows that a server lists."""

_NO_PINGS = {"grpc.keepalive_time_ms": 360_000, "grpc.keepalive_permit_without_calls": 0}
"""The driver's pings, one in 10 s, are too many for a server with gRPC's default of one in 5 minutes: it hangs up."""

KEY_LENGTH = 80
PAYLOAD_BYTES = 60_000
"""Most bytes of a row's payload; a server allows 65 535."""


class Client:
    """A connection to a server, for any number of threads."""

    def __init__(self, uri: str, *, user: str = "", password: str = "", database: str = "") -> None:
        # It raises its errors; a traceback of each in the log besides is noise.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        self._loaded: set[str] = set()
        self._lock = Lock()
        with self._translated_errors():
            self._milvus = MilvusClient(
                uri, user=user, password=password, db_name=database, timeout=READ_SECONDS, grpc_options=_NO_PINGS
            )

    def load(self, names: Collection[str]) -> None:
        """Load the collections whose names begin with one of these: of a file, that takes a second."""
        with self._translated_errors():
            found = self._milvus.list_collections(timeout=WRITE_SECONDS)
        for collection in found:
            if collection.startswith(tuple(names)):
                self.exists(collection)

    def close(self) -> None:
        """Close the connection."""
        self._milvus.close()

    def ping(self) -> None:
        """Return if the server answers.

        Raises:
            StoreUnavailable: it does not.
        """
        with self._translated_errors():
            self._milvus.list_collections(timeout=READ_SECONDS)

    def exists(self, collection: str) -> bool:
        """Whether there is such a collection; it is indexed and loaded then."""
        if collection in self._loaded:
            return True
        with self._lock, self._translated_errors():
            if not self._milvus.has_collection(collection, timeout=WRITE_SECONDS):
                return False
            if not self._milvus.list_indexes(collection, timeout=WRITE_SECONDS):
                indexes = MilvusClient.prepare_index_params()
                indexes.add_index("vector", index_type="FLAT", metric_type="COSINE")
                indexes.add_index("owner", index_type="INVERTED")
                self._milvus.create_index(collection, indexes, timeout=WRITE_SECONDS, sync=False)
            self._milvus.load_collection(collection, timeout=WRITE_SECONDS)
            self._loaded.add(collection)
        return True

    def create(self, collection: str, dimension: int) -> None:
        """Create the collection unless it exists; its rows have a vector of that length."""
        if self.exists(collection):
            return
        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("pk", DataType.VARCHAR, max_length=KEY_LENGTH, is_primary=True)
        schema.add_field("tenant", DataType.VARCHAR, max_length=KEY_LENGTH, is_partition_key=True)
        schema.add_field("owner", DataType.VARCHAR, max_length=KEY_LENGTH)
        schema.add_field("version", DataType.VARCHAR, max_length=KEY_LENGTH)
        schema.add_field("payload", DataType.VARCHAR, max_length=PAYLOAD_BYTES)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
        try:
            with self._translated_errors():
                self._milvus.create_collection(
                    collection, schema=schema, consistency_level="Strong", timeout=WRITE_SECONDS
                )
        except StoreUnavailable:
            if not self.exists(collection):  # another process may have created it meanwhile
                raise
        self.exists(collection)

    def get(self, collection: str, keys: Sequence[str], fields: Sequence[str]) -> list[Row]:
        """The rows that have these keys, in any order."""
        if not keys or not self.exists(collection):
            return []
        rows: list[Row] = []
        for start in range(0, len(keys), BATCH):
            with self._translated_errors():
                rows += self._milvus.get(
                    collection, list(keys[start : start + BATCH]), output_fields=list(fields), timeout=READ_SECONDS
                )
        return rows

    def list_rows(self, collection: str, tenant: str, owner: str, fields: Sequence[str], prefix: str = "") -> list[Row]:
        """All rows of an owner, in any order; with a prefix, those whose keys begin with it."""
        if not self.exists(collection):
            return []
        begins = f' and pk like "{prefix}%"' if prefix else ""
        with self._translated_errors():
            rows: list[Row] = self._milvus.query(
                collection,
                filter=f'tenant == "{tenant}" and owner == "{owner}"{begins}',
                output_fields=list(fields),
                limit=LISTED,
                timeout=WRITE_SECONDS,
            )
        if len(rows) < LISTED:
            return rows
        return [
            row
            for digit in "0123456789abcdef"
            for row in self.list_rows(collection, tenant, owner, fields, prefix + digit)
        ]

    def upsert(self, collection: str, rows: Sequence[Row]) -> None:
        """Insert or replace the rows."""
        for batch in _batches(rows):
            with self._translated_errors():
                self._milvus.upsert(collection, batch, timeout=WRITE_SECONDS)

    def delete(self, collection: str, keys: Sequence[str]) -> None:
        """Delete the rows that have these keys, and check that none of them is found any more.

        Raises:
            StoreUnavailable: one is.
        """
        if not keys or not self.exists(collection):
            return
        for start in range(0, len(keys), BATCH):
            with self._translated_errors():
                self._milvus.delete(collection, ids=list(keys[start : start + BATCH]), timeout=WRITE_SECONDS)
        if self.get(collection, keys, ["pk"]):
            raise StoreUnavailable("milvus", "deleted rows are still found")

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise the driver's errors as ours."""
        try:
            yield
        except MilvusException as problem:
            self._loaded.clear()  # a server that was started again has loaded none
            raise StoreUnavailable("milvus", problem.message or str(problem)) from problem
        except grpc.RpcError as problem:
            self._loaded.clear()
            raise StoreUnavailable("milvus", str(problem.code())) from problem


def _batches(rows: Sequence[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for row in rows:
        weight = 4 * len(row["vector"]) + len(row["payload"])
        if batch and (len(batch) == BATCH or size + weight > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += weight
    if batch:
        yield batch
