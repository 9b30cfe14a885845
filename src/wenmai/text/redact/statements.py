"""Rules for secrets that a sentence states, in Chinese and English."""

from wenmai.text.redact.rule import LABEL_BYTES, Found, Kind, Rule, Span, expression
from wenmai.text.redact.values import COMMON, ENDINGS, LEAST, has_digit, is_code, is_length, is_nothing

_CODES = (
    r"pin(?: code| number)?|(?:security|access|verification|login|confirmation|auth(?:entication)?|2fa) code"
    r"|one[ \-]time (?:code|password)|otp(?: code)?|cvv2?(?: code| number)?|cvc2?(?: code)?"
)
_OWN = (
    rf"(?:pass[ \-]?word|pass[ \-]?phrase|pass[ \-]?code|pwd|{_CODES}|secret(?: key| code| word)?"
    r"|api key|access key|token)"
)
_FOR = r"(?: (?:for|to|of|on|at|in) (?:[\w'’.\-]+ ){0,4}?[\w'’.\-]+)?"
_IS = (
    r"(?:(?:is|was|are|will be|would be|being|is (?:now|still|just|simply|called)|to|as"
    r"|(?:(?:is|was|has been) )?(?:changed|(?:re)?set) to)\s+|(?:is|to)?\s*:\s*|(?:is|to)\s*=\s*)"
)
_ZH_CODES = r"验证码|驗證碼|校验码|动态码|安全码|提取码|授权码|取件码|开机码|(?i:PIN ?码|CVV2?码?|CVC码?)"
_ZH_NAMES = rf"(?:密码|密碼|口令|密钥|秘钥|{_ZH_CODES}|(?i:pin))"
_ZH_IS = r"[^\x21-\x7e。！？\n，；\x1a]{0,8}?[\"']?(?:是|为|:|=|成了?|用的?|叫|设的?)[了的]?[\s\"':]{0,3}"
_ASCII = r"[\x21\x23-\x26\x28-\x7e]"
"""Visible characters without quotation marks."""

PIN_DIGITS = 6
"""Of the passwords of Chinese bank cards; other bare numbers behind a blank may be years or amounts."""


def _trimmed(found: Found) -> str:
    """The value without the punctuation of the sentence; an exclamation mark is usual in passwords with digits."""
    value = found.text.rstrip(".,;:?)\"'”’")
    return value if has_digit(value) else value.rstrip("!.,;:?)\"'”’")


def _stated(found: Found) -> Span | None:
    """A value with a digit or a symbol; a word if the sentence ends with it."""
    value = _trimmed(found)
    if is_nothing(value) or is_length(found, value):
        return None
    name = found.data[found.match.start() : found.start].decode().lower()
    kind = Kind.API_KEY if name.startswith(("api key", "access key")) else Kind.SECRET
    span = found.span(kind, end=found.start + len(value.encode()))
    of_words = any(word in name for word in ("password", "passphrase", "passcode", "pwd"))
    if not any(map(str.isalpha, value)):
        return span if has_digit(value) and len(value) > LEAST - ("code" in name or not of_words) else None
    if has_digit(value) or expression(r"[a-z][A-Z]|[!@#$%^&*_+=~]").search(value):
        return None if expression(r"(?i)\A[0-9]+(?:st|nd|rd|th)\z").search(value) else span
    ended = expression(r"[.,;!?)\"'”’\n]|\z|\s+(?:and|but|for|so|please|if|can)\b")
    is_word = value.lower() in COMMON or value.lower().endswith(ENDINGS)
    return span if of_words and not is_word and ended.match(found.data[span.end : span.end + LABEL_BYTES]) else None


def _stated_in_chinese(found: Found) -> Span | None:
    """A value with a digit; letters if no Chinese character follows."""
    value = _trimmed(found)
    end = found.start + len(value.encode())
    if is_nothing(value) or is_length(found, value):
        return None
    letters = not has_digit(value) and (is_code(value) or expression(r"\p{Han}").match(found.data[end : end + 4]))
    return None if letters else found.span(Kind.SECRET, end=end)


def _beside(found: Found) -> Span | None:
    """A value right behind its name: with digits, and behind a blank with letters or symbols too."""
    value = _trimmed(found)
    if not has_digit(value) or len(value) <= LEAST or is_nothing(value) or is_length(found, value) or is_code(value):
        return None
    plain = value.isdecimal() and found.left == b" " and len(value) != PIN_DIGITS
    return None if plain else found.span(Kind.SECRET, end=found.start + len(value.encode()))


def _before_its_name(found: Found) -> Span | None:
    value = found.text
    if not has_digit(value) or expression(r"(?i)\A(?:[0-9]{1,3}|[0-9]+(?:st|nd|rd|th))\z").search(value):
        return None
    return found.span(Kind.SECRET)


SIGN = r"(?i)pass|pwd|secret|key|token|code|pin|otp|cv[vc]|密|码|碼|口令"

RULES = (
    Rule(
        Kind.SECRET, rf"(?i)\b{_OWN}\b{_FOR},?(?:\s+{_IS}|['’]s\s+)[\"'`(]?([^\s\"'`\x1a\p{{Han}}]{{3,100}})", _stated
    ),
    Rule(Kind.SECRET, r"(?i)\b(?:pin|cvv2?|cvc2?|passcode|otp|security code)\b[ #]{1,2}([0-9]{3,8})\b", _stated),
    Rule(Kind.SECRET, r"(?i)\b(?:password|passwd|pwd|passcode)\s+([^\s\"'`\x1a\p{Han}]{4,64})", _beside),
    Rule(
        Kind.SECRET,
        r"([^\s\"'`，。\x1a]{4,64})[\"'`]?\s+(?i:is|as) (?i:my|the|our|his|her|your)"
        r"(?i: new| current| old| wifi| login| bank| card)? (?i:password|passcode|pin|passphrase)\b",
        _before_its_name,
    ),
    Rule(Kind.SECRET, rf"{_ZH_NAMES}{_ZH_IS}({_ASCII}{{3,100}})", _stated_in_chinese, world=True),
    Rule(Kind.SECRET, rf"(?:密码|密碼|口令)\s?({_ASCII}{{4,64}})", _beside, world=True),
    Rule(Kind.SECRET, rf"(?:{_ZH_CODES})\s?([0-9A-Za-z]{{3,8}})\b", _stated_in_chinese, world=True),
)
