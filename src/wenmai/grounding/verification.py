"""Verification, after the model: which statements of an answer the evidence supports, and which passages support them.

Every sentence is refused unless the passages support it, whatever its form. History, summaries and preferences are not
parameters, so they support nothing.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from wenmai.grounding.aligned import Alignment
from wenmai.grounding.claims.claim import ClaimKind
from wenmai.grounding.claims.extraction import find_claims
from wenmai.grounding.content import Content
from wenmai.grounding.lexicon import EMPTY, Lexicon
from wenmai.grounding.repair import AnswerRepair
from wenmai.grounding.statement_verifier import MARK, StatementVerifier
from wenmai.grounding.statements import Statement, StatementSplitter
from wenmai.grounding.support import collect_facts
from wenmai.grounding.types import Passage
from wenmai.grounding.verified_answer import KeptStatement, Removed, VerifiedAnswer, assemble, sentence_of
from wenmai.text.cjk import sentences


def verify_answer(
    answer: str,
    *,
    question: str,
    passages: Sequence[Passage],
    language: str,
    persona_names: Sequence[str],
    persona_phrases: Sequence[str] = (),
    cut_off: bool = False,
    lexicon: Lexicon = EMPTY,
) -> VerifiedAnswer:
    """Verify a model's complete answer and keep what the passages support.

    An unsupported part is removed with its bracket, with its clause and the rest of the sentence, or with its
    sentence, and replaced by a passage's sentence that answers the question, if there is one; what only unverified
    passages support is marked as hearsay. A claim of the question is kept where it is attributed to the user or denied,
    never where it is affirmed. Citation marks like ``[2]`` for passages that do not exist are removed.

    Args:
        answer: as the model wrote it, complete.
        question: as the user wrote it.
        passages: those that the model was given.
        language: BCP 47 tag of the answer; selects the wording of inserted text.
        persona_names: the persona's names, which are no claims.
        persona_phrases: the persona's own phrases, which may be repeated.
        cut_off: the answer ended at a length limit, so its last unfinished sentence is removed.
        lexicon: the words of the field.
    """
    verification = AnswerVerification(
        question=question,
        passages=passages,
        language=language,
        persona_names=persona_names,
        persona_phrases=persona_phrases,
        lexicon=lexicon,
    )
    return verification.verify(answer, cut_off=cut_off)


class AnswerVerification:
    """Verifies a streamed answer; the result does not depend on how it is split into fragments.

    The output of :meth:`add` and :meth:`end`, joined, is the text of the result. Exceptions: the text is empty if
    something was removed and the rest states nothing, and an unfinished sentence may be missing at its end.
    """

    def __init__(
        self,
        *,
        question: str,
        passages: Sequence[Passage],
        language: str,
        persona_names: Sequence[str],
        persona_phrases: Sequence[str] = (),
        lexicon: Lexicon = EMPTY,
    ) -> None:
        self._passages = {passage.number: passage for passage in passages}
        self._language = language
        self._verifier = StatementVerifier(
            facts=collect_facts(passages, lexicon),
            alignment=Alignment(passages),
            question=Content(question),
            question_claims=_question_claims(question, lexicon),
            verified=frozenset(passage.number for passage in passages if passage.verified),
            chinese=not language.startswith("en"),
            names=persona_names,
            phrases=frozenset(each for phrase in persona_phrases for each in sentences(phrase)),
            lexicon=lexicon,
        )
        self._repair = AnswerRepair(self._passages, self._verifier.alignment, self._verifier.question, language)
        self._splitter = StatementSplitter(lexicon)
        self._whitespace = ""
        self._kept: list[KeptStatement] = []
        self._complete = 0
        self._removed: list[Removed] = []
        self._unsupported: list[str] = []

    def verify(self, answer: str, *, cut_off: bool = False) -> VerifiedAnswer:
        """Verify a complete answer."""
        for _ in self.add(answer):
            pass
        for _ in self.end(cut_off=cut_off):
            pass
        return self.result()

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
        return assemble(self._kept, self._removed, self._unsupported, self._language)

    def _take(self, statement: Statement) -> Iterator[str]:
        sentence = statement.text.strip()
        if not sentence:
            self._whitespace += statement.text
            return
        start = statement.text.index(sentence)
        before = self._whitespace + statement.text[:start]
        self._whitespace = statement.text[start + len(sentence) :]
        kept = self._verified(sentence, before)
        if kept.text or kept.quote:
            shown = sentence_of(kept, self._language)
            yield before + shown if self._kept else shown
            self._kept.append(kept)
        if statement.complete:
            self._complete = len(self._kept)

    def _verified(self, sentence: str, before: str) -> KeptStatement:
        """What is left of a sentence, with the passage's own sentence in the place of what was removed."""
        verified = self._verifier.verify(sentence)
        text = MARK.sub(lambda mark: mark[0] if int(mark[1]) in self._passages else "", verified.text).strip()
        cited = verified.cited if text else set()
        self._repair.said |= verified.sentences
        found = None
        if verified.objections:
            found = self._repair.replace(sentence, verified.numbers)
            self._unsupported += [sentence[each.start : each.end] for each in verified.objections]
            self._removed.append(
                Removed(
                    text=verified.removed,
                    reason=verified.objections[0].reason,
                    replaced_by=found.quote if found else "",
                )
            )
        return KeptStatement(
            before=before,
            text=text,
            quote=found.quote if found else "",
            numbers=verified.numbers,
            cited=sorted(cited | {found.number} if found else cited),
        )


@lru_cache(maxsize=64)
def _question_claims(question: str, lexicon: Lexicon) -> frozenset[tuple[ClaimKind, str]]:
    """The claims of a question; cached, as each sentence of a streamed answer needs them."""
    return frozenset((claim.kind, claim.value) for claim in find_claims(question, lexicon))
