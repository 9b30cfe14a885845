"""Verifies one sentence of an answer by all checks, and cuts what has no support."""

import re
from collections import Counter
from collections.abc import Collection, Sequence

import msgspec

from wenmai.grounding.aligned import Alignment
from wenmai.grounding.amounts import has_amount
from wenmai.grounding.attribution import Attribution
from wenmai.grounding.checks.affirmation import bare_reply, proposition
from wenmai.grounding.checks.agents import find_other_agents
from wenmai.grounding.checks.copies import find_additions, find_dropped_limits
from wenmai.grounding.checks.courtesy import is_courtesy
from wenmai.grounding.checks.coverage import find_invented_causes, find_uncovered
from wenmai.grounding.checks.hedging import find_hedging
from wenmai.grounding.checks.list_items import find_uncovered_items
from wenmai.grounding.checks.numbers import find_changed_numbers
from wenmai.grounding.checks.polarity import find_contradictions
from wenmai.grounding.checks.quotations import find_invented_quotations
from wenmai.grounding.checks.records import find_false_denials
from wenmai.grounding.checks.roles import find_swaps
from wenmai.grounding.checks.statement import Objection, Reason, TestedStatement
from wenmai.grounding.checks.subjects import find_exchanged_subjects
from wenmai.grounding.checks.values import (
    find_misplaced_values,
    find_unknown_numbers,
    find_unknown_tokens,
    find_unknown_words,
)
from wenmai.grounding.claims.claim import NAMES, Claim, ClaimKind
from wenmai.grounding.claims.extraction import find_claims
from wenmai.grounding.content import Content
from wenmai.grounding.lexicon import Lexicon
from wenmai.grounding.romanisation import is_name_in, is_spelt_in
from wenmai.grounding.support import PassageFacts, supporting_passages
from wenmai.text.cjk import has_cjk

