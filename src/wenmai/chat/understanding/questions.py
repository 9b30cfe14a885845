"""The questions in a message: one, several, or one about each side of a comparison."""

import re
from collections.abc import Sequence

from wenmai.chat.understanding.clauses import INTERROGATIVE, REQUEST, WH, Clause, ClauseKind, clauses, readable
from wenmai.chat.understanding.comparisons import compared
from wenmai.text.cjk import content_words, has_cjk, normalise
from wenmai.text.folding import fold

MOST_PARTS = 3
_MOST_WORDS = 6
_LONGEST = 400
"""Characters up to which a message is split; a longer one is a text with a question in it."""

_JOINED = re.compile(
    r"\s(?:and|but|or)\s(?:also\s)?(?=(?:who|whom|whose|what|when|where|why|how|which|is|are|was|were|do|does|did|can|could|"
    r"will|would|should|has|have)\b)|(?<=[^,，])(?:以及|还有|并且|而且|同时|和|与|又|，|,)(?=(?:是?在?(?:什么|哪|几|多少|多[大高长久远]|谁|怎|如何|为何|为什么)|何时|何地))",
    re.IGNORECASE,
)
_ELLIPTIC = re.compile(
    r"^(?:那么?|而|还有)?((?!后来|然后|之后|接着|接下来|还有|其他|别的|为什么|怎么|什么|谁|哪|多少|几)[^,，?？。]{1,16})呢[?？]?$"
    r"|^(?:and |but |ok |okay )?(?:what|how) about (.{1,40}?)[?.]*$"
)
_LEAD = re.compile(
    r"^(?:(?:那么?|而且?|并且|还有|另外|以及|同时)[,，\s]*|(?:ok|okay|so|and|but|also|or)\b[,，\s]*(?=\S))+",
    re.IGNORECASE,
)
_PRONOUN = re.compile(r"它们?|他们?|她们?|\b(?:it|its|he|she|they|them|him|her|his|their)\b", re.IGNORECASE)
_SUBJECT_ZH = re.compile(
    r"^(?:请问|那么?|你知道|我想知道|告诉我)*(.{1,20}?)(?=是(?!否)|在(?!线)|的?(?:什么|啥|哪|几|多|谁|怎|如何|为|何|有没有|能|可以|会|需要|要|有))"
)
_NOUN_EN = re.compile(
    r"\b(?:the|a|an|my|our|your|this|that|its)\s((?:[\w'-]+\s?){1,4}?)(?=\s*(?:$|[,;?.!]|\b(?:is|are|was|were|be|been|do|does|did|can|"
    r"could|will|would|should|has|have|had|and|or|but|of|in|on|at|to|for|from|with|by|last|cost|take|cover|include|"
    r"work|open|close|start|end|mean|run|\w+ed|built|made|set|kept|held|sold|paid|sent|put|given|taken|written)\b))",
    re.IGNORECASE,
)
_AFTER_VERB = re.compile(
    r"\b(?:is|are|was|were|does|do|did)\s(?!it\b|its\b|he\b|she\b|they\b|there\b|you\b|i\b|we\b|this\b|that\b)([\w'-]+(?:\s(?!\w+ed\b|open\b|"
    r"cost\b|take\b|work\b|built\b|free\b)[\w'-]+)?)",
    re.IGNORECASE,
)
_NAME_EN = re.compile(r"(?<!^)(?<![.?!] )\b([A-Z][\w-]+(?:\s[A-Z][\w-]*)*)")
_ARTICLE = re.compile(r"^(?:the|a|an)\s", re.IGNORECASE)
_WHEN_ZH = re.compile(r"^([^,，。？?]{1,24}?)(?:是|在)?什么时候[？?]?$")
_WHEN_EN = re.compile(r"^when (?:is|was|are|were) ((?:the|an?|my|our) (?:[\w'-]+ ?){1,3}?)\??$", re.IGNORECASE)
_PARTICIPLE = re.compile(r"\b(?:\w+ed|built|made|set|kept|held|sold|paid|sent|put|given|taken|written|born|open)$")
_ASKED = re.compile(
    r"(?:是?在?)(?:什么(?:时候|时间|地方|人|原因)?|哪(?:一?年|一?天|里|儿|位|个)?|何[时地处人]|谁|多少|几[年天个]?|怎么样?|如何|为何|为什么)"
    r"|\b(?:who|whom|whose|what|when|where|why|how|which)\b",
    re.IGNORECASE,
)


def questions_of(asked: str) -> list[str]:
    """The questions of a message, each complete in itself as far as the message completes it.

    A later question without a subject gets that of the first: *who built the gate and when* asks for both of the gate.
    At most three; a message that asks one thing is returned as it is.
    """
    if len(asked) > _LONGEST:
        return [asked]
    found = _questions(fold(asked))
    return found if len(found) > 1 else [asked]


def _questions(asked: str) -> list[str]:
    comparison = compared(_stripped(asked))
    if comparison:
        return [comparison.first, comparison.second]
    found = [part for clause in _askings(asked) for part in _JOINED.split(clause) if part.strip()]
    found = _attached(found)
    if len(found) <= 1 or not all(_asks(part) for part in found):
        return [asked]
    return _completed(found[:MOST_PARTS])


