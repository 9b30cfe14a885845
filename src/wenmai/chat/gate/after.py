"""The gate after the model: what of an answer stands in the evidence, and which evidence that is.

The history, summaries and preferences are no parameters here: what stands only in them does not stand.
"""

import re
from collections.abc import Sequence

import msgspec

from wenmai.chat.gate.claim import Claim, ClaimKind
from wenmai.chat.gate.claims import find_claims
from wenmai.chat.gate.grounds import Ground, grounds, standing
from wenmai.chat.gate.quotable import quotable
from wenmai.chat.gate.reading import spans
from wenmai.chat.types import Citation, Passage, PolicyMode
from wenmai.text.cjk import query_terms, sentences, terms

EXCERPT = 100
"""Characters of a citation's excerpt."""

_MARK = re.compile(r" ?[\[【［](\d{1,3})[\]】］]")
_BRACKET = re.compile(r"[(（][^()（）]{1,80}[)）]")
_CLAUSE_END = re.compile(r"[，,；;]")
_TOUCHES = 0.25
_FRAME = re.compile(r"[您你]|后生(?:说|问|提)|所说|所问|\byou(?:r| )|\bvisitor\b", re.IGNORECASE)
_DENIAL = re.compile(
    "(?:记载|史料|资料|文献|族谱|县志|记录|证据|材料|书中|碑文|典籍)[^。！？]{0,12}(?:没有|并无|"
    "未见|未载|未有|不见|没提|没写|无从|并未|未曾|不足|不支持|不符|不一致)"
    "|(?:没有|并无|未见|不见|找不到|查不到|无)[^。！？]{0,12}(?:记载|史料|资料|文献|记录|证据|"
    "依据|佐证|说法)|无从(?:证实|考证|查证)|不能(?:证实|确认|断言)|无法(?:证实|确认|核实)"
    r"|\b(?:records?|sources?|evidence|documents?|passages?|genealogy|"
    r"gazetteer)\b[^.!?]{0,40}\b(?:not|no|nothing|never|silent)\b"
    r"|\b(?:not|no|nothing|never|cannot|can't|don't|doesn't|unable)\b[^.!?]{0,40}\b(?:records?|"
    r"recorded|sources?|evidence|confirm\w*|verify|documents?|mention\w*|support\w*|say so)\b",
    re.IGNORECASE,
)
_HEDGE = re.compile(
    r"传说|据传|相传|传闻|口头|口述|未经核实|没有核实|\b(?:reportedly|legends?|tales?|unverified|"
    r"hearsay|it is said|rumou?r\w*)\b",
    re.IGNORECASE,
)
_NOT_THIS = re.compile(r"(?:不是|并非|而非|非|不在|\bnot(?: in| by| on| at)?)[ “\"「]{0,2}$", re.IGNORECASE)
_AFFIRMS = re.compile(
    "没错|确实|的确|(?<!不)正是|正如|诚如|如[您你]所|说得(?:很|不错|对)|说的(?:很|没错|不错|对)|"
    "(?<!不)是对的|所言(?:极是|不虚|甚是)"
    r"|\bas you (?:said|say|mention\w*)|\bindeed\b|(?<!not )\bcorrect(?!ed)\b|\byou(?:'re| are) "
    r"right\b|\bthat's right\b|\byes\b|(?<!not )\btrue\b",
    re.IGNORECASE,
)


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """An answer after the check.

    Attributes:
        text: what may be said; empty if nothing is left, and then the persona's conservative phrase is due.
        mode: ``normal``, or ``conservative`` if something had to go.
        reason: ``unsupported: …`` with what did not stand, ``empty``, or nothing.
        unsupported: the claims that did not stand, offsets into the answer as given.
        cited: the numbers of the passages that what is said stands on, ascending.
    """

    text: str
    mode: PolicyMode
    reason: str
    unsupported: list[Claim]
    cited: list[int]


def after_model(
    answer: str,
    *,
    question: str,
    passages: Sequence[Passage],
    language: str,
    persona_names: Sequence[str],
) -> Checked:
    """Keep of a model's whole answer what stands in the passages.

    A claim that no passage supports goes with its bracket, with its clause and what follows it, or with its
    sentence; one that only unverified passages support is marked as hearsay. One that stands in the question
    may stay where it is the visitor's word or is denied, never where it is affirmed. Marks like ``[2]`` for
    passages that are not there are taken out.

    Args:
        answer: as the model wrote it, whole.
        question: what the visitor wrote.
        passages: what the model was given.
        language: BCP 47 tag of the answer; chooses the wording of what the check itself writes.
        persona_names: what the persona is called; no claim.
    """
    check = _Check(
        on=grounds(passages),
        own=frozenset((claim.kind, claim.value) for claim in find_claims(question)),
        verified=frozenset(passage.number for passage in passages if passage.verified),
        chinese=not language.startswith("en"),
    )
    kept: list[str] = []
    wrong: list[Claim] = []
    cited: set[int] = set()
    position = 0
    claims = find_claims(answer, known=persona_names)
    for start, end in spans(answer):
        inside = [claim for claim in claims if start <= claim.start < end]
        rest, bad, numbers = check.sentence(answer[start:end], start, inside)
        kept.append(answer[position:start] + rest if rest else "")
        position = end
        wrong += bad
        cited |= numbers
    known = {passage.number for passage in passages}
    text = _MARK.sub(lambda mark: mark[0] if int(mark[1]) in known else "", "".join(kept)).strip()
    if wrong and not (cited or _touches(text, passages)):
        text = ""
    if not cited:
        cited = _nearest(text, passages)
    if wrong or not text:
        reason = f"unsupported: {', '.join(dict.fromkeys(claim.text for claim in wrong))}" if wrong else "empty"
        return Checked(text=text, mode=PolicyMode.CONSERVATIVE, reason=reason, unsupported=wrong, cited=sorted(cited))
    return Checked(text=text, mode=PolicyMode.NORMAL, reason="", unsupported=[], cited=sorted(cited))


