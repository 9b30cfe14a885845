"""What is no secret, although it stands where one would: placeholders, code, lengths, ordinary words."""

from wenmai.text.patterns import word_list
from wenmai.text.redact.rule import LABEL_BYTES, Found, expression

LEAST = 3
"""Characters of a secret."""

_NO_VALUES = frozenset(
    word_list("""
    str string int integer bool boolean bytes none null nil true false undefined optional required any object char text
    varchar password passwd pwd secret token key pass self this env process config settings request input hidden
    getpass the a an your my is not wrong incorrect invalid expired missing here unknown empty n/a na tbd todo redacted
    bearer basic public private default forgot forgotten changed reset weak strong secure protected encrypted hashed
    """)
)
COMMON = frozenset(
    word_list("""
    a about above after all also always an and any are as at available be because been before being below best better
    between both broken but by can case changes characters check choose clear common compliant correct could crucial
    created different difficult does easy either empty enough essential exactly fine first for from fully generic
    good great guessable hard has have here hers his how however if important in incorrect inside interesting into
    invalid it its just kind known leaked like long longer lost lowercase mandatory many may maybe mine missing more
    most much must necessary needed never new no none nonsense not nothing now obvious off ok okay old on only optional
    or other our out outdated perfect please possible present probably public quite random rather ready really right
    safe same secret secure sent set short should simple so some something somewhere still strong stuff such sure
    temporary than that the their then there these they this those to too tough tricky true trivial unavailable under
    unique unknown unsafe until up uppercase usually valid vague very visible vulnerable was weak what when where which
    while who why will with within without working would wrong yes yet you your yours
    """)
)
"""Words that follow "my password is" in sentences that do not state it."""

ENDINGS = ("ing", "ed", "ly", "ble")
"""Endings of such words."""

_MASKED = r"[*x.•●_#?\-]+|\$\{?\w+\}?.*|\$\(.*|%\w+%|\{\{.*|<.*|\{.*|\[.*|%s|\.{2,}.*"
_EXAMPLE = (
    r"(?i:your|my|the|some|insert|enter|replace|put)[-_ ].*(?i:here|key|token|password|secret)"
    r"|(?i:enter|type|choose|forgot|reset) .*"
)
_NOTHING = rf"\A(?:{_MASKED}|{_EXAMPLE})\z"
_CODE = r"\A(?:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[(\[].*|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|lambda\b.*|new|await|function)\z"
_UNIT = (
    r"\s?(?:(?i:-?(?:char(?:acter)?s?|digits?|letters?|bits?|words?|bytes?|numbers?|symbols?|days?|hours?|minutes?|mins?"
    r"|times?|tokens?|years?|months?|k)\b)|位|个|字|次|天|分钟|小时|元|年|月|到|至)"
)


def is_nothing(value: str) -> bool:
    """Whether a value is too short, masked, an example, or a word that stands for none."""
    return len(value) < LEAST or value.lower() in _NO_VALUES or expression(_NOTHING).search(value) is not None


def is_code(value: str) -> bool:
    """Whether a value is an expression of a program."""
    return expression(_CODE).search(value) is not None


def is_length(found: Found, value: str) -> bool:
    """Whether a value at the beginning of the match is a length or a number of something: ``8-16位``."""
    end = found.start + len(value.encode())
    counted = expression(_UNIT).match(found.data[end : end + LABEL_BYTES])
    within = rf"\A[0-9]{{1,3}}(?:[-~][0-9]{{1,3}})?{_UNIT}|\A[0-9]{{1,2}}[-~][0-9]{{1,3}}\z"
    return (counted or expression(within).search(value)) is not None


def has_digit(value: str) -> bool:
    """Whether a value has a digit."""
    return any(map(str.isdecimal, value))
