"""The gate after the model: what of an answer stands in the evidence, and which evidence that is.

The history, summaries and preferences are no parameters here: what stands only in them does not stand.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec
from msgspec import structs

from wenmai.chat.gate.claim import Claim, ClaimKind
from wenmai.chat.gate.claims import find_claims
from wenmai.chat.gate.grounds import Ground, grounds, standing
from wenmai.chat.gate.quotable import quotable
from wenmai.chat.gate.reported import Manner
from wenmai.chat.gate.units import Unit, Units
from wenmai.chat.types import Citation, Passage, PolicyMode
from wenmai.text.cjk import query_terms, sentences, terms

EXCERPT = 100
"""Characters of a citation's excerpt."""

_MARK = re.compile(r" ?[\[【［](\d{1,3})[\]】］]")
_BRACKET = re.compile(r"[(（][^()（）]{1,80}[)）]")
_CLAUSE_END = re.compile(r"[，,；;]")
_TOUCHES = 0.25
_HEDGE = re.compile(
    r"传说|据传|相传|传闻|口头|口述|未经核实|没有核实|\b(?:reportedly|legends?|tales?|unverified|"
    r"hearsay|it is said|rumou?r\w*)\b",
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
    cut_off: bool = False,
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
        cut_off: the answer ended at a limit of length, so its last unfinished sentence goes.
    """
    check = AnswerCheck(question=question, passages=passages, language=language, persona_names=persona_names)
    for _ in check.add(answer):
        pass
    for _ in check.end(cut_off=cut_off):
        pass
    return check.result()


class AnswerCheck:
    """The check of an answer that comes in pieces, however they are cut.

    What :meth:`add` and :meth:`end` give, put together, is the text of the result; but that is empty if in the end
    nothing of the answer touches the evidence, and it lacks what had to be cut off.
    """

    def __init__(
        self, *, question: str, passages: Sequence[Passage], language: str, persona_names: Sequence[str]
    ) -> None:
        self._check = _Check(
            on=grounds(passages),
            own=_claimed(question),
            verified=frozenset(passage.number for passage in passages if passage.verified),
            chinese=not language.startswith("en"),
        )
        self._passages = passages
        self._persona_names = persona_names
        self._units = Units()
        self._offset = 0
        self._blank = ""
        self._kept: list[str] = []
        self._whole = 0
        self._wrong: list[Claim] = []
        self._cited: set[int] = set()

    def add(self, piece: str) -> Iterator[str]:
        """What may be said of the sentences that the piece completes, with the blanks between them."""
        for unit in self._units.add(piece):
            yield from self._take(unit)

    def end(self, *, cut_off: bool = False) -> Iterator[str]:
        """What may be said of the rest; of an answer that was cut off, the last unfinished sentence goes."""
        for unit in self._units.end():
            if unit.whole or not cut_off:
                yield from self._take(unit)
        if cut_off:
            del self._kept[self._whole :]

    def result(self) -> Checked:
        """The whole answer, checked."""
        text, wrong, cited = "".join(self._kept), self._wrong, self._cited
        if wrong and not (cited or _touches(text, self._passages)):
            text = ""
        cited = cited or _nearest(text, self._passages)
        reason, mode = "", PolicyMode.NORMAL
        if wrong or not text:
            reason = f"unsupported: {', '.join(dict.fromkeys(claim.text for claim in wrong))}" if wrong else "empty"
            mode = PolicyMode.CONSERVATIVE
        return Checked(text=text, mode=mode, reason=reason, unsupported=wrong, cited=sorted(cited))

    def _take(self, unit: Unit) -> Iterator[str]:
        sentence = unit.text.strip()
        if not sentence:
            self._blank += unit.text
            self._offset += len(unit.text)
            return
        start = unit.text.index(sentence)
        before = self._blank + unit.text[:start]
        self._blank = unit.text[start + len(sentence) :]
        rest, bad, numbers = self._check.sentence(sentence, find_claims(sentence, known=self._persona_names))
        moved = self._offset + start
        self._wrong += [structs.replace(claim, start=claim.start + moved, end=claim.end + moved) for claim in bad]
        self._offset += len(unit.text)
        known = {passage.number for passage in self._passages}
        said = _MARK.sub(lambda mark: mark[0] if int(mark[1]) in known else "", rest).strip()
        if said:
            self._cited |= numbers
            self._kept.append(before + said if self._kept else said)
            yield self._kept[-1]
        if unit.whole:
            self._whole = len(self._kept)


@lru_cache(maxsize=64)
def _claimed(question: str) -> frozenset[tuple[ClaimKind, str]]:
    """The claims of a question; a streamed answer asks for them with each sentence."""
    return frozenset((claim.kind, claim.value) for claim in find_claims(question))


@lru_cache(maxsize=16)
def _words_of(text: str) -> frozenset[str]:
    """The index terms of a passage; a streamed answer asks for them with each sentence."""
    return frozenset(terms(text))


class _Check(msgspec.Struct, frozen=True, kw_only=True):
    """What the sentences of one answer are checked against; ``own`` are the claims of the question."""

    on: list[Ground]
    own: frozenset[tuple[ClaimKind, str]]
    verified: frozenset[int]
    chinese: bool

    def sentence(self, text: str, claims: Sequence[Claim]) -> tuple[str, list[Claim], set[int]]:
        """What is left of a sentence, the claims that do not stand, and the passages for the rest."""
        books = [claim.value for claim in claims if claim.kind is ClaimKind.TITLE]
        support = {
            claim.start: standing(claim, self.on)
            or [ground.number for ground in self.on if ground.describes(claim, books)]
            for claim in claims
        }
        manner = Manner(text)
        bad = [
            claim
            for claim in claims
            if not support[claim.start]
            and not ((claim.kind, claim.value) in self.own and manner.reports(claim.start, claim.end))
        ]
        rest, end = _without(text, [(claim.start, claim.end) for claim in bad])
        good = [claim for claim in claims if support[claim.start] and claim.start < end]
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


def _without(sentence: str, bad: Sequence[tuple[int, int]]) -> tuple[str, int]:
    """The sentence without what cannot stand: the brackets it is in, else everything from its clause on.

    Returns the rest and the offset in ``sentence`` up to which it was kept.
    """
    brackets = [match.span() for match in _BRACKET.finditer(sentence)]
    inside = {span: bracket for bracket in brackets for span in bad if bracket[0] <= span[0] and span[1] <= bracket[1]}
    loose = [start for start, stop in bad if (start, stop) not in inside]
    end = len(sentence)
    if loose:
        end = max((match.start() for match in _CLAUSE_END.finditer(sentence, 0, loose[0])), default=0)
    rest = sentence[:end]
    for start, stop in sorted(set(inside.values()), reverse=True):
        if stop <= end:
            rest = rest[:start] + rest[stop:]
    return rest, end


def _cited(text: str, supports: Sequence[Sequence[int]], numbers: set[int]) -> set[int]:
    """The passages a sentence stands on: those it marks and, for what they lack, those with most of it."""
    found = {int(mark[1]) for mark in _MARK.finditer(text)} & numbers
    carried = Counter(number for support in supports for number in support)
    for support in supports:
        if found.isdisjoint(support):
            found.add(max(support, key=lambda number: (carried[number], -number)))
    return found


def _touches(text: str, passages: Sequence[Passage]) -> bool:
    """Whether what is left still tells something of the evidence."""
    words = query_terms(text)
    held = {word for passage in passages for word in _words_of(passage.text).intersection(words)}
    return bool(words) and len(held) >= max(2, _TOUCHES * len(words))


def _nearest(text: str, passages: Sequence[Passage]) -> set[int]:
    """The passage that an answer without claims shares most words with, if it shares enough."""
    words = set(query_terms(text))
    shared = {passage.number: len(words & _words_of(passage.text)) for passage in passages}
    best = max(shared, key=lambda number: shared[number], default=0)
    return {best} if best and words and shared[best] >= max(2, _TOUCHES * len(words)) else set()