class _Check(msgspec.Struct, frozen=True, kw_only=True):
    """What the sentences of one answer are checked against; ``own`` are the claims of the question."""

    on: list[Ground]
    own: frozenset[tuple[ClaimKind, str]]
    verified: frozenset[int]
    chinese: bool

    def sentence(self, text: str, offset: int, claims: Sequence[Claim]) -> tuple[str, list[Claim], set[int]]:
        """What is left of a sentence, the claims that do not stand, and the passages for the rest."""
        support = {
            claim.start: standing(claim, self.on)
            or [ground.number for ground in self.on if ground.describes(claim, text)]
            for claim in claims
        }
        bad = [
            claim
            for claim in claims
            if not support[claim.start]
            and not ((claim.kind, claim.value) in self.own and _is_reported(text, claim, offset))
        ]
        rest, end = _without(text, [(claim.start - offset, claim.end - offset) for claim in bad])
        good = [claim for claim in claims if support[claim.start] and claim.start - offset < end]
        if end < len(text) and all(claim.kind is ClaimKind.TITLE for claim in good):
            return "", bad, set()  # a beginning without a claim of its own: 据族谱记载
        if end < len(text):
            rest = rest.rstrip() + ("。" if self.chinese else ".")
        cited = _cited(rest, [support[claim.start] for claim in good], {ground.number for ground in self.on})
        if good and cited.isdisjoint(self.verified) and not _HEDGE.search(rest):
            rest = ("据传，" if self.chinese else "Reportedly: ") + rest
        return rest, bad, cited


def citations(passages: Sequence[Passage], numbers: Sequence[int], *, about: str, limit: int) -> list[Citation]:
    """The citations of an answer, in the order of ``numbers``.

    Args:
        passages: what the answer was given.
        numbers: the passages cited.
        about: the answer; the excerpt begins at the sentence that shares most words with it.
        limit: at most so many.
    """
    by_number = {passage.number: passage for passage in passages}
    wanted = set(query_terms(about))
    return [
        Citation(
            evidence_id=passage.evidence_id,
            title=passage.title,
            source_ref=passage.source_ref,
            excerpt=_excerpt(passage.text, wanted),
            score=passage.score,
        )
        for passage in (by_number[number] for number in list(dict.fromkeys(numbers))[:limit] if number in by_number)
    ]


def _excerpt(text: str, wanted: set[str]) -> str:
    parts = quotable(text) or sentences(text)
    if not parts:
        return ""
    best = max(parts, key=lambda part: len(wanted.intersection(terms(part))))
    excerpt = text[text.index(best) :].strip()
    return excerpt if len(excerpt) <= EXCERPT else excerpt[: EXCERPT - 1] + "…"


def _is_reported(sentence: str, claim: Claim, offset: int) -> bool:
    """Whether a claim is given as the visitor's words, or denied, and the sentence does not agree with it."""
    if _AFFIRMS.search(sentence):
        return False
    if _DENIAL.search(sentence) or _NOT_THIS.search(sentence[: claim.start - offset]):
        return True
    quoted = sentence[: claim.start - offset].rstrip()[-1:] in set('“"「『‘')
    framed = _FRAME.search(sentence) is not None
    return framed and (quoted or re.search(r"说|提到|问|\b(?:say|said|mention\w*|ask\w*)\b", sentence) is not None)


def _without(sentence: str, bad: Sequence[tuple[int, int]]) -> tuple[str, int]:
    """The sentence without what cannot stand: the brackets it is in, else everything from its clause on.

    Returns the rest and the offset in ``sentence`` up to which it was kept.
    """
    brackets = [match.span() for match in _BRACKET.finditer(sentence)]
    loose = [span for span in bad if not any(start <= span[0] and span[1] <= end for start, end in brackets)]
    end = len(sentence)
    if loose:
        end = max((match.start() for match in _CLAUSE_END.finditer(sentence, 0, loose[0][0])), default=0)
    rest = sentence[:end]
    for start, stop in reversed(brackets):
        if stop <= end and any(start <= span[0] and span[1] <= stop for span in bad):
            rest = rest[:start] + rest[stop:]
    return rest, end


def _cited(text: str, supports: Sequence[Sequence[int]], numbers: set[int]) -> set[int]:
    """The passages a sentence stands on: those it marks and, for what they lack, those with most of it."""
    found = {int(mark[1]) for mark in _MARK.finditer(text)} & numbers
    for support in supports:
        if found.isdisjoint(support):
            found.add(max(support, key=lambda number: (sum(number in each for each in supports), -number)))
    return found


def _touches(text: str, passages: Sequence[Passage]) -> bool:
    """Whether what is left still tells something of the evidence."""
    held = {term for passage in passages for term in terms(passage.text)}
    words = query_terms(text)
    return bool(words) and len(held.intersection(words)) >= max(2, _TOUCHES * len(words))


def _nearest(text: str, passages: Sequence[Passage]) -> set[int]:
    """The passage that an answer without claims shares most words with, if it shares enough."""
    words = set(query_terms(text))
    shared = {passage.number: len(words.intersection(terms(passage.text))) for passage in passages}
    best = max(shared, key=lambda number: shared[number], default=0)
    return {best} if best and words and shared[best] >= max(2, _TOUCHES * len(words)) else set()
