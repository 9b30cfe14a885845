"""Which requests are taken: addressed to this service, and not sent by a page of another site.

Listening on loopback keeps other machines out, but not the browser of the user at this machine: any page may send it
requests (CSRF), and a name that the page's owner points at 127.0.0.1 makes the answers readable too (DNS rebinding).
Browsers say where a request comes from in ``Origin`` and ``Sec-Fetch-Site`` and cannot be made to lie in ``Host``;
programs such as curl send neither of the first two.
"""

from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from wenmai.http.binding import is_loopback
from wenmai.http.problems import refusal

_OWN = {"same-origin", "none"}
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class TrustedCallers:
    """Refuses requests for other hosts, and requests of other sites' pages.

    Args:
        app: what comes next.
        allowed: names, with or without port, that are this service's besides those of loopback.
    """

    def __init__(self, app: ASGIApp, allowed: Sequence[str]) -> None:
        self._app = app
        self._allowed = {name.lower() for name in allowed}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 400 without exactly one Host, 421 for another, 403 for another site's page."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            refused = self._host_refused(headers.getlist("host")) or self._page_refused(scope["method"], headers)
            if refused:
                await refusal(*refused)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _host_refused(self, hosts: list[str]) -> tuple[int, str] | None:
        if len(hosts) != 1:
            return 400, "exactly one Host is needed"
        host = hosts[0].lower()
        name = _name_of(host)
        if is_loopback(name) or host in self._allowed or name in self._allowed:
            return None
        return 421, "the Host is not one of this service; see the setting allowed_hosts"

    def _page_refused(self, method: str, headers: Headers) -> tuple[int, str] | None:
        origins = headers.getlist("origin")
        if origins and all(_authority(origin) in self._allowed for origin in origins):
            return None
        if any(_with_port(origin) not in _spellings(headers["host"]) for origin in origins):
            return 403, "the Origin is another site; see the setting allowed_hosts"
        # Following a link to a page is what a browser does for its user, and shows the other site nothing.
        followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        if headers.get("sec-fetch-site", "none") in _OWN or (followed and method == "GET"):
            return None
        return 403, "the request was made by a page of another site"


def _name_of(host: str) -> str:
    """A host without its port."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() and not name.endswith(":") else host


def _authority(origin: str) -> str:
    """Host and port of an origin, as written; empty for ``null`` and the like."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _with_port(origin: str) -> str:
    """Host and port of an origin, the default port written out."""
    authority = _authority(origin)
    return (
        authority
        if _name_of(authority) != authority
        else authority + _DEFAULT_PORTS.get(origin.split(":", maxsplit=1)[0], "")
    )


def _spellings(host: str) -> set[str]:
    """A ``Host`` with its port; without one it may stand for either default port."""
    host = host.lower()
    return {host} if _name_of(host) != host else {host + port for port in _DEFAULT_PORTS.values()}
