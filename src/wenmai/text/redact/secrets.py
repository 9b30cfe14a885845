"""Rules for passwords and other secrets: in URLs, in assignments, and in sentences, Chinese and English."""

from wenmai.text.redact.rule import LABEL_BYTES, Found, Kind, Rule, Span, expression

_KEYS = r"api[ _\-]?key|apikey|access[ _\-]?key(?:[ _\-]?id)?|access[ _\-]?token|auth[ _\-]?token|refresh[ _\-]?token|bearer[ _\-]?token|session[ _\-]?token|id[ _\-]?token|app[ _\-]?key|api[ _\-]?token|service[ _\-]?key|account[ _\-]?key|subscription[ _\-]?key"
_NAMES = (
    r"pass[ _\-]?word|passwd|passwort|pass[ _\-]?phrase|pass[ _\-]?code|pwd|passw|contrase(?:ñ|n)a|mot de passe|kennwort"
    r"|client[ _\-]?secret|app[ _\-]?secret|secret[ _\-]?(?:access[ _\-]?)?key|private[ _\-]?key|signing[ _\-]?key"
    r"|encryption[ _\-]?key|secret|credentials?|token|security[ _\-]?code|pin(?:[ _\-]?(?:code|number|no))?|otp|cvv2?|cvc2?|cvv/cvc|密钥|秘钥"
)
_EQUALS = r"\s{0,3}(?:=>|:=|={1,3}|:)\s{0,3}"
_VALUE = (
    r"(?:[bfr]?\"([^\"\n]{1,400})\"|[bfr]?'([^'\n]{1,400})'|`([^`\n]{1,400})`"
    r"|\\\"([^\"\\\n]{1,400})\\\"|([^\s\"'`,;<>{}|，。；、！？\x1a]{2,400}))"
)
_NO_SECRET_NAMES = frozenset(
    "count type limit length len url uri file path name policy field expiry expires ttl reset strength hint required min max"
    " budget usage per rate size used cost price ids endpoint manager input label prompt error page form hash_algorithm"
    " algorithm encoder generator store provider version format rotation issuer ring board words".split()
)
_NO_VALUE = frozenset(
    """
    str string int integer bool boolean bytes none null nil true false undefined optional required any object char text
    varchar password passwd pwd secret token key pass self this env process config settings request input hidden
    getpass the a an your my is not wrong incorrect invalid expired missing here unknown empty n/a na tbd todo redacted
    bearer basic public private default forgot forgotten changed reset weak strong secure protected encrypted hashed
    """.split()
)
_MASKED = expression(r"\A(?:[*x.•●_#?\-]+|\$\{?\w+\}?.*|\$\(.*|%\w+%|\{\{.*|<.*|\{.*|\[.*|%s|\.{2,}.*)\z")
_CODE = expression(
    r"\A[A-Za-z_][\w]*(?:\.[A-Za-z_]\w*)*(?:\(.*|\[.*)|\A[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\z|\Alambda\b|\A(?:new|await|function)\z"
)
_EXAMPLE = expression(
    r"(?i)\A(?:your|my|the|some|insert|enter|replace|put)[-_ ].*(?:here|key|token|password|secret)\z|\A(?:enter|type|choose|forgot|reset) .*"
)
_UNIT = r"\s?(?i:-?(?:char(?:acter)?s?|digits?|letters?|bits?|words?|bytes?|numbers?|symbols?|days?|hours?|minutes?|mins?|times?|tokens?|years?|months?|k\b)|位|个|字|次|天|分钟|小时|元|年|月|到|至|-[0-9]{1,3}\s?(?:位|个|char|digit))"


