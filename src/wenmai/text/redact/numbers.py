"""Rules for numbers of persons and accounts: cards, resident ids, social security, passports, IBANs."""

from wenmai.text.redact.checksums import cn_id_checked, cn_id_plausible, iban, iban_length, luhn
from wenmai.text.redact.rule import Found, Kind, Rule, Span

_JOIN = (
    r"(?i:[\s:=#(\[\"'*,]|\b(?:is|are|was|no|nr|num|number|card|ending|of|my|the|me|with|using)\b\.?"
    r"|是|为|号码|号|码|就是|[-\.])*"
)
_CARD_LABEL = (
    r"(?i:\b(?:credit|debit|bank|visa|master|amex|payment)[ -]?cards?|\bvisa|\bmastercard|\bamex"
    r"|\bcard (?:number|no|num)|\bcc|信用卡)" + _JOIN
)
_BANK_LABEL = (
    r"(?:银行卡|储蓄卡|借记卡|工资卡|银行账[号户]|银行帐[号户]|卡号|收款账[号户]|銀行卡|银联卡|(?i:\bbank account))"
    + _JOIN
)
_ID_LABEL = (
    r"(?i:身份证|身份號碼|身份号码|公民身份|证件|身份證|\bresident id|\bnational id|\bid card|\bid number|\bchinese id)"
    + _JOIN
)
_SSN_LABEL = (
    r"(?i:\bssn|\bsocial security|\bsocial|社会安全|社安)"
    r"(?i:\b(?:security|number|no|is|was|of)\b|[\s:=#(\[\"'.-]|号码|号|是|为)*"
)
_PASSPORT = r"(?i:passport|护照|護照|通行证|travel document)"
_PASSPORT_LABEL = _PASSPORT + r"(?i:[\s:=#(\[\"'.]|\b(?:number|no|nr|num|is|was|book|id)\b|号码|号|是|为|編號|编号)*"
_GOODS = (
    r"(?i:\b(?:ean|isbn|upc|gtin|imei|tracking|waybill)|条码|快递|运单|物流|订单|单号)"
    r"(?i:[\s:=#.-]|\b(?:number|no|is)\b|号|码|是|为)*"
)
_PARTS = (
    r"(?i:\b(?:order|invoice|serial|sku|item|part|model|code)|订单|单号|编号|型号|批次|货号)"
    r"(?i:[\s:=#]|number|no\.?|is|是|为|号)*"
)
_NEAR = r"[^\n\x1a]{0,40}"


