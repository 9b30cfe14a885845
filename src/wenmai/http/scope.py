"""The scope of a request, from its headers and, for chat, its body."""

from typing import Annotated, NamedTuple

from fastapi import Depends, Header, Request

from wenmai.auth.principal import Principal
from wenmai.errors import InvalidInput
from wenmai.http.authorization import principal_of
from wenmai.http.schemas.common import ID_PATTERN
from wenmai.scope import Scope

SCOPE_NAME_PATTERN = r"^[A-Za-z0-9_.:@-]{1,128}$"
_DEFAULTS = Scope()

TenantHeader = Annotated[
    str | None,
    Header(alias="X-Tenant-ID", pattern=SCOPE_NAME_PATTERN, description="The tenant; default: `default`."),
]
SiteHeader = Annotated[
    str | None,
    Header(alias="X-Site-ID", pattern=SCOPE_NAME_PATTERN, description="The tenant's site; default: `default`."),
]
UserHeader = Annotated[
    str | None,
    Header(alias="X-User-ID", pattern=SCOPE_NAME_PATTERN, description="The user; default: `anonymous`."),
]
TraceHeader = Annotated[
    str | None,
    Header(alias="X-Trace-ID", pattern=ID_PATTERN, description="The id of the turn's trace; generated if omitted."),
]
IdempotencyKeyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[ -~]{1,255}$",
        description="A retry with the same key and body returns the first answer and runs no second turn.",
    ),
]


class ScopeHeaders(NamedTuple):
    """The scope as given by headers or body; None where it is not given.

    Attributes:
        principal: for whom the request speaks; None without authentication.
    """

    tenant_id: str | None
    site_id: str | None
    user_id: str | None
    principal: Principal | None = None

    def scope(self) -> Scope:
        """The scope, with defaults for missing headers."""
        return self.scope_with(ScopeHeaders(None, None, None))

    def scope_with(self, body: "ScopeHeaders") -> Scope:
        """The scope of headers and body combined.

        Raises:
            InvalidInput: headers and body contradict each other.
            ScopeNotFound: they name a tenant, site or user that is not the principal's.
        """
        names = []
        for field, header, in_body in zip(self._fields[:3], self[:3], body[:3], strict=True):
            if header is not None and in_body is not None and header != in_body:
                raise InvalidInput(field, in_body, "the value of the header, or omitted")
            names.append(header or in_body)
        if self.principal is not None:
            return self.principal.scope(*names)
        return Scope(*(name or default for name, default in zip(names, _DEFAULTS, strict=True)))


SINGLE_VALUED_HEADERS = ("X-Tenant-ID", "X-Site-ID", "X-User-ID", "X-Trace-ID", "Idempotency-Key")


async def scope_headers(
    request: Request, tenant: TenantHeader = None, site: SiteHeader = None, user: UserHeader = None
) -> ScopeHeaders:
    """The scope headers of a request.

    Raises:
        InvalidInput: a header is repeated; another component might read the other value.
    """
    names = [name.decode("latin-1") for name, _ in request.headers.raw]
    for name in SINGLE_VALUED_HEADERS:
        if names.count(name.lower()) > 1:
            raise InvalidInput(name, "", "given at most once")
    return ScopeHeaders(tenant, site, user, principal_of(request))


ScopeHeadersDep = Annotated[ScopeHeaders, Depends(scope_headers)]


async def get_scope(headers: ScopeHeadersDep) -> Scope:
    """The scope given by the headers."""
    return headers.scope()


CallerScope = Annotated[Scope, Depends(get_scope)]
