"""Courtesies: clauses that state nothing, such as greetings, offers to help and transitions."""

from collections import Counter
from collections.abc import Sequence

from wenmai.grounding.content import Content, Token, fold_text
from wenmai.grounding.wording.words import load_words

_LONGEST = 5


def is_courtesy(tokens: Sequence[Token], question: Content, names: Sequence[str]) -> bool:
    """Whether all content is words of courtesy, names of the persona, or, beside a courtesy, words of the question.

    Args:
        tokens: of one clause.
        question: as the user wrote it.
        names: names and phrases of the persona.
    """
    loaded = load_words()
    words, chars = loaded.courtesies, loaded.courtesy_chars
    frame = fold_text(" ".join(names))
    rest = []
    for token in tokens:
        if token.weight and not (frame and _in_frame(token, frame)):
            form = token.form
            if not (chars.issuperset(form) if token.han else form in words) and form not in question.words:
                return False
            rest.append(token)
    if not rest:
        return True
    courteous = _courteous(tokens, words)
    rest = [token for token in rest if token.start not in courteous]
    return not rest or (bool(courteous) and all(token.form in question.words for token in rest))


def _courteous(tokens: Sequence[Token], words: frozenset[str]) -> set[int]:
    """The starts of the tokens with content that are words of courtesy, or lie within one."""
    chars = [(char, token) for token in tokens for char in (token.form if token.han else " ")]
    text = "".join(char for char, _ in chars)
    found = {token.start for token in tokens if not token.han and token.weight and token.form in words}
    starts = load_words().courtesy_starts
    start = 0
    inside: list[Token] = []
    while start < len(text):
        if text[start] not in starts:
            start += 1
            continue
        length = next(
            (size for size in range(min(_LONGEST, len(text) - start), 0, -1) if text[start : start + size] in words), 0
        )
        inside += [token for _, token in chars[start : start + length]]
        start += length or 1
    covered = Counter(token.start for token in inside)
    return found | {token.start for token in tokens if token.weight and covered[token.start] == len(token.form)}


def _in_frame(token: Token, frame: str) -> bool:
    return token.form in frame if token.han else token.form in frame.split()