def _assigned(found: Found) -> Span | None:
    """A value that is assigned to a name of secrets."""
    spans = [found.match.span(group) for group in range(1, 9)]
    (name_at, _), _, (separated, _), *values = spans
    written, suffix = (found.data[slice(*span)].decode() for span in spans[:2])
    name = written.lower()
    start, end = next(span for span in values if span[0] >= 0)
    quoted = values[-1][0] < 0
    value = found.data[start:end].decode()
    if not quoted:
        value = value[: expression(r"&[\w\-]+=|\z").search(value).start()].rstrip(".,:)]")
    end = start + len(value.encode())
    prefix = expression(r"[0-9A-Za-z_.\-]*\z").search(found.data[max(0, name_at - LABEL_BYTES) : name_at])[0]
    joined = prefix[-1:].isalnum() and written[0].islower()
    if _NO_SECRET_NAMES & set(suffix.lower().replace("-", "_").split("_")) or (joined and name in _SHORT):
        return None
    if name.startswith(_CODES):
        is_code = value.isdecimal() and len(value) <= _CODE_DIGITS and not joined
        return Span(start, end, Kind.SECRET) if is_code and len(value) >= _LEAST else None
    prose = not quoted and not prefix and found.data[separated : separated + 1] == b":"
    called = not quoted and (found.data[end : end + 1] in (b"(", b"[") or _is_code(value, name))
    if called or not _is_secret(value, quoted=quoted, prose=prose, name=name):
        return None
    return Span(start, end, Kind.API_KEY if _IS_KEY.search(name) else Kind.SECRET)


_LEAST = 3
"""Characters of a secret."""

_CODES, _CODE_DIGITS = ("pin", "otp", "cvv", "cvc", "security"), 8
_SHORT = frozenset({"pin", "otp", "token", "secret", "cvv", "cvc"})
"""Names that end other words."""

_IS_KEY = expression(rf"(?i)\A(?:{_KEYS})\z")


def _is_code(value: str, name: str) -> bool:
    """Whether an unquoted value is a name or a call of a program."""
    letters = value.replace("_", "")
    return _CODE.search(value) is not None or (letters.isascii() and letters.isalpha() and name in value.lower())


def _is_secret(value: str, *, quoted: bool, prose: bool, name: str) -> bool:
    """Whether a value is more than a placeholder, a type or an ordinary word."""
    lowered, several = value.lower(), " " in value.strip()
    if (
        len(value) < _LEAST
        or lowered in _NO_VALUE
        or lowered == name
        or _MASKED.search(value)
        or _EXAMPLE.search(value)
    ):
        return False
    if several and (not name.startswith("pass") or value.endswith(("?", ".", "!", ":"))):
        return False
    if name in _VAGUE and not quoted:
        return any(map(str.isdecimal, value)) and not value.replace(",", "").replace(".", "").isdecimal()
    if prose and value.isalpha():
        return lowered not in _COMMON and not lowered.endswith(("ing", "ed"))
    return quoted or value.isascii()


_VAGUE = frozenset({"token", "secret", "credential", "credentials"})
"""Names of which a sentence may speak: ``the secret: be kind``."""

_COMMON = frozenset(
    """
    a about above after all also always an and any are as at available be because been before being below best better
    between both broken but by can case changes characters check choose clear common compliant correct could crucial
    created different difficult does easy either empty enough essential exactly fine first for from fully generic
    good great guessable hard has have here hers his how however if important in incorrect inside interesting into invalid
    it its just kind known leaked like long longer lost lowercase mandatory many may maybe mine missing more most much
    must necessary needed never new no none nonsense not nothing now obvious off ok okay old on only optional or other
    our out outdated perfect please possible present probably public quite random rather ready really right safe same
    secret secure sent set short should simple so some something somewhere still strong stuff such sure temporary than
    that the their then there these they this those to too tough tricky true trivial unavailable under unique unknown
    unsafe until up uppercase usually valid vague very visible vulnerable was weak what when where which while who why
    will with within without working would wrong yes yet you your yours
    """.split()
)


