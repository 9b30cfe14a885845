"""Receipts of erasures: what was removed from where, that nothing is left, and a signature."""

import hmac
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from wenmai.errors import InvalidInput

_PURPOSE = b"wenmai erasure receipt"

_LATER = {
    "sqlite": "free pages and the write-ahead log of the file keep removed rows until they are reused; VACUUM and a "
    "checkpoint remove them",
    "postgresql": "removed rows leave the disk with the next (auto)vacuum, and write-ahead logs with their recycling",
    "redis": "an append-only file or dump keeps removed keys until it is rewritten or saved next",
    "opensearch": "segments keep removed documents until they are merged, and the translog until it is rolled over",
    "milvus": "segments keep removed rows until they are compacted and collected",
    "cache": "other processes drop their cached entries within 30 seconds; a Redis cache that was unreachable drops "
    "its own when it is back, at the latest with their expiry",
}
_LATER |= {"elasticsearch": _LATER["opensearch"], "postgres": _LATER["postgresql"], "rediss": _LATER["redis"]}


class ErasedItems(msgspec.Struct, frozen=True, kw_only=True):
    """Removed items of one kind."""

    what: Annotated[str, Meta(description="The kind, such as `messages` or `traces`.")]
    where: Annotated[str, Meta(description="The store, such as `sqlite`.")]
    count: Annotated[int, Meta(description="How many were removed.")]
    left: Annotated[int, Meta(description="How many a search found afterwards.")] = 0


class ErasureReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt of an erasure."""

    erasure_id: Annotated[str, Meta(description="The erasure's id.")]
    tenant_id: Annotated[str, Meta(description="The tenant.")]
    site_id: Annotated[str, Meta(description="The site.")]
    user_id: Annotated[str, Meta(description="The erased user.")]
    started_at: Annotated[
        datetime, Meta(description="When the erasure was asked for, the last time if it was while it ran.")
    ]
    finished_at: Annotated[datetime, Meta(description="When nothing was left.")]
    erased: Annotated[list[ErasedItems], Meta(description="What was removed, from where.")]
    left: Annotated[int, Meta(description="Items that a search found afterwards.")]
    checked: Annotated[list[str], Meta(description="How it was searched for what could remain.")]
    later: Annotated[list[str], Meta(description="What the stores themselves do later with what was removed.")]
    continued: Annotated[
        bool | msgspec.UnsetType,
        Meta(
            description="Present, and true, if another run had counted before, which was interrupted or went on beside "
            "this one. What came between the two may then be missing in `count`."
        ),
    ] = msgspec.UNSET
    signature: Annotated[
        str, Meta(description="HMAC-SHA-256 by the setting `receipt_key`, in hexadecimal; empty without that setting.")
    ] = ""


class Receipts(msgspec.Struct, frozen=True, kw_only=True):
    """Issues and verifies receipts.

    Attributes:
        key: the secret that signs; empty for receipts without a signature.
        store: the kind of the store of documents and logs.
        search: the kind of the store of search indexes.
        keys_store: the kind of the store of data keys.
        cached: whether a Redis cache is in front.
    """

    key: str = ""
    store: str = "store"
    search: str = "store"
    keys_store: str = "store"
    cached: bool = False

    @classmethod
    def of_urls(cls, store: str, hot: str = "", search: str = "", keys_store: str = "", *, key: str = "") -> "Receipts":
        """Those of a store by its URLs; see :func:`wenmai.stores.opening.open_stores`."""
        kind = _kind_of(store)
        searched, keys = (_kind_of(url) if url else kind for url in (search, keys_store))
        return cls(key=key, store=kind, search=searched, keys_store=keys, cached=bool(hot))

    def later(self) -> list[str]:
        """What the stores do later with what was removed."""
        kinds = dict.fromkeys([self.store, self.search, self.keys_store, *(["cache"] if self.cached else [])])
        return [f"{kind}: {_LATER[kind]}" for kind in kinds if kind in _LATER]

    def subject(self, tenant_id: str, site_id: str, user_id: str) -> str:
        """A digest of the user, under which erasures are found."""
        named = msgspec.json.encode([tenant_id, site_id, user_id])
        return hmac.digest(b"wenmai erasure subject" + self.key.encode(), named, "sha256").hex()[:32]

    def signed(self, receipt: ErasureReceipt) -> ErasureReceipt:
        """The receipt with its signature, if there is a key."""
        if not self.key:
            return receipt
        return msgspec.structs.replace(receipt, signature=self._signature(receipt))

    def is_valid(self, receipt: ErasureReceipt) -> bool:
        """Whether this key has signed exactly this receipt.

        Raises:
            InvalidInput: there is no key.
        """
        if not self.key:
            raise InvalidInput("receipt_key", "", "the secret that signed the receipt")
        return hmac.compare_digest(self._signature(receipt), receipt.signature)

    def _signature(self, receipt: ErasureReceipt) -> str:
        content = msgspec.json.encode(msgspec.structs.replace(receipt, signature=""), order="deterministic")
        return hmac.digest(_PURPOSE + self.key.encode(), content, "sha256").hex()


def _kind_of(url: str) -> str:
    return url.partition(":")[0].partition("+")[0].lower()
