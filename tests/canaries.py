"""Made-up private values of every kind, each told in a sentence, none like another."""

import random
from typing import NamedTuple

LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghjkmnpqrstuvwxyz23456789"
_CN_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


class Canary(NamedTuple):
    """A private value, and a sentence that has it."""

    kind: str
    value: str
    text: str


class _Maker:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 — made up

    def digits(self, count: int) -> str:
        return "".join(self._random.choice("0123456789") for _ in range(count))

    def letters(self, count: int) -> str:
        return "".join(self._random.choice(LETTERS) for _ in range(count - 1)) + self._random.choice("23456789")

    def card(self, prefix: str, length: int) -> str:
        body = prefix + self.digits(length - len(prefix) - 1)
        doubled = [sum(divmod(int(digit) * (2 - at % 2), 10)) for at, digit in enumerate(reversed(body))]
        return f"{body}{-sum(doubled) % 10}"

    def resident_id(self) -> str:
        body = f"3101041985{self._random.randrange(10, 13)}{self._random.randrange(10, 29)}{self.digits(3)}"
        total = sum(weight * int(digit) for weight, digit in zip(_CN_WEIGHTS, body, strict=True))
        return f"{body}{'10X98765432'[total % 11]}"

    def iban(self) -> str:
        account = self.digits(18)
        return f"DE{98 - int(account + '131400') % 97:02d}{account}"

    def of_each_kind(self) -> list[tuple[str, str, str]]:
        """Kind, value, and a template of the sentence."""
        number = self.digits(4)
        while number == "0000":
            number = self.digits(4)
        address = ".".join(str(self._random.randrange(11, 250)) for _ in range(4))
        hexadecimal = ":".join(self.digits(3) + "a" for _ in range(6))
        return [
            ("EMAIL", f"u{self.letters(12)}@example.org", "please write to {} today"),
            ("PHONE", f"139{self.digits(8)}", "我的手机是{}，随时打"),
            ("PHONE", f"+4420794{self.digits(5)}", "call me at {} after six"),
            ("CC", self.card("4556", 16), "pay with {} please"),
            ("BANK_CARD", self.card("622202", 19), "银行卡号{}，工商银行"),
            ("SSN", f"51{self._random.randrange(10)}-{self._random.randrange(10, 99)}-{number}", "my SSN is {}"),
            ("CN_ID", self.resident_id(), "身份证{}请核对"),
            ("PASSPORT", f"E{self.digits(8)}", "护照号{}"),
            ("IBAN", self.iban(), "transfer it to {}"),
            ("IP", address, "the server {} is down"),
            ("IP", f"2001:db8:{hexadecimal}", "its address is {}"),
            ("API_KEY", f"sk-proj-{self.letters(30)}", "use the key {}"),
            ("API_KEY", f"ghp_{self.letters(36)}", "{} is the token"),
            ("SECRET", f"pw-{self.letters(10)}", "password={}"),
            ("SECRET", f"Qz{self.letters(9)}", "我的密码是{}"),
            ("SECRET", f"Hx{self.letters(9)}", "my password is {}."),
        ]


def canaries(rounds: int, seed: int = 1) -> list[Canary]:
    """16 canaries for each round, of every kind, in a random order."""
    maker = _Maker(seed)
    made = [
        Canary(kind, value, template.format(value))
        for _ in range(rounds)
        for kind, value, template in maker.of_each_kind()
    ]
    random.Random(seed).shuffle(made)  # noqa: S311 — made up
    return made