def _askings(asked: str) -> list[str]:
    """The message cut so that each piece asks at most once; a statement belongs to the question after it."""
    pieces: list[str] = []
    pending = ""
    for clause in clauses(asked):
        pending += clause.text
        if _is_question(clause):
            pieces.append(pending)
            pending = ""
    if pending.strip():
        pieces = [*pieces[:-1], pieces[-1] + pending] if pieces else [pending]
    return pieces


def _is_question(clause: Clause) -> bool:
    return clause.kind is ClauseKind.CONTENT and _asks(clause.text)


def _asks(text: str) -> bool:
    normal = _LEAD.sub("", normalise(text).strip())
    return (
        INTERROGATIVE.search(normal) is not None
        or REQUEST.search(normal) is not None
        or _ELLIPTIC.match(normal) is not None
    )


def _attached(parts: Sequence[str]) -> list[str]:
    """The parts, with one that is no question of its own joined to its neighbour.

    That is *tell me*, a tag such as *right?*, and a statement that ends the question before it: 在哪一年，他回了村?
    """
    joined: list[str] = []
    for part in parts:
        bare = _LEAD.sub("", normalise(part).strip())
        alone = WH.search(bare) or _ELLIPTIC.match(bare) or content_words(bare)
        ends = joined and not joined[-1].rstrip().endswith(("?", "？")) and not _asks(part.rstrip(" ?？"))
        if joined and (ends or not alone):
            joined[-1] += part
        else:
            joined.append(part)
    return joined


def _completed(parts: Sequence[str]) -> list[str]:
    texts = [_stripped(part) for part in parts]
    first = texts[0] if _says_something(texts[0]) or len(texts) == 1 else texts[1]
    subject = subject_of(first) or _pronoun(first)
    completed: list[str] = []
    for text in texts:
        about = _ELLIPTIC.match(normalise(text))
        if about and completed and subject:
            completed.append(asked_about((about[1] or about[2]).strip(), completed[0]))
        elif text is first:
            completed.append(text)
        else:
            completed.append(_about(subject, text, first))
    return completed


def wordings_of(question: str) -> list[str]:
    """The question; before it, if it asks when of a thing and no deed, when that was built: *when was the gate?*."""
    found = _WHEN_ZH.match(question) or _WHEN_EN.match(question)
    if not found or _PARTICIPLE.search(found[1]):
        return [question]
    built = f"when was {found[1]} built?" if found.re is _WHEN_EN else f"{found[1]}是什么时候建的"
    return [built, question]


def elliptic_subject(question: str) -> str:
    """The subject of a question that names nothing else: 那城门呢, *what about the gate*; else ``""``."""
    found = _ELLIPTIC.match(_stripped(readable(question)))
    subject = (found[1] or found[2]).strip() if found else ""
    return subject if content_words(_PRONOUN.sub(" ", subject)) else ""


def asked_about(subject: str, question: str) -> str:
    """The question, asked about another subject: of *A 是哪年建的* for B, *B 是哪年建的*."""
    former = subject_of(question)
    bare = _ARTICLE.sub("", subject)
    return question.replace(former, bare, 1) if former else f"{bare} {question}"


def _about(subject: str, part: str, first: str) -> str:
    """A part with its subject; one of a question word alone takes the rest of the first part as well."""
    if not _says_something(part):
        word, former = _ASKED.search(part), _ASKED.search(first)
        return first.replace(former[0], word[0], 1) if word and former else f"{first} {part}"
    if subject and subject.lower() in part.lower():
        return part
    if not subject:
        return " ".join([*_topic_words(first)[:_MOST_WORDS], part])
    others = [word for word in _topic_words(first) if word not in subject.lower()]
    if len(others) <= 1:
        replaced = _PRONOUN.sub(subject, part, count=1)
        if replaced != part:
            return replaced
        return subject + part if has_cjk(part) else f"{subject}: {part}"
    return f"{' '.join(_topic_words(first)[:_MOST_WORDS])}: {part}"


def _topic_words(question: str) -> list[str]:
    """The content words of the sentence that asks, without question words and pronouns."""
    asking = re.split(r"[.。!！?？]\s*(?=\S)", question)[-1]
    return content_words(_PRONOUN.sub(" ", _ASKED.sub(" ", WH.sub(" ", normalise(asking)))))


def _says_something(text: str) -> bool:
    """Whether a part has words besides its question word."""
    bare = _PRONOUN.sub(" ", _ASKED.sub(" ", normalise(text)))
    return bool(content_words(bare)) or _PRONOUN.search(text) is not None


def _pronoun(text: str) -> str:
    found = _PRONOUN.search(text)
    return found[0] if found else ""


def subject_of(question: str) -> str:
    """The thing that a question is about: before the verb in Chinese, a noun with its article in English."""
    text = _stripped(question)
    if has_cjk(text):
        found = _SUBJECT_ZH.match(text)
        subject = found[1].strip(" ，,的") if found else ""
        return subject if content_words(_PRONOUN.sub(" ", subject)) else ""
    for pattern in (_NOUN_EN, _AFTER_VERB, _NAME_EN):
        found = pattern.search(text)
        if found and content_words(found[1]):
            return found[1].strip()
    return ""


def _stripped(text: str) -> str:
    return _LEAD.sub("", text.strip()).strip(" \n，,")
