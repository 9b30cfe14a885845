"""Verification, after the model: which statements of an answer the evidence supports, and which passages support them.

History, summaries and preferences are not parameters, so they support nothing.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec
from msgspec import structs

from wenmai.grounding.attribution import Attribution
from wenmai.grounding.claims.claim import Claim, ClaimKind
from wenmai.grounding.claims.extraction import find_claims
from wenmai.grounding.lexicon import EMPTY, Lexicon
from wenmai.grounding.prompt_injection import safe_sentences
from wenmai.grounding.statements import Statement, StatementSplitter
from wenmai.grounding.support import PassageFacts, collect_facts, supporting_passages
from wenmai.grounding.types import Citation, Passage, PolicyMode
from wenmai.text.cjk import query_terms, sentences, terms

EXCERPT = 100
"""Characters of a citation's excerpt."""

_MARK = re.compile(r" ?[\[【［](\d{1,3})[\]】］]")
_BRACKET = re.compile(r"[(（][^()（）]{1,80}[)）]")
_CLAUSE_END = re.compile(r"[，,；;]")
_MIN_OVERLAP = 0.25
_HEDGE = re.compile(
    r"传说|据传|相传|传闻|口头|口述|未经核实|没有核实|\b(?:reportedly|legends?|tales?|unverified|"
    r"hearsay|it is said|rumou?r\w*)\b",
    re.IGNORECASE,
)


class VerifiedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A verified answer.

    Attributes:
        text: the supported text; if empty, the caller falls back to the persona's conservative phrase.
        mode: ``normal``, or ``conservative`` if something was removed.
        reason: ``unsupported: …`` with the removed claims, ``empty``, or ``""``.
        unsupported: the unsupported claims, with offsets into the answer as given.
        cited: the numbers of the passages that support the text, ascending.
    """

    text: str
    mode: PolicyMode
    reason: str
    unsupported: list[Claim]
    cited: list[int]


def verify_answer(
    answer: str,
    *,
    question: str,
    passages: Sequence[Passage],
    language: str,
    persona_names: Sequence[str],
    cut_off: bool = False,
    lexicon: Lexicon = EMPTY,
) -> VerifiedAnswer:
    """Verify a model's complete answer and keep what the passages support.

    An unsupported claim is removed with its bracket, with its clause and the rest of the sentence, or with its
    sentence; a claim that only unverified passages support is marked as hearsay. A claim of the question is kept where
    it is attributed to the user or denied, never where it is affirmed. Citation marks like ``[2]`` for passages that do
    not exist are removed.

    Args:
        answer: as the model wrote it, complete.
        question: as the user wrote it.
        passages: those that the model was given.
        language: BCP 47 tag of the answer; selects the wording of inserted text.
        persona_names: the persona's names, which are no claims.
        cut_off: the answer ended at a length limit, so its last unfinished sentence is removed.
        lexicon: the words of the field.
    """
    verification = AnswerVerification(
        question=question, passages=passages, language=language, persona_names=persona_names, lexicon=lexicon
    )
    for _ in verification.add(answer):
        pass
    for _ in verification.end(cut_off=cut_off):
        pass
    return verification.result()


class AnswerVerification:
    """Verifies a streamed answer; the result does not depend on how it is split into fragments.

    The output of :meth:`add` and :meth:`end`, joined, is the text of the result. Exceptions: the text is empty if the
    rest of the answer does not overlap with the evidence, and an unfinished sentence may be missing at its end.
    """

    def __init__(
        self,
        *,
        question: str,
        passages: Sequence[Passage],
        language: str,
        persona_names: Sequence[str],
        lexicon: Lexicon = EMPTY,
    ) -> None:
        self._verifier = _StatementVerifier(
            facts=collect_facts(passages, lexicon),
            question_claims=_question_claims(question, lexicon),
            verified=frozenset(passage.number for passage in passages if passage.verified),
            chinese=not language.startswith("en"),
            lexicon=lexicon,
        )
        self._lexicon = lexicon
        self._passages = passages
        self._persona_names = persona_names
        self._splitter = StatementSplitter(lexicon)
        self._offset = 0
        self._whitespace = ""
        self._kept: list[str] = []
        self._complete = 0
        self._unsupported: list[Claim] = []
        self._cited: set[int] = set()

    def add(self, fragment: str) -> Iterator[str]:
        """The supported text of the sentences that the fragment completes, with the white space between them."""
        for statement in self._splitter.add(fragment):
            yield from self._take(statement)

    def end(self, *, cut_off: bool = False) -> Iterator[str]:
        """The supported text of the rest; if the answer was cut off, without its last unfinished sentence."""
        for statement in self._splitter.end():
            if statement.complete or not cut_off:
                yield from self._take(statement)
        if cut_off:
            del self._kept[self._complete :]

    def result(self) -> VerifiedAnswer:
        """The complete verified answer."""
        text, unsupported, cited = "".join(self._kept), self._unsupported, self._cited
        if unsupported and not (cited or _overlaps_evidence(text, self._passages)):
            text = ""
        cited = cited or _closest_passage(text, self._passages)
        reason, mode = "", PolicyMode.NORMAL
        if unsupported or not text:
            reason = (
                f"unsupported: {', '.join(dict.fromkeys(claim.text for claim in unsupported))}"
                if unsupported
                else "empty"
            )
            mode = PolicyMode.CONSERVATIVE
        return VerifiedAnswer(text=text, mode=mode, reason=reason, unsupported=unsupported, cited=sorted(cited))

    def _take(self, statement: Statement) -> Iterator[str]:
        sentence = statement.text.strip()
        if not sentence:
            self._whitespace += statement.text
            self._offset += len(statement.text)
            return
        start = statement.text.index(sentence)
        before = self._whitespace + statement.text[:start]
        self._whitespace = statement.text[start + len(sentence) :]
        claims = find_claims(sentence, self._lexicon, known=self._persona_names)
        rest, unsupported, numbers = self._verifier.verify(sentence, claims)
        shift = self._offset + start
        self._unsupported += [
            structs.replace(claim, start=claim.start + shift, end=claim.end + shift) for claim in unsupported
        ]
        self._offset += len(statement.text)
        known = {passage.number for passage in self._passages}
        text = _MARK.sub(lambda mark: mark[0] if int(mark[1]) in known else "", rest).strip()
        if text:
            self._cited |= numbers
            self._kept.append(before + text if self._kept else text)
            yield self._kept[-1]
        if statement.complete:
            self._complete = len(self._kept)


@lru_cache(maxsize=64)
def _question_claims(question: str, lexicon: Lexicon) -> frozenset[tuple[ClaimKind, str]]:
    """The claims of a question; cached, as each sentence of a streamed answer needs them."""
    return frozenset((claim.kind, claim.value) for claim in find_claims(question, lexicon))


@lru_cache(maxsize=16)
def _terms_of(text: str) -> frozenset[str]:
    """The index terms of a passage; cached, as each sentence of a streamed answer needs them."""
    return frozenset(terms(text))


class _StatementVerifier(msgspec.Struct, frozen=True, kw_only=True):
    """Verifies the statements of one answer against facts and the claims of the question."""

    facts: list[PassageFacts]
    question_claims: frozenset[tuple[ClaimKind, str]]
    verified: frozenset[int]
    chinese: bool
    lexicon: Lexicon

    def verify(self, text: str, claims: Sequence[Claim]) -> tuple[str, list[Claim], set[int]]:
        """The supported rest of a sentence, its unsupported claims, and the passages that support the rest."""
        books = [claim.value for claim in claims if claim.kind is ClaimKind.TITLE]
        support = {
            claim.start: supporting_passages(claim, self.facts)
            or [each.number for each in self.facts if each.describes_source(claim, books)]
            for claim in claims
        }
        attribution = Attribution(text, self.lexicon)
        unsupported = [
            claim
            for claim in claims
            if not support[claim.start]
            and not (
                (claim.kind, claim.value) in self.question_claims and attribution.is_attributed(claim.start, claim.end)
            )
        ]
        rest, end = _remove_spans(text, [(claim.start, claim.end) for claim in unsupported])
        supported = [claim for claim in claims if support[claim.start] and claim.start < end]
        if end < len(text) and all(claim.kind is ClaimKind.TITLE for claim in supported):
            return "", unsupported, set()  # an introduction without a claim of its own: 据书中记载
        if end < len(text):
            rest = rest.rstrip() + ("。" if self.chinese else ".")
        cited = _cited(rest, [support[claim.start] for claim in supported], {each.number for each in self.facts})
        if supported and cited.isdisjoint(self.verified) and not _HEDGE.search(rest):
            rest = ("据传，" if self.chinese else "Reportedly: ") + rest
        return rest, unsupported, cited


def citations(passages: Sequence[Passage], numbers: Sequence[int], *, answer: str, limit: int) -> list[Citation]:
    """The citations of an answer, in the order of ``numbers``.

    Args:
        passages: those that the model was given.
        numbers: the passages cited.
        answer: an excerpt begins at the sentence that shares most words with it.
        limit: maximum number of citations.
    """
    by_number = {passage.number: passage for passage in passages}
    answer_terms = set(query_terms(answer))
    return [
        Citation(
            evidence_id=passage.evidence_id,
            title=passage.title,
            source_ref=passage.source_ref,
            excerpt=_excerpt(passage.text, answer_terms),
            score=passage.score,
        )
        for passage in (by_number[number] for number in list(dict.fromkeys(numbers))[:limit] if number in by_number)
    ]


def _excerpt(text: str, answer_terms: set[str]) -> str:
    parts = safe_sentences(text) or sentences(text)
    if not parts:
        return ""
    best = max(parts, key=lambda part: len(answer_terms.intersection(terms(part))))
    excerpt = text[text.index(best) :].strip()
    return excerpt if len(excerpt) <= EXCERPT else excerpt[: EXCERPT - 1] + "…"


def _remove_spans(sentence: str, unsupported: Sequence[tuple[int, int]]) -> tuple[str, int]:
    """Remove unsupported spans from a sentence: with their brackets, else everything from their clause on.

    Returns the rest and the offset in ``sentence`` up to which it was kept.
    """
    brackets = [match.span() for match in _BRACKET.finditer(sentence)]
    inside = {
        span: bracket for bracket in brackets for span in unsupported if bracket[0] <= span[0] and span[1] <= bracket[1]
    }
    outside = [start for start, stop in unsupported if (start, stop) not in inside]
    end = len(sentence)
    if outside:
        end = max((match.start() for match in _CLAUSE_END.finditer(sentence, 0, outside[0])), default=0)
    rest = sentence[:end]
    for start, stop in sorted(set(inside.values()), reverse=True):
        if stop <= end:
            rest = rest[:start] + rest[stop:]
    return rest, end


def _cited(text: str, supports: Sequence[Sequence[int]], numbers: set[int]) -> set[int]:
    """The passages that support a sentence: those it marks and, for other claims, those that support most claims."""
    found = {int(mark[1]) for mark in _MARK.finditer(text)} & numbers
    weight = Counter(number for support in supports for number in support)
    for support in supports:
        if found.isdisjoint(support):
            found.add(max(support, key=lambda number: (weight[number], -number)))
    return found


def _overlaps_evidence(text: str, passages: Sequence[Passage]) -> bool:
    """Whether the remaining text shares enough words with the evidence."""
    words = query_terms(text)
    shared = {word for passage in passages for word in _terms_of(passage.text).intersection(words)}
    return bool(words) and len(shared) >= max(2, _MIN_OVERLAP * len(words))


def _closest_passage(text: str, passages: Sequence[Passage]) -> set[int]:
    """The passage that shares most words with an answer without claims, if it shares enough."""
    words = set(query_terms(text))
    shared = {passage.number: len(words & _terms_of(passage.text)) for passage in passages}
    best = max(shared, key=lambda number: shared[number], default=0)
    return {best} if best and words and shared[best] >= max(2, _MIN_OVERLAP * len(words)) else set()
