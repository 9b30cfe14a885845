"""Attribution: whether a sentence attributes a claim to the user or denies it, without affirming it."""

import re
from functools import cached_property

from wenmai.grounding.lexicon import EMPTY, Lexicon, once_per_lexicon
from wenmai.text.patterns import any_of, any_word, chinese, english

_RECORDS = any_of("记载 史料 资料 文献 记录 证据 材料 书中 典籍")
_SILENT = any_of("没有 并无 未见 未载 未有 不见 没提 没写 无从 并未 未曾 不足 不支持 不符 不一致")
_NONE = any_of("没有 并无 未见 不见 找不到 查不到 无(?![论误疑不])")
_PROOF = any_of("记载 史料 资料 文献 记录 证据 依据 佐证 说法")
_RECORDS_EN = any_of(r"records?\b recorded\b sources?\b evidence\b documents?\b")
_NOT_EN = r"(?:not|no|nothing|never|silent|cannot|can't|don't|doesn't|unable)\b(?!\s(?:doubt|only|less|but)\b)"
_SAYS_EN = any_of(r"confirm\w* verify\b mention\w* support\w* say\b")
_NOT_THIS = re.compile(r"(?:不是|并非|而非|非|不在|\bnot(?: in| by| on| at)?)[ “\"「]{0,2}$", re.IGNORECASE)
_AFFIRMS = re.compile(
    any_of(
        r"""
        没错 确实 的确 (?<!不)正是 正如 诚如 如[您你]所 说得(?:很|不错|对) 说的(?:很|没错|不错|对) (?<!不)是对的
        所言(?:极是|不虚|甚是) \bas_you_(?:say|said|mention\w*) \bindeed\b (?<!not_)\bcorrect(?!ed)\b
        \byou(?:'re|_are)_right\b \bthat's_right\b \byes\b (?<!not_)\btrue\b
        """
    ),
    re.IGNORECASE,
)
_USER_SAYS = (
    r"[^，。我]{0,4}(?:说|提到|提及|讲|以为|认为)"
    r"|\byou(?:'ve| have| also| just)?\s(?:say|said|mention\w*|claim\w*|think|thought|heard|were told)\b"
)
_SAID_BY_USER = re.compile(r"^[^，。,.]{0,6}(?:[您你]所?[说提]|\byou\s(?:say|said|mention))", re.IGNORECASE)
_USER = re.compile(r"[您你]|\byou\b", re.IGNORECASE)
_MAY_DENY = re.compile(r"[您你非]|不是|不在|\bnot\b|\byou", re.IGNORECASE)
_QUOTES = frozenset('“"「『‘')
_NEARBY = 60


class Attribution:
    """Attribution within one sentence; properties of the whole sentence are computed on first use."""

    def __init__(self, sentence: str, lexicon: Lexicon = EMPTY) -> None:
        self._sentence = sentence
        self._denial, self._user_says = _patterns(lexicon)

    def is_attributed(self, start: int, end: int) -> bool:
        """Whether the text between two offsets is attributed to the user or denied, rather than asserted.

        Never in a sentence that affirms. The words *you say* only count in the claim's own clause: 您问得好，before a
        claim is a courtesy.
        """
        if not self._attributes:
            return False
        before = re.split(r"[，,；;。]", self._sentence[max(0, start - _NEARBY) : start])[-1]
        if self._denies or _NOT_THIS.search(before) or self._user_says.search(before):
            return True
        if _SAID_BY_USER.search(self._sentence[end : end + _NEARBY]):
            return True
        return before.rstrip()[-1:] in _QUOTES and _USER.search(before) is not None

    def denies_between(self, start: int, end: int) -> bool:
        """Whether the text between two offsets says that the records do not have something."""
        return self._denial.search(self._sentence, start, end) is not None

    @cached_property
    def _attributes(self) -> bool:
        """Whether it may attribute anything: it denies something or names the user, and does not affirm."""
        may = self._denies or _MAY_DENY.search(self._sentence) is not None
        return may and _AFFIRMS.search(self._sentence) is None

    @cached_property
    def _denies(self) -> bool:
        return self._denial.search(self._sentence) is not None


@once_per_lexicon
def _patterns(lexicon: Lexicon) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A denial, and words of the user, in any field and in this one."""
    sources = any_word(chinese(lexicon.words.sources), _RECORDS)
    sources_en = any_word(english(lexicon.words.sources), _RECORDS_EN)
    denial = (
        rf"(?:{sources})[^，。！？]{{0,12}}(?:{_SILENT})",
        rf"(?:{_NONE})[^，。！？]{{0,12}}(?:{_PROOF})",
        "无从(?:证实|考证|查证)|不能(?:证实|确认|断言)|无法(?:证实|确认|核实)",
        rf"\b(?:{sources_en})[^,;.!?]{{0,40}}\b{_NOT_EN}",
        rf"\b{_NOT_EN}[^,;.!?]{{0,40}}\b(?:{sources_en}|{_SAYS_EN})",
    )
    user_says = f"(?:{any_word(lexicon.words.addresses, '[您你]')}){_USER_SAYS}"
    return re.compile("|".join(denial), re.IGNORECASE), re.compile(user_says, re.IGNORECASE)
