"""Rules for telephone numbers: international, of North America, of China, and national ones with a label."""

from wenmai.text.redact.rule import Found, Kind, Rule, Span

_EXTENSION = r"(?:\s?(?:(?i:x|ext\.?|extension|#|转|分机)[\s:]?|-转?)[0-9]{1,6}\b|\b)"
_SHORT_EXTENSION = r"(?:\s?(?:(?i:x|ext\.?|extension)\s?[0-9]{1,6}|(?:转|分机)\s?[0-9]{1,6}))?"
_GAP = r"[ .\-/]?"

_JOIN = (
    r"(?i:[\s:=#(\[\"'*,_]|\b(?:is|are|was|at|on|no|nr|num|numbers?|me|us|him|her|them|my|direct|line|work|home|office)\b"
    r"|是|为|号码|号|码|就是|[-\.])*"
)
_LABEL = (
    r"(?i:(?:\b|_)(?:phones?(?:[_-]?(?:number|num|no))?|tel(?:ephone)?s?|mobile|cell(?:phone)?|contact|fax)"
    r"|\bwhats ?app|\bhotline|\bhelpline|\b(?:call|text|dial|ring|sms|reach)(?: (?:me|us|him|her|them|back))?"
    r"|\bmy number|\bnumber to call"
    r"|\b(?:his|her|their|our|your) (?:phone )?number|\bm\.|\bt\.|\bph"
    r"|电话|手机|联系方式|座机|固话|传真|热线|拨打|致电|来电|微信|短信|電話|手機|联系我)"
) + _JOIN
"""What names a telephone number before it."""

_OTHER = (
    r"(?i:(?:\b|_)(?:order|invoice|ticket|tracking|serial|sku|isbn|item|product|case|ref(?:erence)?|model"
    r"|parcel|shipment|id|transaction|batch|policy|version|timestamp|patent|uuid|commit)"
    r"|订单|单号|编号|流水|工单|快递|物流|运单|发票|工号|学号|型号|批次|序列|版本|时间戳|QQ|条码|货号|案号|合同)"
    r"(?i:[\s:=#(\[\"'_-]|(?:\b|_)(?:is|was|no|nr|num|number|id|code)\b\.?|是|为|号码|号|代?码|\.)*"
)
"""What names another number."""

_MONEY_AFTER = (
    r"\s?(?:元|块|美元|万|亿|個|个|人|次|%|(?i:dollars|usd|eur|rmb|yuan|units|bytes|users|people|kg|km|ms)\b)"
)
_NOT_BEFORE = rf"[-_][0-9A-Za-z_]|/[A-Za-z_]|[.,][0-9]|[A-Za-z_@]|\.[A-Za-z]|{_MONEY_AFTER}"
_NOT_AFTER = rf"[0-9A-Za-z_][-_.=#+:]|[A-Za-z_]/|\.|[$€£¥￥₹₩]\s?|{_OTHER}"
_NOT_AFTER_GROUPED = rf"{_NOT_AFTER}|(?:\A|[^0-9])[0-9]{{1,5}} "
"""The same for a number in groups, of which there may be more before it."""


def _free(found: Found) -> bool:
    """Whether the number is no part of something else, or has the label of a telephone number."""
    if found.precedes(_NOT_BEFORE):
        return False
    return found.follows(_LABEL) or not found.follows(_NOT_AFTER_GROUPED if " " in found.text else _NOT_AFTER)


def _international(found: Found) -> Span | None:
    digits = found.digits
    plus = "+" in found.text[:2]
    if found.follows(r"[0-9A-Za-z_+)]") or not 8 <= len(digits.removeprefix("00")) <= 15:  # noqa: PLR2004
        return None
    if plus:
        return None if found.precedes(_MONEY_AFTER) or found.precedes(r"[.,]?[0-9]") else found.span(Kind.PHONE)
    return found.span(Kind.PHONE) if _free(found) else None


def _separated(found: Found) -> Span | None:
    """A number in groups, of which the groups make a telephone number."""
    text, digits = found.text, found.digits
    labelled = found.follows(_LABEL)
    if not labelled and " " in text and not any(mark in text for mark in "-.()/") and digits[-10] in "01":
        return None
    return found.span(Kind.PHONE) if _free(found) else None


def _bare(found: Found) -> Span | None:
    if found.text in _CONSTANTS:
        return None
    return found.span(Kind.PHONE) if _free(found) else None


_CONSTANTS = ("2147483647", "2147483648", "4294967295", "4294967296")


