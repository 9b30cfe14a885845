"""Verdicts on questions about what was answered before: what comes next, and whether it is true.

Both are answered by sentences of the evidence beside or in the passages that were cited; nothing is judged anew.
"""

from collections.abc import Iterator, Sequence

import msgspec

from wenmai.chat.understanding import courtesies
from wenmai.chat.understanding.clauses import ClauseKind, clauses, readable
from wenmai.chat.understanding.focus import CitedPassage, CitedTurn
from wenmai.grounding.answerability import Verdict
from wenmai.grounding.answers.finder import AnswerSpan
from wenmai.grounding.claims.claim import NAMES, TIMES, Claim, ClaimKind
from wenmai.grounding.claims.extraction import find_claims
from wenmai.grounding.lexicon import Lexicon
from wenmai.grounding.support import facts_of, supporting_passages
from wenmai.grounding.types import Passage, PolicyMode
from wenmai.text.cjk import query_terms, sentences, terms

NOTHING_MORE = "nothing_more"
"""The reason of a verdict if no passage continues the one that was quoted."""

NOT_STATED = "not_stated"
"""The reason of a verdict on a challenge with a statement that no passage holds."""

_SENTENCES = 3
_MIN_SHARED = 0.5
_MIN_ON_TOPIC = 0.25


def continuation(turn: CitedTurn, found: Sequence[Passage]) -> Verdict:
    """What comes after the sentences that an answer quoted: the rest of a passage, the next one, or one found.

    Args:
        turn: the answer.
        found: passages about the same topic, best first; those already cited are not repeated.
    """
    passages = [_with_sentences(cited.passage, cited.rest[:_SENTENCES]) for cited in turn.passages if cited.rest]
    seen = {cited.passage.evidence_id for cited in turn.passages}
    following = [cited.following for cited in turn.passages if cited.following and _is_related(cited, cited.following)]
    passages += [each for each in [*following, *found] if each.evidence_id not in seen]
    if not passages:
        return Verdict(mode=PolicyMode.CONSERVATIVE, reason=NOTHING_MORE)
    return _quoting(passages[:1], "")


def confirmation(message: str, turn: CitedTurn, found: Sequence[Passage], question: str, lexicon: Lexicon) -> Verdict:
    """The quoted sentences again, with what the user holds against them and the evidence does not.

    Args:
        message: the user's challenge.
        turn: the answer that is challenged.
        found: passages found for the challenged question and the user's words; one that supports the user is quoted.
        question: the challenged question, standalone.
        lexicon: the words of the field.
    """
    quoted = [_with_sentences(cited.passage, cited.quoted[:_SENTENCES]) for cited in turn.passages]
    claims = _claims(message, lexicon)
    open_claims = [claim for claim in claims if not _is_supported(claim, quoted, lexicon)]
    others: list[Passage] = []
    for claim in open_claims:
        others += _holding(claim, [each for each in found if each not in others], question, lexicon)
    unsupported = [claim.text for claim in open_claims if not _is_supported(claim, others, lexicon)]
    if not claims:
        unsupported = _unsupported_words(message, [*(cited.passage for cited in turn.passages), *found])
    verdict = _quoting([*quoted, *others], question)
    return msgspec.structs.replace(
        verdict, unsupported_premises=tuple(dict.fromkeys(unsupported)), sources_conflict=bool(others)
    )


def contradiction(message: str, verdict: Verdict) -> Verdict:
    """The verdict on a challenge that no answer is about: conservative if the evidence does not hold what it states."""
    unsupported = _unsupported_words(message, verdict.passages)
    if verdict.mode is not PolicyMode.NORMAL or not unsupported:
        return verdict
    return msgspec.structs.replace(
        verdict, mode=PolicyMode.CONSERVATIVE, reason=NOT_STATED, unsupported_premises=tuple(unsupported)
    )


