"""Where the service may listen while callers do not have to prove who they are."""

from ipaddress import ip_address

from wenmai.errors import InvalidInput


def is_loopback(host: str) -> bool:
    """Whether the name or address is this machine's alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_binding(host: str) -> None:
    """Return if ``host`` can be reached from this machine only.

    There is no authentication yet: whoever reaches the port reads and writes everything.

    Raises:
        InvalidInput: the host is another name than ``localhost``, or not a loopback address.
    """
    if not is_loopback(host):
        raise InvalidInput(
            "host",
            host,
            "a loopback address (127.0.0.1, ::1, localhost): without authentication the service is for this "
            "machine alone; put a proxy that authenticates in front of it to serve others",
        )
