"""A principal: for whom the sender of a request speaks, and what it may do."""

from typing import Literal, NamedTuple, get_args

import msgspec

from wenmai.auth.rates import Rate
from wenmai.errors import Forbidden, ScopeNotFound
from wenmai.scope import Scope

Right = Literal["chat", "read", "write", "admin", "erase"]
"""``chat``: ask personas. ``read``: sessions, messages, recall, evidence. ``write``: sessions, messages, preferences.
``admin``: evidence, prompts, personas, usage, metrics. ``erase``: users. None includes another."""

RIGHTS: tuple[Right, ...] = get_args(Right)

_DEFAULTS = Scope()


class ClaimNames(NamedTuple):
    """The claims of a token with the tenant, the user, the sites and the rights.

    Attributes:
        user: "" for tokens that speak for all users of their tenant.
    """

    tenant: str
    user: str
    sites: str
    rights: str


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """For whom a request speaks.

    Attributes:
        actor: the id of the API key, or ``sub:`` and the subject of the token; for the audit log.
        tenant_id: the only tenant.
        sites: the sites; empty for all of the tenant.
        user_id: the only user; empty for all of the tenant.
        rights: what it may do.
        rate: of its own, in place of the setting ``rate_limit``; None for that of the setting.
    """

    actor: str
    tenant_id: str
    sites: tuple[str, ...] = ()
    user_id: str = ""
    rights: frozenset[Right]
    rate: Rate | None = None

    def require(self, right: Right) -> None:
        """Check the right.

        Raises:
            Forbidden: it is missing.
        """
        if right not in self.rights:
            raise Forbidden(right)

    def scope(self, tenant_id: str | None, site_id: str | None, user_id: str | None) -> Scope:
        """The scope of a request that names these; None where it names none.

        A request that names no site gets the only or first one of the principal, or the default.

        Raises:
            ScopeNotFound: the request names a tenant, site or user that is not the principal's.
        """
        site = site_id or (self.sites[0] if self.sites else _DEFAULTS.site_id)
        user = user_id or self.user_id or _DEFAULTS.user_id
        foreign_site = bool(self.sites) and site not in self.sites
        foreign_user = bool(self.user_id) and user != self.user_id
        if (tenant_id or self.tenant_id) != self.tenant_id or foreign_site or foreign_user:
            raise ScopeNotFound(f"{tenant_id}/{site_id}/{user_id}")
        return Scope(self.tenant_id, site, user)
