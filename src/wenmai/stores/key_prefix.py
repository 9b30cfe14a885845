"""The prefix of our keys in a Redis: what may be one, and how a setting of it reaches a URL that names none."""

import re
from urllib.parse import parse_qsl, quote

from wenmai.errors import InvalidInput

PREFIX = re.compile(r"(?=.{1,64}$)[A-Za-z0-9_.-]*(\{[A-Za-z0-9_.-]+\})?[A-Za-z0-9_.-]*")
ALLOWED = "1 to 64 of A-Z a-z 0-9 _ . - with at most one part in braces"
_SCHEMES = ("redis", "rediss", "redis+sentinel", "rediss+sentinel")


def with_key_prefix(url: str, prefix: str) -> str:
    """The URL with ``?prefix=…`` if it is of a Redis and says no prefix itself; any other URL as it is.

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
