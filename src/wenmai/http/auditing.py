"""The audit log of the caller's tenant, for routes that administer."""

from typing import Annotated, NamedTuple

from fastapi import Depends, Request

from wenmai.http.authorization import principal_of
from wenmai.http.dependencies import EngineDep
from wenmai.http.scope import CallerScope
from wenmai.memory.audit import AuditLog


class Auditor(NamedTuple):
    """Records acts of the caller in its tenant and site."""

    log: AuditLog
    tenant_id: str
    site_id: str
    actor: str

    async def record(self, act: str, **details: object) -> None:
        """Append an entry; durable on return."""
        texts = {name: str(value) for name, value in details.items()}
        await self.log.record(self.tenant_id, act, actor=self.actor, site=self.site_id, **texts)


async def get_auditor(request: Request, scope: CallerScope, engine: EngineDep) -> Auditor:
    """The auditor of the request."""
    principal = principal_of(request)
    return Auditor(engine.memory.audit, scope.tenant_id, scope.site_id, principal.actor if principal else "")


AuditorDep = Annotated[Auditor, Depends(get_auditor)]
