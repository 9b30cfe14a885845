"""Settings that become options of a Redis URL: the prefix of all keys, and how long ended sessions are kept."""

import re
from urllib.parse import parse_qsl, quote

from wenmai.errors import InvalidInput

PREFIX = re.compile(r"(?=.{1,64}$)[A-Za-z0-9_.-]*(\{[A-Za-z0-9_.-]+\})?[A-Za-z0-9_.-]*")
ALLOWED = "1 to 64 of A-Z a-z 0-9 _ . - with at most one part in braces"
_SCHEMES = ("redis", "rediss", "redis+sentinel", "rediss+sentinel")


def with_key_prefix(url: str, prefix: str) -> str:
    """The URL with ``?prefix=…`` if it is a Redis URL without a prefix; any other URL unchanged.

    Raises:
        InvalidInput: the prefix would be used and is not allowed.
    """
    if not _lacks(url, "prefix"):
        return url
    if not PREFIX.fullmatch(prefix):
        raise InvalidInput("key_prefix", prefix, ALLOWED)
    return _with(url, "prefix", prefix)


def with_kept_days(url: str, days: int) -> str:
    """The URL with ``?kept_days=…`` if it is a Redis URL without it, and there are any days; else unchanged."""
    return _with(url, "kept_days", str(days)) if days and _lacks(url, "kept_days") else url


def _lacks(url: str, option: str) -> bool:
    """Whether it is a Redis URL without the option."""
    scheme, _, rest = url.partition("://")
    query = rest.partition("?")[2]
    return scheme.lower() in _SCHEMES and option not in dict(parse_qsl(query, keep_blank_values=True))


def _with(url: str, option: str, value: str) -> str:
    return f"{url}{'&' if '?' in url.partition('://')[2] else '?'}{option}={quote(value, safe='')}"
