"""The answer without a model: the best evidence, word for word, in the persona's frame.

What is stated is quoted, so that it stands by construction; the frame around it comes from the persona's
phrases and is chosen by the turn's number, so that an answer can be reproduced.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from wenmai.chat.gate.before import Answering, Verdict
from wenmai.chat.gate.claim import NAMES
from wenmai.chat.gate.claims import find_claims
from wenmai.chat.gate.grounds import ground
from wenmai.chat.gate.reading import Piece
from wenmai.chat.gate.relevance import Asked, overlap, understood
from wenmai.chat.gate.vocabulary import THING
from wenmai.chat.profile import Persona, Phrases, in_language
from wenmai.chat.types import Intent, Passage, PolicyMode
from wenmai.text.cjk import has_cjk, has_words

_PASSAGES = {"brief": 1, "normal": 1, "detailed": 3}
_SENTENCES = {"brief": 1, "normal": 3, "detailed": 3}
_LISTING = re.compile(
    r"哪些|哪几|都有什么|都有啥|列出|列举|\bwhat are\b|\bwhich are\b|\blist\b|\bname the\b|"
    r"\bwhat (?:\w+ ){0,3}are there\b",
    re.IGNORECASE,
)
_LIST_SENTENCE = 3
_BOOK = re.compile(r"《[^《》]{1,60}》")
_BOOK_EN = re.compile(r"[A-Z][A-Za-z'’ -]{3,80}(?=,|$)")
_NAMES_SOURCE = re.compile(r"据[^：]{2,20}[，,]|(?i:according to\b)")
_ABOUT = 0.5


class Composed(msgspec.Struct, frozen=True, kw_only=True):
    """An answer and the numbers of the passages that it quotes, in the order of the text."""

    text: str
    cited: list[int]


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence that may be quoted.

    Attributes:
        place: its index in its passage.
        own: how much of the question the sentence itself speaks of.
        passage_score: how much the title and the passage as a whole do.
        leads: the passage is about the question as a whole, so it is told from its beginning.
    """

    passage: Passage
    place: int
    sentence: str
    own: float
    passage_score: float
    leads: bool
    answers: bool

    @property
    def score(self) -> float:
        return self.own + self.passage_score


def compose(
    *,
    question: str,
    intent: Intent,
    verdict: Verdict,
    persona: Persona,
    language: str,
    verbosity: str,
    turn_id: int,
    topic_words: Sequence[str] = (),
) -> Composed:
    """Answer a question from its verdict alone.

    Args:
        question: what the visitor wrote.
        intent: as classified.
        verdict: from :func:`wenmai.chat.gate.before.before_model`.
        persona: who answers.
        language: BCP 47 tag of the answer's frame; evidence is quoted in its own language.
        verbosity: ``brief`` is one sentence, ``normal`` what the best passage says of it, ``detailed`` up to
            three passages.
        turn_id: chooses among the persona's phrases.
        topic_words: what the evidence is about, see the profile.
    """
    if verdict.mode is PolicyMode.REFUSE:
        return _phrase(persona.refusals, language, turn_id)
    spoken = {
        Intent.GREETING: persona.greetings,
        Intent.CONTEXT_PREFERENCE: persona.acknowledgements,
        Intent.CLARIFICATION: persona.clarifications,
        Intent.OUT_OF_SCOPE: persona.out_of_scope,
    }
    if intent in spoken:
        return _phrase(spoken[intent], language, turn_id)
    premise = _premise(verdict, language)
    answers = verdict.mode is PolicyMode.NORMAL
    told, cited = _told(verdict, language, verbosity) if answers else ("", [])
    if not told:
        topic = topic_of(question, language, topic_words, unsaid=verdict.premises)
        phrase = chosen(persona.conservative, language, turn_id).replace("{topic}", topic)
        return Composed(text=_joined([premise, phrase], language), cited=[])
    opening = "" if verdict.premises else chosen(persona.openings, language, turn_id)
    closing = "" if verbosity == "brief" else chosen(persona.closings, language, turn_id)
    return Composed(text=_joined([opening, premise, told, closing], language), cited=cited)


def chosen(phrases: Phrases, language: str, turn_id: int) -> str:
    """The phrase of a turn: they take turns; ``""`` if there is none."""
    offered: list[str] = in_language(phrases, language) if phrases else []
    return offered[turn_id % len(offered)] if offered else ""


def topic_of(question: str, language: str, topic_words: Sequence[str], *, unsaid: Sequence[str] = ()) -> str:
    """What a question is about: a name, a thing or the longest topic word in it, else ``this matter``.

    It is put into a sentence, so it must be a noun phrase, and no other word of a question is sure to be one.

    Args:
        question: what the visitor wrote.
        language: BCP 47 tag of the answer.
        topic_words: see :func:`compose`.
        unsaid: claims of the question that no evidence supports; they are not ours to repeat.
    """
    english = language.startswith("en")
    claims = find_claims(question)
    for claim in claims:
        if claim.kind in NAMES and claim.text not in unsaid and has_cjk(claim.text) != english:
            return claim.text
    bare = question
    for claim in reversed(claims):
        bare = f"{bare[: claim.start]} {bare[claim.end :]}"
    thing = THING.search(bare)
    if thing and has_cjk(thing[0]) != english:
        return f"the {thing[0].lower()}" if english else thing[0]
    words = [word for word in has_words(bare, topic_words) if has_cjk(word) != english]
    return max(words, key=len, default="this matter" if english else "这件事")


def _phrase(phrases: Phrases, language: str, turn_id: int) -> Composed:
    return Composed(text=chosen(phrases, language, turn_id), cited=[])


