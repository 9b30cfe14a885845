"""Checksums and validity of numbers: cards, IBANs, Chinese resident ids and their dates."""

from datetime import date

from wenmai.text.patterns import word_list

_CN_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_CN_CHECKS = "10X98765432"
_CN_REGIONS = frozenset(
    word_list(
        "11 12 13 14 15 21 22 23 31 32 33 34 35 36 37 41 42 43 44 45 46 50 51 52 53 54 61 62 63 64 65 71 81 82 83"
    )
)
"""First two digits of a resident id: the province, or the region."""

_IBAN_LENGTHS = {
    code: int(length)
    for code, length in (
        entry.split(":")
        for entry in word_list("""
        AD:24 AE:23 AL:28 AT:20 AZ:28 BA:20 BE:16 BG:22 BH:22 BI:27 BR:29 BY:28 CH:21 CR:22 CY:28 CZ:24 DE:22 DJ:27
        DK:18 DO:28 EE:20 EG:29 ES:24 FI:18 FK:18 FO:18 FR:27 GB:22 GE:22 GI:23 GL:18 GR:27 GT:28 HN:28 HR:21 HU:28
        IE:22 IL:23 IQ:23 IS:26 IT:27 JO:30 KW:30 KZ:20 LB:28 LC:32 LI:21 LT:20 LU:20 LV:21 LY:25 MC:27 MD:24 ME:22
        MK:19 MN:20 MR:27 MT:31 MU:30 NI:28 NL:18 NO:15 OM:23 PK:24 PL:28 PS:29 PT:25 QA:29 RO:24 RS:22 RU:33 SA:24
        SC:31 SD:18 SE:24 SI:19 SK:24 SM:27 SO:23 ST:25 SV:28 TL:23 TN:24 TR:26 UA:29 VA:22 VG:24 XK:20 YE:30
        """)
    )
}
"""Length of an IBAN by its country."""


def luhn(digits: str) -> bool:
    """Whether the digits end with their Luhn check digit, and are not all the same."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return len(set(digits)) > 1 and (sum(map(int, digits[::-2])) + sum(doubled)) % 10 == 0


def iban_length(country: str) -> int:
    """The length of an IBAN of the country; 0 if it has none."""
    return _IBAN_LENGTHS.get(country, 0)


def iban(number: str) -> bool:
    """Whether an IBAN in capitals without blanks has the right check digits."""
    return int("".join(str(int(character, 36)) for character in number[4:] + number[:4])) % 97 == 1


def cn_id_plausible(number: str) -> bool:
    """Whether a resident id of 15 or 18 characters begins with a region and has a possible date of birth."""
    born = number[6:14] if len(number) == 18 else "19" + number[6:12]  # noqa: PLR2004 — stated above
    try:
        date(int(born[:4]), int(born[4:6]), int(born[6:]))
    except ValueError:
        return False
    return number[:2] in _CN_REGIONS and "1800" < born[:4] < "2100"


def cn_id_checked(number: str) -> bool:
    """Whether a resident id of 18 characters has the right last one."""
    total = sum(weight * int(digit) for weight, digit in zip(_CN_WEIGHTS, number[:17], strict=True))
    return _CN_CHECKS[total % 11] == number[17].upper()
