"""Rules for e-mail addresses."""

from wenmai.text.patterns import word_list
from wenmai.text.redact.rule import Found, Kind, Rule, Span

_LETTERS = r"\p{Latin}\p{Cyrillic}\p{Greek}\p{Arabic}\p{Hebrew}\p{Devanagari}\p{Thai}\p{M}0-9"
"""All but those of scripts without blanks between words, in which an address has no visible beginning."""

_FILES = tuple(
    f".{ending}"
    for ending in word_list(
        "png jpg jpeg gif svg webp ico js mjs ts tsx css py java html htm json yaml yml txt zip tgz"
    )
)
"""Endings of names such as ``icon@2x.png``."""

_AT = r"[\[({<]\s?(?i:at|@)\s?[\])}>]"
_DOT = r"(?:\.|\s?[\[({<]\s?(?i:dot|\.)\s?[\])}>]\s?)"
_CODE = r"\(|_|\.?[0-9A-Za-z]+\("


def _email(found: Found) -> Span | None:
    text = found.text
    if (
        (found.left == b"/" and found.follows(r"[0-9A-Za-z+]://"))
        or text.lower().endswith(_FILES)
        or (found.right in b"(_." and found.precedes(_CODE))
    ):
        return None  # a user in a URL, a file, an expression of a program
    if text.startswith("git@") and found.right in b":/":
        return None
    return found.span(Kind.EMAIL)


def _ascii_email(found: Found) -> Span | None:
    # Beside other letters, the rule for them finds the whole address.
    return _email(found) if found.left.isascii() and found.right.isascii() else None


SIGN = r"@| dot |(?i)[\[({<]\s?at\s?[\])}>]"
"""What a text with an address has at least; so in the other modules."""

RULES = (
    Rule(
        Kind.EMAIL,
        r"([0-9A-Za-z_%+~-][0-9A-Za-z_%+~.'!-]*@(?:[0-9A-Za-z_-]+\.)+(?:xn--[0-9A-Za-z-]+|[A-Za-z]{2,24}))",
        _ascii_email,
    ),
    Rule(
        Kind.EMAIL,
        r"(?i)\b([0-9a-z_.+-]+(?: dot [0-9a-z_+-]+)* at [0-9a-z-]+"
        r"(?: dot (?:com|org|net|edu|gov|io|co|cn|uk|de|info))+)\b",
    ),
    Rule(
        Kind.EMAIL,
        rf"([{_LETTERS}_%+~-][{_LETTERS}_%+~.'!-]*@(?:[{_LETTERS}_-]+\.)+(?:xn--[0-9A-Za-z-]+|[{_LETTERS}]{{2,24}}))",
        _email,
        world=True,
    ),
    Rule(Kind.EMAIL, r'("[^"\s@]{1,64}"@(?:[0-9A-Za-z_-]+\.)+[A-Za-z]{2,24})'),
    Rule(Kind.EMAIL, r"([0-9A-Za-z_%+~.-]+@\[(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|IPv6:[0-9A-Fa-f:.]{2,45})\])"),
    Rule(
        Kind.EMAIL,
        r"([\p{Han}0-9A-Za-z_.-]+@(?:[\p{Han}0-9A-Za-z-]+\.)+(?:中国|公司|网络|网址|广告|在线|com|cn|net|org))",
        world=True,
    ),
    Rule(Kind.EMAIL, rf"\b([0-9A-Za-z_.+-]+\s?{_AT}\s?(?:[0-9A-Za-z-]+{_DOT})+[A-Za-z]{{2,24}})\b"),
)