MARK = re.compile(r" ?[\[【［](\d{1,3})[\]】］]")
_LEADING_MARKS = re.compile(r"(?:\s*[\[【［]\d{1,3}[\]】］])+")
_MARKDOWN = re.compile(r"(?m)^\s{0,8}(?:#{1,6} |[-*+>|] |\d{1,2}(?:[)、]|\.(?!\d)) ?)|\*{1,3}|`{1,3}|_{2}|\|")
_BRACKET = re.compile(r"[(（][^()（）]{1,80}[)）]")
_SUBORDINATE = re.compile(
    r"(?:如果|若是?|虽然|尽管|因为|由于|只要|除非|即使|一旦|既然|当)|[^，,]{1,30}(?:的时候|的话|以后|之后|之前|以前)$"
    r"|(?:when|if|although|though|because|since|while|as soon as|unless|once|after|before|until)\b",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[，,；;]")
_HEDGE = re.compile(
    r"传说|据传|相传|传闻|口头|口述|未经核实|没有核实|\b(?:reportedly|legends?|tales?|unverified|"
    r"hearsay|it is said|rumou?r\w*)\b",
    re.IGNORECASE,
)


_PEOPLE_AND_PLACES = frozenset({ClaimKind.PERSON, ClaimKind.PLACE})


class VerifiedSentence(msgspec.Struct, frozen=True, kw_only=True):
    """What remains of a sentence.

    Attributes:
        text: the supported text, ``""`` if nothing is left.
        removed: the text that was cut.
        objections: why.
        cited: the passages that support the rest.
        numbers: the passages that it cites, or all.
        sentences: the sentences of the passages that say the same, as numbers of passage and sentence.
    """

    text: str
    removed: str
    objections: list[Objection]
    cited: set[int]
    numbers: list[int]
    sentences: set[tuple[int, int]]


class StatementVerifier(msgspec.Struct, frozen=True, kw_only=True):
    """Verifies the statements of one answer.

    Attributes:
        facts: the claims of the passages.
        alignment: the content of the passages.
        question: as the user wrote it.
        question_claims: its claims.
        verified: numbers of the passages that were verified.
        chinese: whether inserted text is Chinese.
        names: names of the persona.
        phrases: sentences of the persona, which may be repeated.
        lexicon: the words of the field.
    """

    facts: list[PassageFacts]
    alignment: Alignment
    question: Content
    question_claims: frozenset[tuple[ClaimKind, str]]
    verified: frozenset[int]
    chinese: bool
    names: Sequence[str]
    phrases: frozenset[str]
    lexicon: Lexicon
    _done: dict[str, VerifiedSentence] = {}
    _assumed: dict[str, list[Objection] | None] = {}

    def verify(self, text: str) -> VerifiedSentence:
        """Verify a sentence; one that is repeated is verified once."""
        if text not in self._done:
            self._done[text] = self._verify(text)
        return self._done[text]

    def _verify(self, text: str) -> VerifiedSentence:
        plain = _blank(text)
        for phrase in self.phrases:
            plain = plain.replace(phrase, " " * len(phrase))
        claims = _claims(plain, self.lexicon, self.names)
        numbers = self._cited_by(text)
        statement = TestedStatement(
            plain,
            claims=claims,
            question=self.question,
            alignment=self.alignment,
            numbers=numbers,
            attribution=Attribution(plain, self.lexicon),
            language="zh" if has_cjk(plain) else "en",
            names=self.names,
        )
        support = self._support(claims, numbers)
        objections = self._objections(statement, support)
        rest, end = _remove_spans(text, [(each.start, each.end) for each in objections])
        if end < len(text):
            rest = self._closed(rest, statement, support, end)
        cited = self._cited(rest, statement, support, end) if rest else set()
        if cited and cited.isdisjoint(self.verified) and not _HEDGE.search(rest):
            rest = ("据传，" if self.chinese else "Reportedly: ") + rest
        removed = text[end:].strip() or "".join(text[each.start : each.end] for each in objections)
        return VerifiedSentence(
            text=rest,
            removed=removed if rest else text,
            objections=objections,
            cited=cited,
            numbers=numbers,
            sentences=_said(statement) if cited else set(),
        )

    def _cited_by(self, text: str) -> list[int]:
        """The passages that the sentence cites itself, else all; a mark at its beginning is of the one before."""
        known = [each.number for each in self.facts]
        leading = _LEADING_MARKS.match(text)
        marked = {int(mark[1]) for mark in MARK.finditer(text, leading.end() if leading else 0)}
        return [number for number in known if number in marked] or known

    def _support(self, claims: Sequence[Claim], numbers: Sequence[int]) -> dict[int, list[int]]:
        """The passages that support each claim, by its offset; in other words only where those cited do not."""
        books = [claim.value for claim in claims if claim.kind is ClaimKind.TITLE]
        found = {}
        for claim in claims:
            support = supporting_passages(claim, self.facts)
            if set(numbers).isdisjoint(support):
                support = (
                    [each.number for each in self.facts if each.describes_source(claim, books)]
                    or self._transliterated(claim)
                    or [number for number, passage in self.alignment.passages.items() if has_amount(passage, claim)]
                    or support
                )
            found[claim.start] = support
        return found

    def _transliterated(self, claim: Claim) -> list[int]:
        """The passages in the other language that spell a name."""
        if claim.kind not in NAMES:
            return []
        latin = not has_cjk(claim.value)
        words = [token.word.concepts for token in Content(claim.text).tokens if token.weight] if latin else []
        return [
            number
            for number, passage in self.alignment.passages.items()
            if passage.chinese is latin
            and (
                (_is_translated(words, passage.units) or is_name_in(claim.value, passage.romanised))
                if latin
                else is_spelt_in(claim.value, passage.latin)
            )
        ]

    def _objections(self, statement: TestedStatement, support: dict[int, list[int]]) -> list[Objection]:
        """The objections of all checks, by position."""
        found = [
            Objection(claim.start, claim.end, Reason.VALUE)
            for claim in statement.claims
            if not set(support[claim.start]).intersection(statement.numbers)
            and not (
                (claim.kind, claim.value) in self.question_claims
                and statement.attribution.is_attributed(claim.start, claim.end)
            )
        ]
        if self._is_false_reply(statement.text):
            found.append(Objection(0, len(statement.text), Reason.AFFIRMATION))
        found += find_unknown_tokens(statement)
        found += find_unknown_words(statement)
        found += find_unknown_numbers(statement)
        found += find_invented_quotations(statement)
        if not statement.is_courtesy:
            found += find_misplaced_values(statement, self.facts)
            found += find_changed_numbers(statement)
            found += find_false_denials(statement)
            found += find_contradictions(statement)
            found += find_uncovered_items(statement)
            found += find_swaps(statement)
            found += find_exchanged_subjects(statement)
            found += find_other_agents(statement)
            found += find_invented_causes(statement)
            found += find_additions(statement)
            found += find_dropped_limits(statement)
            found += find_uncovered(statement)
            found += find_hedging(statement, self.verified)
        return _first_by_place(found)

    def _is_false_reply(self, text: str) -> bool:
        """Whether it is a bare "yes" to what the passages do not say, or a bare "no" to what they do not refute."""
        affirms = bare_reply(text)
        if affirms is None:
            return False
        asked = self.question.text
        if asked not in self._assumed:
            silent = msgspec.structs.replace(
                self, question=Content(""), question_claims=frozenset(), _done={}, _assumed={}
            )
            assumed = proposition(asked)
            self._assumed[asked] = silent.verify(assumed).objections if assumed else None
        objections = self._assumed[asked]
        if objections is None:
            return False
        return bool(objections) if affirms else all(each.reason is Reason.COVERAGE for each in objections)

    def _closed(self, rest: str, statement: TestedStatement, support: dict[int, list[int]], end: int) -> str:
        """The beginning of a cut sentence as a sentence; ``""`` if it states nothing by itself: 据书中记载."""
        content = [token for token in statement.content.tokens if token.weight and token.end <= end]
        claims = [claim for claim in statement.claims if support[claim.start] and claim.end <= end]
        if _SUBORDINATE.match(rest.strip()) and _CLAUSE_END.search(rest.strip()) is None:
            return ""
        stated = any(claim.kind is not ClaimKind.TITLE for claim in claims)
        if not stated and is_courtesy(content, self.question, self.names):
            return ""
        return rest.rstrip() + ("。" if self.chinese else ".")

    def _cited(self, rest: str, statement: TestedStatement, support: dict[int, list[int]], end: int) -> set[int]:
        """The passages that support a sentence: its marks, those of its claims, else the best aligned one."""
        found = {int(mark[1]) for mark in MARK.finditer(rest)} & {each.number for each in self.facts}
        supports = [support[claim.start] for claim in statement.claims if support[claim.start] and claim.start < end]
        weight = Counter(number for each in supports for number in each)
        for each in supports:
            if found.isdisjoint(each):
                found.add(max(each, key=lambda number: (weight[number], -number)))
        tokens = [token for token in statement.content.tokens if token.end <= end]
        if not found and not is_courtesy(tokens, self.question, self.names):
            windows = [window for window in statement.align(tokens) if window.total and window.share]
            found |= {window.number for window in windows[:1]}
        return found


def _claims(text: str, lexicon: Lexicon, names: Sequence[str]) -> list[Claim]:
    """The claims of a sentence, without Chinese names that begin or end within a word: 常办 in 照常办公."""
    claims = find_claims(text, lexicon, known=names)
    if not any(claim.kind in _PEOPLE_AND_PLACES and has_cjk(claim.value) for claim in claims):
        return claims
    within = {place for token in Content(text).tokens for place in range(token.start + 1, token.end)}
    return [
        claim
        for claim in claims
        if claim.kind not in _PEOPLE_AND_PLACES
        or not has_cjk(claim.value)
        or (claim.start not in within and claim.end not in within)
    ]


def _is_translated(words: Sequence[frozenset[int]], units: Collection[str | int]) -> bool:
    """Whether a passage may have a name in its language: all words that the files translate, or some unknown ones."""
    return any(words) and (not all(words) or all(any(concept in units for concept in word) for word in words))


def _said(statement: TestedStatement) -> set[tuple[int, int]]:
    """The sentences that the clauses of a statement are aligned to."""
    windows = [clause.windows[0] for clause in statement.clauses if clause.weight and clause.windows]
    return {(window.number, window.sentences[0]) for window in windows if window.sentences and window.share}


def _first_by_place(objections: Sequence[Objection]) -> list[Objection]:
    """The objections by position; of overlapping ones that of the earlier check."""
    kept: list[Objection] = []
    for objection in objections:
        if all(objection.end <= each.start or each.end <= objection.start for each in kept):
            kept.append(objection)
    return sorted(kept)


def _blank(text: str) -> str:
    """The text with citation marks and Markdown blanked out; offsets are unchanged."""
    for pattern in (MARK, _MARKDOWN):
        text = pattern.sub(lambda match: " " * len(match[0]), text)
    return text


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
