"""Rules for IP addresses."""

from functools import lru_cache
from socket import AF_INET6, inet_pton

from wenmai.text.redact.rule import Found, Kind, Rule, Span

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])"
_VERSIONS = (
    r"(?i:\bv(?:ers?(?:ion)?)?\.?|版本号?|版|\brelease|\bbuild|\bfirmware|\bupgraded?|\bupdated?|升级|更新|固件"
    r"|\bsection|\bchapter|\bclause|\bOID|章节|第)(?i:[\s:=到至为是#]|\bto\b|\bnumber\b|\bis\b|\bv)*"
)
"""Labels of versions and of sections."""


def _ipv4(found: Found) -> Span | None:
    if found.follows(r"[0-9A-Za-z_][.]|[A-Za-z0-9_)]/|==|[-_~^<>]=?|[A-Za-z0-9][-_]") or found.precedes(
        r"\.[0-9]|[-_][A-Za-z0-9]|\s*[节章款]"
    ):
        return None
    return None if found.follows(_VERSIONS) else found.span(Kind.IP)


_LEAST_DIGITS = 3


def _ipv6(found: Found) -> Span | None:
    left, right = found.left, found.right
    if left.isalnum() or left in b"_:." or right.isalnum() or right in b"_:":
        return None
    text = found.text
    if text.endswith(":") and not text.endswith("::"):
        text = text[:-1]
    if not _is_ipv6(text.partition("%")[0]) or (left == b"[" and found.follows(r"[\w)\]]\[")):
        return None  # of a program: names joined by colons, or a slice
    return found.span(Kind.IP, end=found.start + len(text))


@lru_cache
def _is_ipv6(address: str) -> bool:
    """Whether a text is an address of enough digits; the loopback address is one."""
    groups = address.replace(":", "")
    if groups.isalpha() or (len(groups) < _LEAST_DIGITS and address != "::1"):
        return False
    try:
        inet_pton(AF_INET6, address)
    except OSError:
        return False
    return True


IPV6_SIGN = r":[0-9A-Fa-f]{0,4}:"

IPV6 = (
    Rule(
        Kind.IP,
        r"([0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:[0-9]*(?:\.[0-9]{1,3}){3})?(?:%[a-z]{1,8}[0-9]{0,3})?)",
        _ipv6,
    ),
)

IPV4_SIGN = r"[0-9]\.[0-9]{1,3}\.[0-9]"

IPV4 = (Rule(Kind.IP, rf"(?:\b|(?i:ip))({_OCTET}(?:\.{_OCTET}){{3}})\b", _ipv4),)