def _national(found: Found) -> Span | None:
    """Groups behind a trunk prefix, 9 to 12 digits."""
    if not 9 <= len(found.digits) <= 12 or found.precedes(r"\s?[0-9:]"):  # noqa: PLR2004
        return None
    return found.span(Kind.PHONE) if _free(found) else None


def _parenthesised(found: Found) -> Span | None:
    area = found.data[found.start + 1 : found.start + 5]
    if area[:2] in (b"19", b"20") and area.isdigit():
        return None
    return found.span(Kind.PHONE) if len(found.digits) >= 9 and not found.precedes("[0-9A-Za-z]") else None  # noqa: PLR2004


def _labelled(found: Found) -> Span | None:
    digits = found.digits
    if not 7 <= len(digits) <= 15 or not found.follows(_LABEL):  # noqa: PLR2004
        return None
    if len(digits) == 8 and digits[:2] in ("19", "20") and digits[4:6] <= "12":  # noqa: PLR2004 — a date
        return None
    return found.span(Kind.PHONE) if _free(found) else None


SIGN = r"[0-9](?:[^0-9\n]{0,4}[0-9]){6}"

RULES = (
    Rule(
        Kind.PHONE,
        r"((?:\(\+[0-9]{1,3}\)|\+[ ]?(?:\([0-9]{1,4}\)|[0-9]))(?:[ .\-/]{0,2}\(?[0-9]{1,5}\)?){1,7}"
        rf"{_SHORT_EXTENSION})",
        _international,
    ),
    Rule(Kind.PHONE, rf"\b(0086{_GAP}1[3-9][0-9]{_GAP}[0-9]{{4}}{_GAP}[0-9]{{4}})\b", _bare),
    Rule(
        Kind.PHONE,
        rf"\b(00[1-9][0-9]{{0,2}}[ .\-](?:\(?[0-9]{{1,5}}\)?[ .\-]?){{1,5}}[0-9]{{2,5}}{_SHORT_EXTENSION})",
        _international,
    ),
    # China: mobile, landline, service.
    Rule(Kind.PHONE, rf"(\(?\b86\)?{_GAP}1[3-9][0-9]{_GAP}[0-9]{{4}}{_GAP}[0-9]{{4}})\b", _bare),
    Rule(Kind.PHONE, r"\b(1[3-9][0-9](?:[0-9]{8}|[ \-][0-9]{4}[ \-][0-9]{4}|[0-9]{4}[ \-][0-9]{4}))\b", _bare),
    Rule(
        Kind.PHONE,
        rf"(\b(?:86-)?0(?:10|2[0-9]|[3-9][0-9]{{2}})[ \-]?[2-8][0-9]{{6,7}}(?:-[0-9]{{1,6}}\b)?{_SHORT_EXTENSION})",
        _bare,
    ),
    Rule(
        Kind.PHONE,
        rf"(\(0(?:10|2[0-9]|[3-9][0-9]{{2}})\)[ \-]?[2-8][0-9]{{2,3}}[ \-]?[0-9]{{4}}{_SHORT_EXTENSION})",
        _bare,
    ),
    Rule(Kind.PHONE, r"\b([48]00(?:-[0-9]{4}-[0-9]{3}|[0-9]{7}))\b", _bare),
    # North America, with and without separators.
    Rule(
        Kind.PHONE,
        rf"((?:\b1[ .\-]?)?(?:\([0-9]{{3}}\)[ ]?|\b[0-9]{{3}}[ .\-])[0-9]{{3}}[ .\-]?[0-9]{{4}}{_EXTENSION})",
        _separated,
    ),
    Rule(Kind.PHONE, rf"\b((?:1[ .\-]?)?[2-9][0-9]{{2}}[2-9][0-9]{{2}}-?[0-9]{{4}}{_SHORT_EXTENSION})\b", _bare),
    # Elsewhere.
    Rule(
        Kind.PHONE,
        rf"(\(0?[0-9]{{1,4}}\)[ \-]?[0-9]{{3,5}}[ \-]?(?:[0-9]{{3,4}}|[0-9]{{2}}[ \-][0-9]{{2}})\b{_SHORT_EXTENSION})",
        _parenthesised,
    ),
    Rule(Kind.PHONE, rf"\b(0[1-9][0-9]{{0,3}}(?:[ .\-/][0-9]{{2,8}}){{1,4}}{_SHORT_EXTENSION})\b", _national),
    Rule(Kind.PHONE, rf"(\(?\b[0-9](?:[ .\-/()]{{0,2}}[0-9]){{6,14}}\b{_SHORT_EXTENSION})", _labelled),
)
