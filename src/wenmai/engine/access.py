"""Who may call the engine, and how often: what the setting ``auth`` accepts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from wenmai.auth.authentication import Authentication, open_tokens
from wenmai.auth.keys import ApiKeys
from wenmai.auth.principal import ClaimNames
from wenmai.auth.rate_limit import RateLimit, open_rate_limit
from wenmai.config.settings import Settings
from wenmai.resilience.breaker import BreakerPolicy
from wenmai.stores.key_prefix import with_key_prefix


@asynccontextmanager
async def limit_of_principals(settings: Settings, policy: BreakerPolicy | None) -> AsyncIterator[RateLimit | None]:
    """The limit of each principal; it has a bucket for all processes where there is a Redis server."""
    if settings.auth == "none":
        yield None
        return
    redis_url = settings.hot or (settings.store if settings.store.startswith("redis") else "")
    async with open_rate_limit(settings.rate_limit, with_key_prefix(redis_url, settings.key_prefix), policy) as limit:
        yield limit


def open_authentication(settings: Settings, keys: ApiKeys) -> Authentication:
    """What the setting ``auth`` accepts."""
    accepted = settings.auth.split(",")
    claims = ClaimNames(
        settings.jwt_tenant_claim,
        settings.jwt_user_claim,
        settings.jwt_sites_claim,
        settings.jwt_rights_claim,
    )
    tokens = None
    if "jwt" in accepted:
        tokens = open_tokens(settings.jwt_issuer, settings.jwt_audience, settings.jwt_keys, claims)
    return Authentication(keys if "keys" in accepted else None, tokens)
