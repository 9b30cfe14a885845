"""Usage of models."""

from typing import ClassVar, Literal

from wenmai.stores.records.base import Record, RecordSpec


class UsageRecord(Record, frozen=True, kw_only=True):
    """One shard of the model usage of a day, for one user or tenant; see :mod:`wenmai.memory.usage`.

    Attributes:
        day: YYYY-MM-DD, UTC.
        of: the id of the tenant; for a user the site id, then the user id.
    """

    spec: ClassVar[RecordSpec] = RecordSpec("usage", key="ref", shared=True, filters=("day",))

    ref: str
    day: str
    kind: Literal["user", "tenant"]
    of: str
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
