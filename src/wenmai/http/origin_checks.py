"""Host and Origin checks: protection against DNS rebinding and cross-site requests (CSRF).

Listening on loopback keeps other machines out, but not pages in the user's browser: any page can send requests (CSRF),
and with a host name that resolves to 127.0.0.1 it can read the responses too (DNS rebinding). Browsers state the origin
of a request in ``Origin`` and ``Sec-Fetch-Site`` and do not let a page forge ``Host``; programs such as curl send
neither ``Origin`` nor ``Sec-Fetch-Site``.
"""

from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from wenmai.http.loopback import is_loopback
from wenmai.http.problems import error_response

_SAME_SITE = {"same-origin", "none"}
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class HostAndOriginCheck:
    """Middleware that rejects requests for other hosts and cross-site requests.

    Args:
        app: the next ASGI application.
        allowed: host names, with or without port, that are accepted besides loopback.
    """

    def __init__(self, app: ASGIApp, allowed: Sequence[str]) -> None:
        self._app = app
        self._allowed = {name.lower() for name in allowed}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 400 (not exactly one Host), 421 (another host) or 403 (cross-site)."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            rejected = self._check_host(headers.getlist("host")) or self._check_origin(scope["method"], headers)
            if rejected:
                await error_response(*rejected)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check_host(self, hosts: list[str]) -> tuple[int, str] | None:
        if len(hosts) != 1:
            return 400, "the request must have exactly one Host header"
        host = hosts[0].lower()
        name = _name_of(host)
        if is_loopback(name) or host in self._allowed or name in self._allowed:
            return None
        return 421, "the Host header does not name this service; see the setting allowed_hosts"

    def _check_origin(self, method: str, headers: Headers) -> tuple[int, str] | None:
        origins = headers.getlist("origin")
        if origins and all(_authority(origin) in self._allowed for origin in origins):
            return None
        if any(_with_port(origin) not in _host_variants(headers["host"]) for origin in origins):
            return 403, "cross-site requests are refused: the Origin is another site; see the setting allowed_hosts"
        # Top-level navigation (following a link) is allowed: the other site cannot read the response.
        navigation = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        if headers.get("sec-fetch-site", "none") in _SAME_SITE or (navigation and method == "GET"):
            return None
        return 403, "cross-site requests are refused: see Sec-Fetch-Site"


def _name_of(host: str) -> str:
    """A host without its port."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() and not name.endswith(":") else host


def _authority(origin: str) -> str:
    """Host and port of an origin, as written; empty for ``null`` and other opaque origins."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _with_port(origin: str) -> str:
    """Host and port of an origin; a default port is added."""
    authority = _authority(origin)
    return (
        authority
        if _name_of(authority) != authority
        else authority + _DEFAULT_PORTS.get(origin.split(":", maxsplit=1)[0], "")
    )


def _host_variants(host: str) -> set[str]:
    """The ``Host`` with its port; without one, with either default port."""
    host = host.lower()
    return {host} if _name_of(host) != host else {host + port for port in _DEFAULT_PORTS.values()}
