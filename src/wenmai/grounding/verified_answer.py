"""The result of verification, and its assembly from statements."""

from collections.abc import Collection, Sequence

import msgspec

from wenmai.grounding.aligned import Alignment
from wenmai.grounding.checks.statement import Reason
from wenmai.grounding.content import Content
from wenmai.grounding.repair import AnswerRepair
from wenmai.grounding.types import Passage, PolicyMode


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """A removed part of an answer.

    Attributes:
        text: as the model wrote it.
        reason: the check that it failed, such as ``value`` or ``polarity``.
        replaced_by: the passage's sentence in its place; empty if there is none.
    """

    text: str
    reason: str
    replaced_by: str = ""


class KeptStatement(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of a verified answer.

    Attributes:
        before: white space before it.
        text: what is left of the model's sentence.
        quote: the passage's sentence in the place of what was removed.
        numbers: the passages that the sentence cites itself, else all that it may be supported by.
        cited: the passages that support text and quote.
    """

    before: str
    text: str
    quote: str = ""
    numbers: list[int] = []
    cited: list[int] = []


class VerifiedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A verified answer.

    Attributes:
        text: the supported text; if empty, the caller falls back to the persona's conservative phrase.
        mode: ``normal``, or ``conservative`` if something was removed and not replaced.
        reason: ``unsupported: …`` with the words without support, ``empty``, or ``""``.
        removed: the removed parts, in order.
        cited: the numbers of the passages that support the text, ascending.
        statements: the sentences of the text.
        unsupported: the words without support.
    """

    text: str
    mode: PolicyMode
    reason: str
    removed: list[Removed]
    cited: list[int]
    statements: list[KeptStatement]
    unsupported: list[str]


def sentence_of(kept: KeptStatement, language: str) -> str:
    """A kept sentence as it is shown, without the white space before it."""
    return (" " if language.startswith("en") else "").join(filter(None, (kept.text, kept.quote)))


def assemble(
    statements: Sequence[KeptStatement], removed: list[Removed], unsupported: list[str], language: str
) -> VerifiedAnswer:
    """The answer of these sentences; without text if something was removed and the rest states nothing."""
    text = "".join(each.before * bool(index) + sentence_of(each, language) for index, each in enumerate(statements))
    cited = sorted({number for each in statements for number in each.cited})
    if removed and not cited:
        text = ""
    reason = "" if text else "empty"
    if removed:
        reason = f"unsupported: {', '.join(dict.fromkeys(unsupported))}"
    complete = text and all(each.replaced_by for each in removed)
    return VerifiedAnswer(
        text=text,
        mode=PolicyMode.NORMAL if complete else PolicyMode.CONSERVATIVE,
        reason=reason,
        removed=removed,
        cited=cited if text else [],
        statements=list(statements) if text else [],
        unsupported=unsupported,
    )


def reject_statements(
    answer: VerifiedAnswer, rejected: Collection[int], *, question: str, passages: Sequence[Passage], language: str
) -> VerifiedAnswer:
    """Remove further sentences of a verified answer, by their indices, and repair it.

    Args:
        answer: verified by the rules.
        rejected: indices of statements.
        question: as the user wrote it.
        passages: those that the model was given.
        language: BCP 47 tag of the answer.
    """
    repair = AnswerRepair({each.number: each for each in passages}, Alignment(passages), Content(question), language)
    kept: list[KeptStatement] = []
    removed, unsupported = list(answer.removed), list(answer.unsupported)
    for index, each in enumerate(answer.statements):
        if index not in rejected:
            kept.append(each)
            continue
        found = None if each.quote else repair.replace(each.text, each.numbers)
        quote = each.quote or (found.quote if found else "")
        cited = [found.number] if found else [number for number in each.cited if each.quote]
        removed.append(Removed(text=each.text, reason=Reason.VERIFIER, replaced_by=quote))
        unsupported.append(each.text)
        if quote:
            kept.append(msgspec.structs.replace(each, text="", quote=quote, cited=cited))
    return assemble(kept, removed, unsupported, language)