def is_about(message: str, turn: CitedTurn, lexicon: Lexicon) -> bool:
    """Whether a challenge concerns an answer.

    It does if it states nothing, if it has a figure of a kind that the cited passages have, or if they have half of
    its words.
    """
    kinds = {_kind(claim) for cited in turn.passages for claim in find_claims(cited.passage.text, lexicon)}
    counts = any(kind == ClaimKind.NUMBER for kind, _ in kinds)
    for claim in _claims(message, lexicon):
        if _kind(claim) in kinds or (counts and _kind(claim) == (ClaimKind.NUMBER, "")):
            return True
    words = _own_words(message)
    known = set(terms(turn.text))
    return not words or sum(word in known for word in words) >= _MIN_SHARED * len(words)


def _kind(claim: Claim) -> tuple[str, str]:
    """What can be compared: all times, and numbers of one unit."""
    return ("time", "") if claim.kind in TIMES else (claim.kind.value, claim.value.partition(" ")[2])


def _own_words(message: str) -> list[str]:
    """The index terms of what the user states, without figures."""
    stated = " ".join(_stated(message))
    return [word for word in query_terms(stated) if not any(map(str.isdigit, word))]


def _stated(message: str) -> Iterator[str]:
    for clause in clauses(message):
        if clause.kind is ClauseKind.CONTENT:
            yield courtesies.HEARSAY.sub(" ", courtesies.CHALLENGE.sub(" ", readable(clause.text)))


def _claims(message: str, lexicon: Lexicon) -> list[Claim]:
    """The user's values: each once."""
    found = find_claims(message, lexicon)
    return list({(claim.kind, claim.value): claim for claim in found if claim.kind not in NAMES}.values())


def _unsupported_words(message: str, passages: Sequence[Passage]) -> list[str]:
    """The statements of the user that share less than half of their words with every passage."""
    known = [set(terms(f"{passage.title} {passage.text}")) for passage in passages]
    statements = []
    for stated in _stated(message):
        words = query_terms(stated)
        if words and all(sum(word in each for word in words) < _MIN_SHARED * len(words) for each in known):
            statements.append(stated.strip(" ,，。.!！?？吗呢吧啊呀"))
    return statements


def _is_supported(claim: Claim, passages: Sequence[Passage], lexicon: Lexicon) -> bool:
    return bool(supporting_passages(claim, [facts_of(passage, lexicon) for passage in passages]))


def _holding(claim: Claim, found: Sequence[Passage], question: str, lexicon: Lexicon) -> list[Passage]:
    """The first passage with a sentence that holds a claim of the user about the question, cut to that sentence."""
    asked = set(query_terms(question))
    for passage in found:
        for sentence in facts_of(passage, lexicon).sentences:
            about = asked & (sentence.terms | frozenset(terms(passage.title)))
            holds = any(each.kind is claim.kind and each.value == claim.value for each in sentence.claims)
            if holds and len(about) >= _MIN_ON_TOPIC * len(asked):
                return [_with_sentences(passage, [sentence.text])]
    return []


def _is_related(cited: CitedPassage, following: Passage) -> bool:
    """Whether the next passage continues the topic: it shares a term of two characters or more with the title."""
    shared = set(terms(cited.passage.title)) & set(terms(f"{following.title} {following.text}"))
    return any(len(term) > 1 for term in shared)


def _with_sentences(passage: Passage, chosen: Sequence[str]) -> Passage:
    joint = " " if passage.language.startswith("en") else ""
    return msgspec.structs.replace(passage, text=joint.join(chosen), score=1.0)


def _quoting(passages: Sequence[Passage], question: str) -> Verdict:
    """A verdict that has each passage quoted."""
    numbered = tuple(msgspec.structs.replace(each, number=number) for number, each in enumerate(passages, start=1))
    spans = tuple(
        AnswerSpan(number=passage.number, index=0, sentence=sentences(passage.text)[0], probability=1.0, covered=1.0)
        for passage in numbered
        if sentences(passage.text)
    )
    return Verdict(mode=PolicyMode.NORMAL, reason="", passages=numbered, standalone_question=question, answers=spans)
