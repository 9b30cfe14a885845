"""The setting ``key_prefix`` reaches the URLs of a Redis, and nothing else."""

import pytest

from wenmai.errors import InvalidInput
from wenmai.stores.key_prefix import with_kept_days, with_key_prefix
from wenmai.stores.redis.address import parse_address


@pytest.mark.parametrize(
    "url", ["redis://host", "REDIS://host:1/2", "rediss://a:p%3Fw@host/0?command_timeout=2", "redis://host?"]
)
def test_a_redis_url_without_a_prefix_gets_the_settings(url: str) -> None:
    """All else that the URL says stays."""
    given, plain = parse_address(with_key_prefix(url, "yan{t}ian")), parse_address(url)
    assert given.prefix == "yan{t}ian"
    assert (given.host, given.port, given.database, given.password, given.command_timeout) == (
        plain.host,
        plain.port,
        plain.database,
        plain.password,
        plain.command_timeout,
    )


def test_the_prefix_of_the_url_beats_the_settings() -> None:
    """Also one that is not allowed, so that opening complains of it."""
    assert with_key_prefix("redis://host?command_timeout=1&prefix=own", "yantian") == (
        "redis://host?command_timeout=1&prefix=own"
    )
    assert with_key_prefix("redis://host?prefix=", "yantian") == "redis://host?prefix="


@pytest.mark.parametrize("url", ["sqlite:///redis.db", "postgresql://host/redis", "memory://", "redis:/host", ""])
def test_other_urls_are_left_alone(url: str) -> None:
    """The prefix is not even looked at."""
    assert with_key_prefix(url, "not allowed") == url


def test_a_prefix_that_is_not_allowed_names_the_setting() -> None:
    """Before any server is asked."""
    with pytest.raises(InvalidInput, match=r"key_prefix.*A-Z a-z 0-9"):
        with_key_prefix("redis://host", "村:")


def test_the_retention_of_sessions_is_an_option_of_a_redis_url() -> None:
    """Not of other stores, not if the URL has its own, and not without a limit."""
    assert parse_address(with_kept_days("redis://host?prefix=p", 9)).kept_days == 9
    for url, days in (("redis://host?kept_days=1", 9), ("redis://host", 0), ("sqlite:///file.db", 9)):
        assert with_kept_days(url, days) == url
