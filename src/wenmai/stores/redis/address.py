"""The URL of a Redis store: the server, the key prefix and the timeouts."""

from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec
from msgspec.structs import replace

from wenmai.errors import InvalidInput, mask_url
from wenmai.stores.key_prefix import ALLOWED, PREFIX

SCHEMES = ("redis", "rediss")
SENTINEL_SCHEMES = ("redis+sentinel", "rediss+sentinel")
DEFAULT_PORT = 6379
SENTINEL_PORT = 26_379
_FORM = "redis://[user:password@]host[:port][/database][?option=value&…]"
_SENTINEL_FORM = "redis+sentinel://[user:password@]host[:port][,host[:port]…]/service[/database][?option=value&…]"
_LONGEST_SECONDS = 60.0
_MOST_CONNECTIONS = 1_000
_MOST_DAYS = 36_500


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed URL, with defaults.

    Attributes:
        host, port: of the server; with sentinels, of the first of them.
        sentinels: hosts and ports of the sentinels; empty for a server with a fixed address.
        service: the primary's name at the sentinels.
        prefix: of all keys; a part of it in braces is the hash tag that a cluster needs.
        connect_timeout: of a connection, authentication included, in seconds.
        command_timeout: of a command, in seconds.
        max_connections: of this process; further callers wait for one of them.
        kept_days: how long after its end a session can still be read.
    """

    host: str
    port: int = DEFAULT_PORT
    database: int = 0
    username: str | None = None
    password: str | None = None
    tls: bool = False
    sentinels: tuple[tuple[str, int], ...] = ()
    service: str = ""
    prefix: str = "wenmai"
    connect_timeout: float = 0.3
    command_timeout: float = 0.5
    max_connections: int = 32
    kept_days: float = 30.0

    @property
    def hash_tag(self) -> bool:
        """Whether all keys are in one slot of a cluster."""
        return "{" in self.prefix

    def __repr__(self) -> str:
        """Host, port and database; never user or password."""
        return f"Address({self.host}:{self.port}/{self.database})"


def parse_address(url: str, *, setting: str = "store") -> Address:
    """Read the URL of a server.

    Args:
        url: see :class:`Address` for its options.
        setting: the setting that has the value, for errors.

    Raises:
        InvalidInput: it has no host, or a part or an option of it is not allowed; the message shows no password.
    """
    shown = mask_url(url.partition("?")[0])
    form = _SENTINEL_FORM if url.partition("://")[0].lower() in SENTINEL_SCHEMES else _FORM
    try:
        parts = urlsplit(url)
        hosts = _hosts(parts.netloc.rpartition("@")[2], SENTINEL_PORT if form is _SENTINEL_FORM else DEFAULT_PORT)
    except ValueError as error:
        raise InvalidInput(setting, shown, f"{form} ({error})") from None
    scheme, path = parts.scheme.lower(), parts.path.strip("/")
    service = ""
    if form is _SENTINEL_FORM:
        service, _, path = path.partition("/")
    known = scheme in SENTINEL_SCHEMES if form is _SENTINEL_FORM else scheme in SCHEMES and len(hosts) == 1
    if not known or not (path or "0").isdecimal() or parts.fragment or (form is _SENTINEL_FORM and not service):
        raise InvalidInput(setting, shown, form)
    options = _options(parts, setting)
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    plain = Address(
        host=hosts[0][0],
        port=hosts[0][1],
        database=int(path or "0"),
        username=unquote(user) or None,
        password=unquote(password) or None,
        tls=scheme.startswith("rediss"),
        sentinels=tuple(hosts) if service else (),
        service=unquote(service),
    )
    return replace(plain, **options)


def _hosts(text: str, default_port: int) -> list[tuple[str, int]]:
    """Hosts and ports of a comma-separated list.

    Raises:
        ValueError: one of them is malformed.
    """
    found = []
    for part in text.split(","):
        split = urlsplit(f"//{part}")
        if not split.hostname:
            raise ValueError("a host is missing")
        found.append((split.hostname, split.port or default_port))
    return found


def _options(parts: SplitResult, setting: str) -> dict[str, str | float | int]:
    options: dict[str, str | float | int] = {}
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        if name == "prefix":
            options[name] = _prefix(text, setting)
        elif name in ("connect_timeout", "command_timeout"):
            options[name] = _number(f"{setting} {name}", text, _LONGEST_SECONDS)
        elif name == "kept_days":
            options[name] = _number(f"{setting} {name}", text, _MOST_DAYS)
        elif name == "max_connections":
            options[name] = max(1, int(_number(f"{setting} {name}", text, _MOST_CONNECTIONS)))
        else:
            known = "prefix, connect_timeout, command_timeout, max_connections, kept_days"
            raise InvalidInput(setting, f"?{name}=…", f"an option of a Redis URL ({known})")
    return options


def _prefix(text: str, setting: str) -> str:
    if not PREFIX.fullmatch(text):
        raise InvalidInput(f"{setting} prefix", text, ALLOWED)
    return text


def _number(name: str, text: str, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= most:
        raise InvalidInput(name, text, f"a number above 0, at most {most:g}")
    return number
