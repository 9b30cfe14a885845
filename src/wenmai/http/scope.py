"""Whose data a request is about: the scope headers, and what a chat body may say of it."""

from typing import Annotated, NamedTuple

from fastapi import Depends, Header, Request

from wenmai.errors import InvalidInput
from wenmai.http.shapes.common import ID_PATTERN
from wenmai.scope import Scope

OWNER_PATTERN = r"^[A-Za-z0-9_.:@-]{1,128}$"
_DEFAULTS = Scope()

TenantHeader = Annotated[
    str | None,
    Header(alias="X-Tenant-ID", pattern=OWNER_PATTERN, description="The tenant; `default` if left out."),
]
SiteHeader = Annotated[
    str | None,
    Header(alias="X-Site-ID", pattern=OWNER_PATTERN, description="The tenant's site; `default` if left out."),
]
UserHeader = Annotated[
    str | None,
    Header(alias="X-User-ID", pattern=OWNER_PATTERN, description="The visitor; `anonymous` if left out."),
]
TraceHeader = Annotated[
    str | None,
    Header(alias="X-Trace-ID", pattern=ID_PATTERN, description="The id that the turn's trace is to have."),
]
KeyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[ -~]{1,255}$",
        description="The same key and body again give the first answer and no second turn.",
    ),
]


class ScopeHeaders(NamedTuple):
    """What the headers say; None where they say nothing."""

    tenant_id: str | None
    site_id: str | None
    user_id: str | None

    def scope(self) -> Scope:
        """The scope, with the defaults where the headers say nothing."""
        return self.scope_with(ScopeHeaders(None, None, None))

    def scope_with(self, body: "ScopeHeaders") -> Scope:
        """The scope of headers and body together.

        Raises:
            InvalidInput: they contradict each other.
        """
        owners = []
        for field, header, named, default in zip(self._fields, self, body, _DEFAULTS, strict=True):
            if header is not None and named is not None and header != named:
                raise InvalidInput(field, named, "what the header says, or left out")
            owners.append(header or named or default)
        return Scope(*owners)


ONCE = ("X-Tenant-ID", "X-Site-ID", "X-User-ID", "X-Trace-ID", "Idempotency-Key")


async def scope_headers(
    request: Request, tenant: TenantHeader = None, site: SiteHeader = None, user: UserHeader = None
) -> ScopeHeaders:
    """The three headers of a request.

    Raises:
        InvalidInput: a header is repeated, so that another reader of the request might take the other value.
    """
    for name in ONCE:
        if len(request.headers.getlist(name)) > 1:
            raise InvalidInput(name, "", "given at most once")
    return ScopeHeaders(tenant, site, user)


HeadersGiven = Annotated[ScopeHeaders, Depends(scope_headers)]


async def scope_of(headers: HeadersGiven) -> Scope:
    """The scope that the headers name."""
    return headers.scope()


CallerScope = Annotated[Scope, Depends(scope_of)]
