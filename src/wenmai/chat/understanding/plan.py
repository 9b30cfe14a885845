"""The plan of an answer: the questions in a message, each with the wordings to search for and to judge."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from wenmai.chat.understanding import courtesies
from wenmai.chat.understanding.clauses import asked_of, has_instruction, readable
from wenmai.chat.understanding.dialogue_acts import answer_type_of, is_about_conversation, is_challenge
from wenmai.chat.understanding.focus import CitedTurns
from wenmai.chat.understanding.questions import asked_about, elliptic_subject, questions_of, wordings_of
from wenmai.chat.understanding.rewrite import Rewrite, asked_before, is_context_dependent, subject_words, with_context
from wenmai.grounding.lexicon import Lexicon
from wenmai.stores.records import Message
from wenmai.text.cjk import query_terms

_TERSE = 2
"""Content words up to which a question may well continue the topic without saying so."""

_LONGEST_REFERENCE = 120
"""Characters up to which a message may refer to earlier answers."""

_MORE = re.compile(
    r"(?:那么?|哦|嗯|好)?[,，\s]*"
    r"(?:那?(?:后来|之后|接着|接下来|然后|再后来|以后)[又还就都]?(?:怎么样?|如何|发生)?了?(?:什么)?事?了?呢?"
    r"|还有(?:别的|其他的?|什么)?(?:吗|呢|没有)?|请?(?:继续|往下|接着)[说讲]?(?:下去|吧)?"
    r"|再?多?[讲说](?:一?点|一?些|讲|说)|(?:还有)?(?:更多|别的|其他)的?[吗呢]?)"
    r"|(?:and |so |ok |okay |but )?[,\s]*"
    r"(?:(?:what |and )?(?:happened |comes |came )?(?:then|next|afterwards?|after that)"
    r"|what (?:else|happened (?:then|next|after(?:wards)?|after that))|go on|(?:please )?continue|keep going"
    r"|(?:is there )?anything else|(?:can you |could you |please )?tell me more(?: about (?:it|that|this))?|more|and)"
)


class QueryKind(StrEnum):
    """How a question is answered."""

    ASK = "ask"
    CONTINUE = "continue"
    CHALLENGE = "challenge"


class JudgedOn(StrEnum):
    """The passages that a wording is judged on."""

    FOUND = "found"
    FOCUS = "focus"
    BOTH = "both"


class Search(NamedTuple):
    """A text that is searched for.

    Attributes:
        anywhere: whether also beyond what the business state limits the question to.
        about: the business object that it is limited to, of several that a message names.
    """

    text: str
    anywhere: bool = False
    about: str = ""


class Wording(msgspec.Struct, frozen=True, kw_only=True):
    """A standalone wording of a question.

    Attributes:
        text: what is searched for and judged.
        judged_on: the passages found for it; those in focus, which were cited last or follow them; or both, in this
            order: focus, found.
        anywhere, about: as of its :class:`Search`.
    """

    text: str
    judged_on: JudgedOn = JudgedOn.FOUND
    anywhere: bool = False
    about: str = ""

    @property
    def search(self) -> Search:
        """What is searched for it."""
        return Search(self.text, self.anywhere, self.about)


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """One question of a message.

    Attributes:
        asked: as the user wrote it, completed by the rest of the message.
        wordings: tried in order; the first that is answered counts.
        terse: so few words that it may well continue the topic.
    """

    asked: str
    wordings: tuple[Wording, ...]
    kind: QueryKind = QueryKind.ASK
    terse: bool = False

    @property
    def standalone(self) -> str:
        """The first wording that is not judged in the focus."""
        return next(wording.text for wording in self.wordings if wording.judged_on is not JudgedOn.FOCUS)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The questions of a message; none if it only instructs the model.

    Attributes:
        carried: words taken from the conversation, as in :class:`Rewrite`.
    """

    queries: tuple[Query, ...]
    carried: list[str]

    @property
    def searches(self) -> list[Search]:
        """What to search for, each once."""
        return list(dict.fromkeys(wording.search for query in self.queries for wording in query.wordings))

    @property
    def text(self) -> str:
        """The first wording of each question that stands alone."""
        return " ".join(query.standalone for query in self.queries)


