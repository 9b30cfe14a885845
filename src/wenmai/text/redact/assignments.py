"""Rules for passwords, keys and other secrets in assignments, command lines and URLs."""

from wenmai.text.patterns import word_list
from wenmai.text.redact.rule import LABEL_BYTES, Found, Kind, Rule, Span, expression
from wenmai.text.redact.values import COMMON, LEAST, has_digit, is_code, is_nothing

_KEYS = (
    r"(?:api|app|service|account|subscription)[ _\-]?key|access[ _\-]?key(?:[ _\-]?id)?"
    r"|(?:access|auth|refresh|bearer|session|id|api)[ _\-]?token"
)
_NAMES = (
    r"pass[ _\-]?word|passwd|passwort|pass[ _\-]?phrase|pass[ _\-]?code|pwd|passw|pass\b|pw\b"
    r"|contrase(?:ñ|n)a|mot de passe|kennwort|(?:client|app)[ _\-]?secret|secret[ _\-]?(?:access[ _\-]?)?key"
    r"|(?:private|signing|encryption)[ _\-]?key|secret|credentials?|token|security[ _\-]?code"
    r"|pin(?:[ _\-]?(?:code|number|no))?|otp|cvv2?|cvc2?|密钥|秘钥"
)
_SUFFIX = r"(?:[_\-]?[0-9]{1,4}|[_\-][0-9A-Za-z]{1,16}|hash|value){0,2}?"
_EQUALS = r"\s{0,3}(?:=>|:=|={1,3}|:)\s{0,3}"
_VALUE = (
    r"([bfr]?\"[^\"\n]{1,160}\"|[bfr]?'[^'\n]{1,160}'|`[^`\n]{1,160}`|\\\"[^\"\\\n]{1,160}\\\""
    r"|[^\s\"'`,;<>{}|，。；、！？\x1a\p{Han}]{2,})"
)
_QUOTED = r"\A(?:[bfr]?[\"'`]|\\\")"
_OTHER_SUFFIXES = frozenset(
    word_list("""
    count type limit length len url uri file path name policy field expiry expires ttl reset strength hint required min
    max budget usage per rate size used cost price ids endpoint manager input label prompt error page form algorithm
    encoder generator store provider version format rotation issuer ring board words
    """)
)
"""Ends of names that hold something about a secret."""

_CODES, _CODE_DIGITS = ("pin", "otp", "cvv", "cvc", "security"), 8
"""Names of secrets of digits only, and the most digits."""

_SHORT = frozenset({"pin", "otp", "token", "secret", "cvv", "cvc", "pass", "pw"})
"""Names that are the end of other words too."""

_VAGUE = frozenset({"token", "secret", "credential", "credentials", "pass"})
"""Names of which a sentence may speak: ``the secret: be kind``."""

_LEAST_VAGUE = 8
"""Letters of a quoted value of such a name."""


def _assigned(found: Found) -> Span | None:
    """A value that is assigned to the name of a secret."""
    match = found.match
    (name_at, suffix_at), separated, (start, end) = match.span(1), match.start(3), match.span(4)
    written, suffix = found.data[name_at:suffix_at].decode(), found.data[suffix_at:separated].decode().lower()
    name = written.lower()
    value = found.data[start:end].decode()
    quotes = expression(_QUOTED).search(value)
    quoted = quotes is not None
    if quotes is not None:
        opening = quotes.end()
        closing = opening - (value[0] in "bfr")
        value, start, end = value[opening:-closing], start + opening, end - closing
    else:
        value = value[: expression(r"&[\w\-]+=|\z").search(value).start()].rstrip(".,:)]")
        end = start + len(value.encode())
    prefix = expression(r"[0-9A-Za-z_.\-]*\z").search(found.data[max(0, name_at - LABEL_BYTES) : name_at])[0]
    joined = prefix[-1:].isalnum() and written[0].islower()
    if _OTHER_SUFFIXES & set(suffix.replace("-", "_").split("_")) or (joined and name in _SHORT):
        return None
    if name.startswith(_CODES):
        is_pin = value.isdecimal() and LEAST <= len(value) <= _CODE_DIGITS and not joined
        return Span(start, end, Kind.SECRET) if is_pin else None
    if not quoted and (found.data[end : end + 1] in (b"(", b"[") or _is_name(value, name)):
        return None
    prose = not quoted and not prefix and b":" in found.data[separated:start]
    if not _is_secret(value, name, quoted=quoted, prose=prose):
        return None
    return Span(start, end, Kind.API_KEY if expression(rf"\A(?:{_KEYS})\z").search(name) else Kind.SECRET)


def _is_name(value: str, name: str) -> bool:
    """Whether an unquoted value is an expression of a program, such as ``new_password``."""
    letters = value.replace("_", "")
    return is_code(value) or (letters.isascii() and letters.isalpha() and name in value.lower())


def _is_secret(value: str, name: str, *, quoted: bool, prose: bool) -> bool:
    """Whether a value is more than a placeholder or an ordinary word."""
    several = " " in value.strip()
    if is_nothing(value) or value.lower() == name:
        return False
    if several and (not name.startswith("pass") or value.endswith(("?", ".", "!", ":"))):
        return False
    if name in _VAGUE and quoted and not has_digit(value):
        return len(value) >= _LEAST_VAGUE
    if name in _VAGUE and not quoted:
        return has_digit(value) and not value.replace(",", "").replace(".", "").isdecimal()
    if prose and value.isalpha():
        return value.lower() not in COMMON and not value.lower().endswith(("ing", "ed"))
    return quoted or value.isascii()


SIGN = r"(?i)pass|pwd?|kennwort|contrase|secret|key|credential|token|code|pin|otp|cv[vc]|密钥|秘钥|://|curl"

IN_URLS = Rule(
    Kind.SECRET, r"\b[A-Za-z][0-9A-Za-z+.\-]{1,20}://[^\s/:@?#\"'<>\x1a]{0,100}:([^\s/\"'<>\x1a]{1,200})@[^\s/@]"
)

RULES = (
    Rule(Kind.SECRET, rf"(?i)({_KEYS}|{_NAMES})({_SUFFIX})[\"'\])\\]{{0,3}}({_EQUALS}){_VALUE}", _assigned),
    Rule(
        Kind.SECRET,
        r"(?i)(?:^|\s)--?[a-z\-]*(?:password|passwd|passphrase|secret|token|api-?key)[ =][\"']?"
        r"([^\s\"'\-][^\s\"']{2,200})",
    ),
    Rule(Kind.SECRET, r"\bcurl\s[^\n]{0,200}?(?:-u|--user)\s+[\"']?[^\s:\"']{1,60}:([^\s\"'@]{3,100})"),
)