def _joined(parts: Sequence[str], language: str) -> str:
    return (" " if language.startswith("en") else "").join(part for part in parts if part)


def _premise(verdict: Verdict, language: str) -> str:
    """That the records do not say what the question takes for granted."""
    if not verdict.premises:
        return ""
    if language.startswith("en"):
        said = ", ".join(f"“{premise}”" for premise in verdict.premises)
        return f"You mention {said}; the records at hand do not say so."
    said = "、".join(f"“{premise}”" for premise in verdict.premises)
    return f"您提到的{said}，手边的记载没有这样写。"


def _told(verdict: Verdict, language: str, verbosity: str) -> tuple[str, list[int]]:
    asked = understood(verdict.about)
    if verdict.disagree:
        return _both(verdict, asked, language)
    lines = sorted(
        _lines(verdict, asked),
        key=lambda line: (-line.answers, not _speaks(line.passage, language), -line.score),
    )
    order = list(dict.fromkeys(line.passage.number for line in lines if line.score >= lines[0].score / 2))
    told: list[str] = []
    cited: list[int] = []
    said: set[str] = set()
    for number in order[: _PASSAGES.get(verbosity, 1)]:
        own = [line for line in lines if line.passage.number == number and line.sentence not in said]
        quoted = _picked(own, _SENTENCES.get(verbosity, 3))
        if quoted:
            said |= {line.sentence for line in quoted}
            told.append(_attributed(quoted[0].passage, [line.sentence for line in quoted], language))
            cited.append(number)
    return _joined(told, language), cited


def _lines(verdict: Verdict, asked: Asked) -> Iterator[_Line]:
    """Every quotable sentence of the passages, scored by how much of the question it speaks of."""
    answers = {(answer.number, answer.sentence): answer for answer in verdict.answers}
    listing = _LISTING.search(verdict.about) is not None
    for passage in verdict.passages:
        read = ground(passage)
        in_title = overlap(asked, read.title)
        placed = bool(asked.ordinals & read.title.ordinals)
        named = sum(read.supports(name) for name in asked.names)
        for place, sentence in enumerate(read.sentences):
            answer = answers.get((passage.number, sentence.text))
            own = overlap(asked, sentence) + 0.5 * bool(asked.deeds & sentence.deeds) + _figures(answer)
            own += bool(asked.ordinals & sentence.ordinals) + (listing and _is_list(sentence))
            yield _Line(
                passage=passage,
                place=place,
                sentence=sentence.text,
                own=own,
                passage_score=0.5 * in_title + 0.5 * passage.score + placed + named - 0.5 * (not passage.verified),
                leads=verdict.focus is None and not listing and in_title >= _ABOUT,
                answers=answer is not None,
            )


def _figures(answer: Answering | None) -> float:
    """A year answers better than a season, and any figure better than none."""
    if answer is None:
        return 0.0
    return 0.5 if any(char.isdigit() for claim in answer.claims for char in claim.value) else 0.25


def _is_list(sentence: Piece) -> bool:
    parts = sum(sentence.text.count(mark) for mark in ("、", "，", ", ", "；"))
    return parts >= _LIST_SENTENCE or len(sentence.ordinals) >= _LIST_SENTENCE


def _picked(own: Sequence[_Line], most: int) -> list[_Line]:
    """What to quote of one passage, in its order: its beginning, or the sentences close to its best."""
    if own and own[0].leads:
        return sorted(own, key=lambda line: line.place)[:most]
    ranked = sorted(own, key=lambda line: (-line.answers, -line.own, line.place))
    kept = [line for line in ranked[:most] if line is ranked[0] or line.own > ranked[0].own / 2]
    return sorted(kept, key=lambda line: line.place)


def _both(verdict: Verdict, asked: Asked, language: str) -> tuple[str, list[int]]:
    """Each passage's own answer beside the others', and that they differ."""
    numbers = list(dict.fromkeys(answer.number for answer in verdict.answers))
    passages = {passage.number: passage for passage in verdict.passages}
    told: list[str] = []
    for number in numbers:
        sentences = [answer.sentence for answer in verdict.answers if answer.number == number]
        best = max(sentences, key=lambda sentence: overlap(asked, Piece(sentence)))
        told.append(_attributed(passages[number], [best], language))
    lead = "The sources differ here." if language.startswith("en") else "几处记载不一致，一并说来。"
    return _joined([lead, *told], language), numbers


def _attributed(passage: Passage, sentences: Sequence[str], language: str) -> str:
    """Sentences with their source named, unless they name it themselves; hearsay is marked."""
    english = language.startswith("en")
    quoted = (" " if not has_cjk(sentences[0]) else "").join(sentences)
    source = source_name(passage, english=english)
    if not passage.verified:
        return f"Reportedly ({source}, unverified): {quoted}" if english else f"据传（{source}，未经核实）：{quoted}"
    if _NAMES_SOURCE.match(quoted):
        return quoted
    return f"{source} says: {quoted}" if english else f"据{source}：{quoted}"


def source_name(passage: Passage, *, english: bool) -> str:
    """How a source is named in a sentence: its book, if its reference names one, else the passage's title."""
    book = _BOOK.search(passage.source_ref) or _BOOK.search(passage.title)
    if book and passage.verified:
        return book[0]
    named = _BOOK_EN.match(passage.source_ref)
    if named and passage.verified and not has_cjk(passage.title):
        return f"“{named[0]}”"
    title = passage.title.strip('《》"“”')
    return f"“{title}”" if english else f"《{title}》"


def _speaks(passage: Passage, language: str) -> bool:
    return passage.language.partition("-")[0] == language.partition("-")[0]