def _stated(found: Found) -> Span | None:
    """A value that a sentence states: it has a digit or a symbol, or the sentence ends with it."""
    value = found.text.rstrip(".,;:?!)\"'”’")
    if (
        found.precedes("")
        and value != found.text
        and found.text.rstrip(".,;:?)\"'”’") != value
        and any(map(str.isdecimal, value))
    ):
        value = found.text.rstrip(".,;:?)\"'”’")  # an exclamation mark is usual in passwords
    if len(value) < 3 or _MASKED.search(value) or value.lower() in _NO_VALUE:  # noqa: PLR2004
        return None
    end = found.start + len(value.encode())
    rest = found.data[end : end + 40]
    if expression(rf"\A{_UNIT}").search(rest) or expression(r"(?i)\A[0-9]+-?(?:char|digit|letter|bit|word)").search(
        value
    ):
        return None
    span = found.span(Kind.SECRET, end=end)
    has_digit = any(map(str.isdecimal, value))
    name = found.data[found.match.start() : found.start].decode().lower()
    if value.isdecimal() or not any(map(str.isalpha, value)):
        return span if has_digit and len(value) >= 3 + (1 if "pass" in name and "code" not in name else 0) else None
    if has_digit or expression(r"[a-z][A-Z]|[!@#$%^&*_+=~]").search(value):
        return span if not expression(r"(?i)\A[0-9]+(?:st|nd|rd|th)\z").search(value) else None
    if not ("password" in name or "passphrase" in name or "passcode" in name):
        return None
    ended = expression(r"\A(?:[.,;!?)\"'”’\n]|\z|\s+(?:and|but|for|so|please|if|can)\b)").search(rest)
    plain = value.lower()
    return span if ended and plain not in _COMMON and not plain.endswith(("ing", "ed", "ly", "ble")) else None


def _stated_in_chinese(found: Found) -> Span | None:
    value = (
        found.text.rstrip(".,;:?)\"'!") if not any(map(str.isdecimal, found.text)) else found.text.rstrip(".,;:?)\"'")
    )
    if len(value) < 3 or _MASKED.search(value) or value.lower() in _NO_VALUE or not value.strip("-_*"):  # noqa: PLR2004
        return None
    end = found.start + len(value.encode())
    rest = found.data[end : end + 12]
    if expression(rf"\A{_UNIT}").search(rest) or expression(r"\A[0-9]{1,2}[-~][0-9]{1,2}\z").search(value):
        return None
    if not any(map(str.isdecimal, value)) and (expression(r"\A\p{Han}").search(rest) or _CODE.search(value)):
        return None
    return found.span(Kind.SECRET, end=end)


def _mixed(found: Found) -> Span | None:
    """A value right behind its name: with digits, and in English with letters or symbols too."""
    value = found.text.rstrip(".,;:?)")
    end = found.start + len(value.encode())
    if not any(map(str.isdecimal, value)) or len(value) < 4 or _MASKED.search(value):  # noqa: PLR2004
        return None
    unit = expression(_UNIT).match(found.data[end : end + LABEL_BYTES]) or expression(rf"\A[0-9~-]+{_UNIT}").search(
        found.data[found.start : end]
    )
    plain = value.isdecimal() and found.left == b" "
    return None if unit or plain or _CODE.search(value) else found.span(Kind.SECRET, end=end)


def _reversed(found: Found) -> Span | None:
    value = found.text
    alike = any(map(str.isdecimal, value)) and not expression(r"(?i)\A(?:[0-9]{1,3}|[0-9]+(?:st|nd|rd|th)?)\z").search(
        value
    )
    pin = expression(r"(?i)\A.{0,24}\b(?:pin|passcode|password)\b").search(
        found.data[found.end : found.end + LABEL_BYTES]
    )
    return found.span(Kind.SECRET) if alike or (pin and value.isdecimal() and len(value) >= 4) else None  # noqa: PLR2004


