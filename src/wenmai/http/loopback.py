"""Without authentication the service may listen on loopback addresses only."""

from ipaddress import ip_address

from wenmai.errors import InvalidInput


def is_loopback(host: str) -> bool:
    """Whether the name or address is a loopback one."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_bind_host(host: str, auth: str) -> None:
    """Check that ``host`` is reachable from this machine only, unless requests are authenticated.

    Without authentication every client that can connect can read and write all data.

    Raises:
        InvalidInput: the host is neither ``localhost`` nor a loopback address.
    """
    if auth == "none" and not is_loopback(host):
        raise InvalidInput(
            "host",
            host,
            "a loopback address (127.0.0.1, ::1, localhost), as the setting auth is none: "
            "to serve other machines, create API keys (wenmai keys create) and set auth to keys, or accept tokens",
        )
