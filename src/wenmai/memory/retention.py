"""Retention: how long what is stored is kept, by kind and tenant."""

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from wenmai.stores.validation import check_range

LONGEST_DAYS = 36_500
"""A century: times that are farther away cannot be calculated with everywhere."""


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long each kind is kept; None for ever.

    Attributes:
        sessions: after their end, with everything that belongs to them.
        traces: after they are stored.
        episodes: entries of the recall index, after the time of their message.
    """

    sessions: timedelta | None = None
    traces: timedelta | None = timedelta(days=30)
    episodes: timedelta | None = None

    @classmethod
    def of_days(
        cls, *, sessions: int | None = None, traces: int | None = None, episodes: int | None = None
    ) -> "Retention":
        """The retention for these days; None or 0 for ever.

        Raises:
            InvalidInput: they are not 0 to 36 500.
        """
        kept = {"sessions": sessions, "traces": traces, "episodes": episodes}
        for kind, days in kept.items():
            check_range(f"{kind.removesuffix('s')}_retention_days", days or 0, 0, LONGEST_DAYS)
        return cls(**{kind: timedelta(days=days) if days else None for kind, days in kept.items()})


class RetentionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The retention of all tenants.

    Attributes:
        default: of tenants that are not listed.
        tenants: of those that are, by id.
    """

    default: Retention = Retention()
    tenants: Mapping[str, Retention] = {}

    @property
    def is_limited(self) -> bool:
        """Whether sessions or entries of any tenant end; traces always end by themselves."""
        kinds = [(each.sessions, each.episodes) for each in (self.default, *self.tenants.values())]
        return any(kept is not None for pair in kinds for kept in pair)

    def of(self, tenant_id: str) -> Retention:
        """The retention of a tenant."""
        return self.tenants.get(tenant_id, self.default)
