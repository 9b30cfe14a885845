"""What settings and profiles say of the memory: lifetimes, windows, retention, business rules."""

from collections.abc import Sequence
from datetime import timedelta

from wenmai.config.profile import Profile
from wenmai.config.settings import Settings
from wenmai.config.sources import LoadedProfile
from wenmai.errors import InvalidInput
from wenmai.memory.block_budget import DEFAULT_WEIGHTS, BlockWeight
from wenmai.memory.library import MemoryPolicy
from wenmai.memory.retention import Retention, RetentionPolicy
from wenmai.memory.window import WindowLimits


def memory_policy(settings: Settings, profiles: Sequence[LoadedProfile], *, titled_by_model: bool) -> MemoryPolicy:
    """What the memory keeps, and for how long, by the settings and the profiles."""
    profile = profiles[0].profile
    return MemoryPolicy(
        session_lifetime=timedelta(seconds=settings.session_lifetime_seconds),
        session_ids=settings.session_ids,
        window=WindowLimits(**settings.window),
        history_cap=settings.history_cap,
        language=settings.language,
        topic_words=[word for each in profiles for word in each.profile.lexicon.topics],
        block_weights={
            **DEFAULT_WEIGHTS,
            **{kind: BlockWeight(share.weight, share.limit) for kind, share in profile.blocks.items()},
        },
        rule_titles_final=not titled_by_model,
        retention=_retention(settings, [each.profile for each in profiles]),
        business=next((each.profile.business for each in profiles if each.profile.business), None),
    )


def _retention(settings: Settings, profiles: Sequence[Profile]) -> RetentionPolicy:
    """That of the settings, and of the tenants that a profile names.

    Raises:
        InvalidInput: a tenant's sessions are to be kept longer than the settings allow, or anything over a century.
    """
    days = (settings.session_retention_days, settings.trace_retention_days, settings.episode_retention_days)
    tenants = {}
    for tenant_id, own in [each for profile in profiles for each in profile.retention.items()]:
        if own.session_days and 0 < settings.session_retention_days < own.session_days:
            allowed = f"at most session_retention_days, {settings.session_retention_days}"
            raise InvalidInput(f"retention.{tenant_id}.session_days", own.session_days, allowed)
        named = (own.session_days, own.trace_days, own.episode_days)
        sessions, traces, episodes = (mine or default for mine, default in zip(named, days, strict=True))
        tenants[tenant_id] = Retention.of_days(sessions=sessions, traces=traces, episodes=episodes)
    default = Retention.of_days(sessions=days[0], traces=days[1], episodes=days[2])
    return RetentionPolicy(default=default, tenants=tenants)