def needs_context(message: str) -> bool:
    """Whether a message may refer to earlier answers, so that their passages must be read; a long one stands alone."""
    return 0 < len(asked_of(message)) <= _LONGEST_REFERENCE


def plan_answer(message: str, window: Sequence[Message], lexicon: Lexicon, focus: CitedTurns) -> Plan:
    """Plan the answer to a message.

    Args:
        message: as the user wrote it.
        window: earlier completed turns of the thread, ascending.
        lexicon: the words of the field.
        focus: the passages that the answers of these turns cited; empty if none is needed.
    """
    asked = asked_of(message)
    if not asked and has_instruction(message):
        return Plan(queries=(), carried=[])
    asked = asked or message
    if window and is_challenge(asked):
        rewritten = _challenge(asked, window, lexicon, focus)
        return Plan(queries=(rewritten[0],), carried=rewritten[1])
    queries: list[Query] = []
    carried: list[str] = []
    for question in questions_of(asked):
        query, words = _query(question, window, lexicon, focus)
        queries.append(query)
        carried += [word for word in words if word not in carried]
    return Plan(queries=tuple(queries), carried=carried)


def _query(question: str, window: Sequence[Message], lexicon: Lexicon, focus: CitedTurns) -> tuple[Query, list[str]]:
    if not window or is_about_conversation(question):
        return Query(asked=question, wordings=tuple(Wording(text=text) for text in wordings_of(question))), []
    if _continues(question) and focus.latest:
        rewritten = with_context(question, window, lexicon, focus)
        wording = Wording(text=rewritten.text)
        return Query(asked=question, wordings=(wording,), kind=QueryKind.CONTINUE), rewritten.carried
    in_context = Wording(text=question, judged_on=JudgedOn.FOCUS)
    if is_context_dependent(question, lexicon):
        rewritten = with_context(question, window, lexicon, focus)
        standalone = Wording(text=rewritten.text, judged_on=JudgedOn.BOTH)
        wordings = (standalone, in_context) if focus.latest else (standalone,)
        return Query(asked=question, wordings=wordings), rewritten.carried
    alone = [Wording(text=text) for text in wordings_of(question)]
    about = _asked_about_another(question, window)
    if about:
        return Query(asked=question, wordings=(Wording(text=about), *alone)), []
    if focus.latest is None:
        return Query(asked=question, wordings=tuple(alone)), []
    return Query(asked=question, wordings=(*alone, in_context), terse=_is_terse(question, lexicon)), []


def _challenge(asked: str, window: Sequence[Message], lexicon: Lexicon, focus: CitedTurns) -> tuple[Query, list[str]]:
    """The question whose answer is challenged, searched for together with the user's own words."""
    questions = [question for _, question in asked_before(window)]
    own = courtesies.HEARSAY.sub(" ", courtesies.CHALLENGE.sub(" ", readable(asked)))
    if not questions:
        return Query(asked=asked, wordings=(Wording(text=asked),)), []
    before = window[: next(i for i, m in enumerate(window) if m.role == "user" and asked_of(m.content) == questions[0])]
    earlier = questions[0]
    rewritten = Rewrite(text=earlier, carried=[])
    if is_context_dependent(earlier, lexicon):
        rewritten = with_context(earlier, before, lexicon, focus)
    wordings = (Wording(text=rewritten.text), Wording(text=" ".join(own.split()) or asked))
    return Query(asked=asked, wordings=wordings, kind=QueryKind.CHALLENGE), rewritten.carried


def _continues(question: str) -> bool:
    """Whether a question asks for what comes next, and for nothing else."""
    return _MORE.fullmatch(readable(question).strip(" ?？!！。.,，~")) is not None


def _is_terse(question: str, lexicon: Lexicon) -> bool:
    return len(subject_words(question, lexicon)) <= _TERSE and len(query_terms(question)) <= 2 * _TERSE


def _asked_about_another(question: str, window: Sequence[Message]) -> str:
    """The latest question for a fact, asked about another subject: 那城门呢; ``""`` if there is none."""
    subject = elliptic_subject(question)
    if not subject:
        return ""
    for _, earlier in asked_before(window):
        if not elliptic_subject(earlier):
            first = questions_of(earlier)[0]
            return asked_about(subject, first) if answer_type_of(first) else ""
    return ""