_OWN = r"(?:pass[ \-]?word|pass[ \-]?phrase|pass[ \-]?code|pwd|pin(?: code| number)?|security code|access code|verification code|one[ \-]time (?:code|password)|login code|confirmation code|auth(?:entication)? code|2fa code|otp(?: code)?|cvv2?(?: code| number)?|cvc2?(?: code)?|secret(?: key| code| word)?|api key|access key|token)"
_IS = r"(?:(?:is|was|are|will be|has been (?:changed|set|reset) to|changed to|(?:is |was )?(?:re)?set to|to|being|is now|is still|would be|is just|is simply|is called|as)\s+|(?:is|to)?\s*:\s*|(?:is|to)\s*=\s*)"
_ZH_NAMES = r"(?:密码|密碼|口令|密钥|秘钥|验证码|驗證碼|校验码|动态码|安全码|提取码|授权码|取件码|开机码|(?i:PIN ?码|CVV2?码?|CVC码?|pin))"
_ZH_IS = r"[^\x21-\x7e。！？\n，；]{0,8}?(?:是|为|:|=|成了?|用的?|叫|就是|设的?|：)[了的]?[\s\"':]{0,3}"

RULES = (
    Rule(Kind.SECRET, r"\b[A-Za-z][0-9A-Za-z+.\-]{1,20}://[^\s/:@?#\"'<>\x1a]{0,100}:([^\s/\"'<>\x1a]{1,200})@[^\s/@]"),
    Rule(
        Kind.SECRET,
        rf"(?i)({_KEYS}|{_NAMES})((?:[_\-]?[0-9]{{1,4}}|[_\-][0-9A-Za-z]{{1,16}}|hash|value){{0,2}}?)[\"'\])\\]{{0,3}}({_EQUALS}){_VALUE}",
        _assigned,
    ),
    Rule(
        Kind.SECRET,
        r"(?i)(?:^|\s)--?(?:[a-z\-]*(?:password|passwd|passphrase|secret|token|api-?key))[ =][\"']?([^\s\"'\-][^\s\"']{2,200})",
    ),
    Rule(
        Kind.SECRET, r"(?:\scurl\s.{0,200}?|^curl\s.{0,200}?)(?:-u|--user)\s+[\"']?[^\s:\"']{1,60}:([^\s\"'@]{3,100})"
    ),
    Rule(
        Kind.SECRET,
        rf"(?i)\b{_OWN}\b(?: (?:for|to|of|on|at|in) (?:[\w'’.\-]+ ){{0,4}}?[\w'’.\-]+)?,?\s+{_IS}[\"'`(]?([^\s\"'`\x1a]{{3,100}})",
        _stated,
    ),
    Rule(Kind.SECRET, r"(?i)\b(?:pin|cvv2?|cvc2?|passcode|otp)\b[ #]{1,2}([0-9]{3,8})\b", _stated),
    Rule(Kind.SECRET, rf"{_ZH_NAMES}{_ZH_IS}([\x21\x23-\x26\x28-\x7e]{{3,100}})", _stated_in_chinese, world=True),
    Rule(Kind.SECRET, r"(?:密码|密碼|口令)\s?([\x21\x23-\x26\x28-\x7e]{4,64})", _mixed, world=True),
    Rule(Kind.SECRET, r"(?i)\b(?:password|passwd|pwd|passcode)\s+([^\s\"'`\x1a]{4,64})", _mixed),
    Rule(
        Kind.SECRET,
        r"(?:验证码|校验码|提取码|取件码|动态码|安全码|(?i:PIN ?码|CVV码?))\s?([0-9A-Za-z]{3,8})\b",
        _stated_in_chinese,
        world=True,
    ),
    Rule(
        Kind.SECRET,
        r"([^\s\"'`，。\x1a]{4,64})[\"'`]?\s+(?i:is|as) (?i:my|the|our|his|her|your) (?i:new |current |old |wifi |login |bank |card )?(?i:password|passcode|pin|passphrase)\b",
        _reversed,
    ),
)
