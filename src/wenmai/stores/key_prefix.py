"""The prefix of all Redis keys: what is allowed, and the default from a setting for a URL without one."""

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
    scheme, _, rest = url.partition("://")
    query = rest.partition("?")[2]
    if scheme.lower() not in _SCHEMES or "prefix" in dict(parse_qsl(query, keep_blank_values=True)):
        return url
    if not PREFIX.fullmatch(prefix):
        raise InvalidInput("key_prefix", prefix, ALLOWED)
    return f"{url}{'&' if '?' in rest else '?'}prefix={quote(prefix, safe='')}"
