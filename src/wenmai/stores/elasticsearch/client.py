"""Requests to the server, the same for OpenSearch and Elasticsearch: each with a timeout, its errors as ours."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from wenmai.errors import StoreUnavailable
from wenmai.stores.elasticsearch.address import Address
from wenmai.stores.elasticsearch.drivers import Answer, connect

CONNECTIONS = 32
"""Most connections of a store; further requests wait for a free one."""

SLOW_SECONDS = 60.0
"""Timeout of what may take long: removing many documents, creating indices."""

GRACE_SECONDS = 0.5
"""How much longer than the client's timeout a request may take."""

MAX_DOCUMENTS = 1_000
"""Documents of a request."""
MAX_BYTES = 4 * 2**20
"""Bytes of a bulk request, about; a server with little memory refuses more."""

CONFLICT, NOT_FOUND, ERROR = 409, 404, 300

_encode = msgspec.json.Encoder().encode
_JSON = {"accept": "application/json", "content-type": "application/json"}
_LINES = {"accept": "application/json", "content-type": "application/x-ndjson"}

Body = Mapping[str, Any]
_NO_PARAMS: Mapping[str, str] = {}


class Ref(NamedTuple):
    """The place of a document: its index, its id, and its routing, which is the id if empty."""

    home: str
    id: str
    routing: str = ""


class Found(NamedTuple):
    """A document as it is now, and what a write of it must name to succeed only if it is unchanged."""

    source: dict[str, Any]
    seq_no: int
    primary_term: int
    version: int


class Done(NamedTuple):
    """A write that was done, and what a later one must name to succeed only if nothing came in between."""

    seq_no: int
    primary_term: int


FAILED = Done(-1, -1)
"""The result of a write that may have been done or not."""


class Write(NamedTuple):
    """One action of a bulk request.

    Attributes:
        source: the new document; None deletes it.
        unchanged: what must be stored now; None if nothing may be.
        version: instead, the external version, which must be greater than that of the stored document.
        overwrite: instead, whatever is stored is replaced.
    """

    ref: Ref
    source: Body | None
    unchanged: Found | Done | None = None
    version: int | None = None
    overwrite: bool = False


