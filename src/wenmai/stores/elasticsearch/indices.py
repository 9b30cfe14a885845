"""The indices and their mappings, the same on both servers but for the type of vectors.

===================  ===========================================================================================
``_session_record``  sessions, with the personas of their threads
``_l2_memory``       business states
``_record``          all other records
``_l1_memory``       messages, for readers of any kind; see :mod:`.heads` for which of them count
``_thread``          the heads of threads, and the numbers of messages that came with an id
``_search``          entries of the search contract
``_schema``          the version of all this
===================  ===========================================================================================

Mappings are strict: what they do not name is an error, never a new field.
"""

from typing import Any

from wenmai.stores.contracts import BM25_B, BM25_K1
from wenmai.stores.elasticsearch.address import Kind
from wenmai.stores.records import BusinessState, Record, Session

SCHEMA_VERSION = 1
"""Of indices and documents."""

MESSAGES, THREADS, SEARCH, SCHEMA = "l1_memory", "thread", "search", "schema"
SESSIONS, STATES, OTHERS = "session_record", "l2_memory", "record"

RECORD_INDICES = (SESSIONS, STATES, OTHERS)

MAX_DIMENSION: dict[Kind, int] = {"opensearch": 16_000, "elasticsearch": 4_096}

_KEYWORD = {"type": "keyword"}
_LONG = {"type": "long"}
_SWITCH = {"type": "boolean"}
_STORED = {"type": "keyword", "index": False, "doc_values": False}
"""Text that is only read back, of any length."""

_COLUMN = {"type": "binary", "doc_values": True}
"""Bytes that searches return for each candidate, without reading its whole document."""

_SCOPE = dict.fromkeys(("tenant_id", "site_id", "user_id"), _KEYWORD | {"ignore_above": 8_000})

_RECORDS = _SCOPE | {
    "ref": _KEYWORD,
    "owner": _KEYWORD,
    "collection": _KEYWORD,
    "key": _KEYWORD,
    "session": _KEYWORD,
    "incarnation": _KEYWORD,
    "version": _LONG,
    "created_at": _LONG,
    "updated_at": _LONG,
    "keep_until": _LONG,
    "filters": _KEYWORD,
    "threads": _STORED,
    "deleted": _SWITCH,
    "record": _STORED,
}

_MESSAGES = _SCOPE | {
    "session_id": _KEYWORD,
    "incarnation": _KEYWORD,
    "npc_id": _KEYWORD,
    "thread": _KEYWORD,
    "id": _KEYWORD,
    "seq": _LONG,
    "turn_id": {"type": "integer"},
    "role": _KEYWORD,
    "content": {"type": "text", "analyzer": "cjk"},
    "timestamp": {"type": "date"},
    "name": _STORED,
    "tool_calls": _STORED,
    "tool_call_id": _STORED,
    "tokens": _LONG,
    "completed": _SWITCH,
    "metadata": _STORED,
}

_THREADS = {"session": _KEYWORD, "incarnation": _KEYWORD, "label": _KEYWORD, "seq": _LONG, "head": _STORED}

_SEARCH = {
    "owner": _KEYWORD,
    "id": _KEYWORD,
    "terms": {"type": "text", "analyzer": "whitespace", "similarity": "wenmai", "index_options": "freqs"},
    "text": {"type": "text", "analyzer": "cjk", "index_options": "freqs"},
    "length": _LONG,
    "values": _KEYWORD,
    "embedded": _SWITCH,
    "packed": _COLUMN,
    "vector": _COLUMN,
    "digest": _STORED,
    "dimension": _LONG,
}

_MAPPINGS: dict[str, dict[str, Any]] = {
    SESSIONS: _RECORDS,
    STATES: _RECORDS,
    OTHERS: _RECORDS,
    MESSAGES: _MESSAGES,
    THREADS: _THREADS,
    SEARCH: _SEARCH,
    SCHEMA: {"version": _LONG},
}

NAMES = tuple(_MAPPINGS)
"""All indices."""


def index_of(of: type[Record]) -> str:
    """The index of a record type."""
    return {Session: SESSIONS, BusinessState: STATES}.get(of, OTHERS)


def mapping_of(name: str) -> dict[str, Any]:
    """The mapping of an index; vectors are only kept as they came, beside their index."""
    mapping: dict[str, Any] = {"dynamic": "strict", "properties": _MAPPINGS[name]}
    return mapping | {"_source": {"excludes": [vector_field("*")]}} if name == SEARCH else mapping


def settings_of(name: str, kind: Kind, shards: int) -> dict[str, Any]:
    """The settings with which an index is created; every acknowledged write has been synced to the disk."""
    settings: dict[str, Any] = {
        "number_of_shards": shards,
        "auto_expand_replicas": "0-1",
        "translog.durability": "request",
    }
    if name == SEARCH:
        settings["similarity"] = {"wenmai": {"type": "BM25", "k1": BM25_K1, "b": BM25_B}}
        if kind == "opensearch":
            settings["knn"] = True
    return settings


def vector_field(dimension: int | str) -> str:
    """The field of the vectors of that length."""
    return f"vector_{dimension}"


def vector_mapping(kind: Kind, dimension: int) -> dict[str, Any]:
    """The mapping of that field, whose vectors have length 1."""
    if kind == "opensearch":
        method = {"name": "hnsw", "engine": "lucene", "space_type": "innerproduct"}
        return {"type": "knn_vector", "dimension": dimension, "method": method}
    return {"type": "dense_vector", "dims": dimension, "index": True, "similarity": "dot_product"}