def _brand(digits: str) -> bool:
    """Whether a network of cards has numbers of this beginning and length."""
    two, four, length = int(digits[:2]), int(digits[:4]), len(digits)
    return (
        (digits[0] == "4" and length in (13, 16, 19))
        or ((51 <= two <= 55 or 2221 <= four <= 2720) and length == 16)  # noqa: PLR2004
        or (two in (34, 37) and length == 15)  # noqa: PLR2004
        or ((300 <= four // 10 <= 305 or two in (36, 38, 39)) and length in (14, 16, 19))  # noqa: PLR2004
        or ((four == 6011 or 644 <= four // 10 <= 659) and length in (16, 19))  # noqa: PLR2004
        or ((3528 <= four <= 3589 and length in (16, 19)) or (four in (1800, 2131) and length == 15))  # noqa: PLR2004
        or (two in (50, 56, 57, 58, 59, 61, 63, 64, 67, 68, 69) and length in (16, 18, 19))
        or (digits[0] == "1" and length == 15)  # noqa: PLR2004
    )


def _card(found: Found) -> Span | None:
    if found.follows(r"[0-9A-Za-z_][-_./]|[0-9] |[.$€£¥]") or found.precedes(r"[.,][0-9]|[-_][A-Za-z]"):
        return None
    text = found.text
    for cut in (text, text.rpartition(" ")[0], text.rpartition("-")[0]):
        digits = "".join(filter(str.isdecimal, cut))
        if not 13 <= len(digits) <= 19:  # noqa: PLR2004
            continue
        kind = _card_kind(found, digits)
        if kind:
            return found.span(kind, end=found.start + len(cut))
    return None


def _card_kind(found: Found, digits: str) -> str:
    bank, credit = found.follows(_BANK_LABEL), found.follows(_CARD_LABEL)
    union_pay = digits.startswith(("62", "60", "81")) and len(digits) >= 16  # noqa: PLR2004
    long = len(digits) >= 17 and (digits[0] in "3456" or digits.startswith("9558"))  # noqa: PLR2004
    if found.follows(_ID_LABEL) or (not (credit or bank) and found.follows(_GOODS)):
        return ""
    if luhn(digits):
        if credit or (_brand(digits) and not bank):
            return Kind.CC
        return Kind.BANK_CARD if bank or union_pay or long else ""
    if bank and len(digits) >= 16:  # noqa: PLR2004
        return Kind.BANK_CARD
    return Kind.CC if credit and len(digits) >= 14 and digits[0] in "123456" else ""  # noqa: PLR2004


def _cn_id(found: Found) -> Span | None:
    number = found.text.replace(" ", "").replace("-", "")
    if not cn_id_plausible(number) or found.follows("[0-9A-Za-z_][-_./]") or found.precedes("[-_.][0-9A-Za-z]"):
        return None
    if len(number) == 15 or cn_id_checked(number) or found.follows(_ID_LABEL):  # noqa: PLR2004
        return found.span(Kind.CN_ID)
    return None


def _ssn(found: Found) -> Span | None:
    text, digits = found.text, found.digits
    if found.follows(r"[0-9A-Za-z_][-_./]|[$€£]") or found.precedes(r"[-./][0-9A-Za-z]"):
        return None
    if found.follows(_SSN_LABEL):
        return found.span(Kind.SSN)
    separators = text.replace(" ", "-").strip("0123456789")
    valid = digits[:3] not in ("000", "666") and digits[3:5] != "00" and digits[5:] != "0000"
    shaped = text.count("-") == 2 or text.count(" ") == 2  # noqa: PLR2004
    return found.span(Kind.SSN) if valid and shaped and separators else None


def _passport_near(found: Found) -> Span | None:
    near = found.follows(_PASSPORT + _NEAR) or found.precedes(_NEAR + _PASSPORT)
    return found.span(Kind.PASSPORT) if near and any(map(str.isdecimal, found.text)) else None


def _cn_passport(found: Found) -> Span | None:
    in_id = found.follows(r"[0-9A-Za-z_][-_./#]|#") or found.precedes(r"[-_./][0-9A-Za-z]")
    return None if in_id or found.follows(_PARTS) else found.span(Kind.PASSPORT)


def _passport(found: Found) -> Span | None:
    return found.span(Kind.PASSPORT) if found.follows(_PASSPORT_LABEL) else None


def _iban(found: Found) -> Span | None:
    """The account number that begins here: as many letters and digits as its country has, in groups."""
    country = found.text[:2].upper()
    wanted, number, end = iban_length(country), "", found.start
    while len(number) < wanted and end < len(found.data):
        character = chr(found.data[end])
        if character.isascii() and character.isalnum():
            number += character.upper()
        elif character not in " -" or chr(found.data[end - 1]) in " -":
            return None
        end += 1
    bounded = not found.data[end : end + 1].isalnum()
    return found.span(Kind.IBAN, end=end) if wanted and len(number) == wanted and bounded and iban(number) else None


SIGN = r"[0-9](?:[^0-9\n]{0,4}[0-9]){5}"

RULES = (
    Rule(Kind.IBAN, r"\b([A-Za-z]{2}[0-9]{2})(?:[ \-]?[0-9A-Za-z])", _iban),
    Rule(
        Kind.CN_ID,
        r"\b([1-8][0-9]{5}[ \-]?(?:18|19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])[ \-]?"
        r"[0-9]{3}[0-9Xx])\b",
        _cn_id,
    ),
    Rule(
        Kind.CC,
        r"\b([0-9]{4}(?: +| ?- ?)[0-9]{4}(?: +| ?- ?)[0-9]{4}(?: +| ?- ?)[0-9]{1,4}(?:[ \-][0-9]{3})?"
        r"|[0-9]{4}[ \-][0-9]{6}[ \-][0-9]{4,5}|[0-9]{6}[ \-][0-9]{10,13}|[0-9]{13,19})\b",
        _card,
    ),
    Rule(Kind.CN_ID, r"\b([1-8][0-9]{7}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])[0-9]{3})\b", _cn_id),
    Rule(Kind.PASSPORT, r"\b([EG][0-9]{8}|E[A-HJ-NP-Z][0-9]{7})\b", _cn_passport),
    Rule(Kind.PASSPORT, r"\b([A-Za-z]{1,3}[0-9]{6,9}[A-Za-z]?|[0-9]{2}[A-Z]{2}[0-9]{5})\b", _passport_near),
    Rule(Kind.PASSPORT, r"\b([0-9]{7,9}|[0-9A-Z]{8,9})\b", _passport),
    Rule(Kind.SSN, r"\b([0-9]{3}[ .\-]?[0-9]{2}[ .\-]?[0-9]{4})\b", _ssn),
)