class Client:
    """A connection to the server of one URL."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._driver = connect(address, connections=CONNECTIONS)

    @property
    def name(self) -> str:
        """The name of the server's kind."""
        return self._address.kind

    def index(self, name: str) -> str:
        """The full name of an index."""
        return f"{self._address.prefix}_{name}"

    async def close(self) -> None:
        """Close the connections."""
        await self._driver.close()

    async def call(
        self,
        method: str,
        path: str,
        body: Body | bytes | None = None,
        *,
        slow: bool = False,
        params: Mapping[str, str] = _NO_PARAMS,
    ) -> Answer:
        """The answer to a request; that of a refused one has ``error`` and ``status``.

        Raises:
            StoreUnavailable: the server cannot be reached, did not answer in time, or failed.
        """
        lines = isinstance(body, bytes)
        data = body if isinstance(body, bytes) or body is None else _encode(body)
        seconds = SLOW_SECONDS if slow else float(self._address.timeout)
        try:
            async with asyncio.timeout(seconds + GRACE_SECONDS):
                return await self._driver.request(method, path, params, _LINES if lines else _JSON, data, seconds)
        except TimeoutError as problem:
            raise StoreUnavailable(self.name, "the server did not answer in time") from problem

    async def must(
        self,
        method: str,
        path: str,
        body: Body | bytes | None = None,
        *,
        slow: bool = False,
        params: Mapping[str, str] = _NO_PARAMS,
    ) -> Answer:
        """As :meth:`call`, for requests that a server in order does not refuse.

        Raises:
            StoreUnavailable: also if it does.
        """
        answer = await self.call(method, path, body, slow=slow, params=params)
        if "error" in answer:
            raise StoreUnavailable(self.name, _reason(answer["error"]))
        return answer

    async def get(self, refs: Sequence[Ref], source: Sequence[str] = ()) -> list[Found | None]:
        """The documents as they are now, whether searches see them yet or not; None for absent ones.

        Args:
            refs: the documents.
            source: the fields wanted; all if empty.
        """
        parts = [refs[start : start + MAX_DOCUMENTS] for start in range(0, len(refs), MAX_DOCUMENTS)]
        answers = await asyncio.gather(*(self._get(part, source) for part in parts))
        return [found for answer in answers for found in answer]

    async def _get(self, refs: Sequence[Ref], source: Sequence[str]) -> list[Found | None]:
        docs = [
            {"_index": ref.home, "_id": ref.id}
            | ({"routing": ref.routing} if ref.routing else {})
            | ({"_source": list(source)} if source else {})
            for ref in refs
        ]
        answer = await self.must("POST", "/_mget", {"docs": docs})
        return [self._found(doc) for doc in answer["docs"]]

    def _found(self, doc: Any) -> Found | None:
        if "error" in doc:
            raise StoreUnavailable(self.name, _reason(doc["error"]))
        if not doc["found"]:
            return None
        return Found(doc["_source"], doc["_seq_no"], doc["_primary_term"], doc["_version"])

    async def write(
        self, writes: Sequence[Write], *, refresh: bool = False, first_decides: bool = False
    ) -> list[Done | None]:
        """Run the actions, durably, each for itself; return for each its result.

        None for one that met another document than it must (see :class:`Write`).

        Args:
            writes: the actions.
            refresh: let searches see them.
            first_decides: once the first was done, another may fail, and its result is :data:`FAILED`.

        Raises:
            StoreUnavailable: an action failed; others may be done.
        """
        done: list[Done | None] = []
        params = {"refresh": "true"} if refresh else {}
        for lines in _batches(writes):
            lenient = first_decides and bool(done)
            try:
                answer = await self.must("POST", "/_bulk", b"".join(lines), params=params)
                for item in answer["items"]:
                    done.append(self._done(item, lenient=lenient))
                    lenient = first_decides
            except StoreUnavailable:
                if not lenient:
                    raise
                done += [FAILED] * (len(writes) - len(done))
                break
        return done

    def _done(self, item: Any, *, lenient: bool) -> Done | None:
        [result] = item.values()
        status: int = result["status"]
        if status < ERROR:
            return Done(result["_seq_no"], result["_primary_term"])
        if status in (CONFLICT, NOT_FOUND):
            return None
        if lenient:
            return FAILED
        raise StoreUnavailable(self.name, _reason(result["error"]))

    async def search(self, index: str, body: Body, *, fresh: bool = False) -> Answer:
        """The answer to a search; with ``fresh``, of all that was written before."""
        if fresh:
            await self.refresh(index)
        return await self.must("POST", f"/{index}/_search", body)

    async def search_all(self, index: str, bodies: Sequence[Body], routing: str) -> list[Answer]:
        """The answers to several searches of documents with that routing; that of a refused one has ``error``."""
        header = _encode({"index": index, "routing": routing}) + b"\n"
        lines = [header + _encode(body) + b"\n" for body in bodies]
        answers: list[Answer] = (await self.must("POST", "/_msearch", b"".join(lines)))["responses"]
        return answers

    async def refresh(self, *indices: str) -> None:
        """Let searches see all that was written before."""
        await self.must("POST", f"/{','.join(indices)}/_refresh")

    async def delete_where(self, indices: Sequence[str], query: Body) -> int:
        """Remove the documents that match; return how many there were."""
        await self.refresh(*indices)
        answer = await self.must(
            "POST",
            f"/{','.join(indices)}/_delete_by_query",
            {"query": query},
            slow=True,
            params={"conflicts": "proceed", "refresh": "true"},
        )
        deleted: int = answer["deleted"]
        return deleted


def _batches(writes: Sequence[Write]) -> Iterable[list[bytes]]:
    lines: list[bytes] = []
    size = 0
    for write in writes:
        action = _action(write)
        if lines and (len(lines) >= MAX_DOCUMENTS or size + len(action) > MAX_BYTES):
            yield lines
            lines, size = [], 0
        lines.append(action)
        size += len(action)
    if lines:
        yield lines


def _action(write: Write) -> bytes:
    meta: dict[str, Any] = {"_index": write.ref.home, "_id": write.ref.id}
    if write.ref.routing:
        meta["routing"] = write.ref.routing
    kind = "index" if write.source is not None else "delete"
    if write.version is not None:
        meta |= {"version": write.version, "version_type": "external"}
    elif write.unchanged is not None:
        meta |= {"if_seq_no": write.unchanged.seq_no, "if_primary_term": write.unchanged.primary_term}
    elif write.source is not None and not write.overwrite:
        kind = "create"
    line = _encode({kind: meta}) + b"\n"
    return line if write.source is None else line + _encode(write.source) + b"\n"


def _reason(error: Any) -> str:
    """Type and reason of an error; the reason why a value cannot be parsed quotes it, and is left out."""
    kind = str(error.get("type"))
    return kind if "parsing" in kind else f"{kind}: {str(error.get('reason'))[:200]}"
