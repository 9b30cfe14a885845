"""The extractive summary: the most salient statements of a conversation, verbatim, within a token limit.

The salience of a statement depends on nothing but the statement, so a summary that is extended batch by batch is that
of the whole conversation, and what was said first is kept as long as it is among the most salient.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from wenmai.memory.salience import salience
from wenmai.memory.sizes import ELLIPSIS
from wenmai.memory.tool_calls import call_lines, results_by_call
from wenmai.stores.records import Message
from wenmai.text.cjk import has_cjk, normalise, sentences
from wenmai.text.tokens import TokenCounter

LONGEST_STATEMENT = 160
"""Characters of a statement; a longer sentence is several."""

_USER_LABELS = {True: "用户：", False: "User: "}
_ASSISTANT_LABELS = {True: "助手：", False: "Assistant: "}
_TOOL_LABELS = {True: "工具：", False: "Tool: "}
_CLAUSE_END = re.compile(r"(?<=[，,；;、：])")
_NOT_WORD = re.compile(r"\W+")
_NUMERALS = re.compile("[\\d〇零一二两三四五六七八九十百千万亿]+")
_OF_A_REPETITION = 0.2


def extract(previous: Sequence[str], messages: Sequence[Message], tokens: int, count_tokens: TokenCounter) -> list[str]:
    """The lines of the summary of a conversation, in its order; at least one if it has any words.

    Args:
        previous: lines of the summary of what came before.
        messages: of the conversation, ascending, that may be summarised.
        tokens: of all lines together, at most.
        count_tokens: of a line.
    """
    return select([*previous, *statements(messages)], tokens, count_tokens)


def select(lines: Sequence[str], tokens: int, count_tokens: TokenCounter) -> list[str]:
    """The most salient lines within the limit, in their order; of two equal ones the later.

    Of lines that differ in numbers alone, those between the first and the last count less.
    """
    unique = {_NOT_WORD.sub("", normalise(line)): (position, line) for position, line in enumerate(lines)}
    alike: dict[str, list[int]] = {}
    for words, (position, _) in unique.items():
        alike.setdefault(_NUMERALS.sub("", words), []).append(position)
    repeated = {position for positions in alike.values() for position in sorted(positions)[1:-1]}
    ranked = sorted(
        (-salience_of(line) * (_OF_A_REPETITION if position in repeated else 1.0), position, line)
        for position, line in unique.values()
    )
    kept: list[tuple[int, str]] = []
    used = 0
    for negative, position, line in ranked:
        used += count_tokens(line) + 1
        if not negative or (used > tokens and kept):
            break
        kept.append((position, line))
    return [line for _, line in sorted(kept)]


def statements(messages: Sequence[Message]) -> Iterator[str]:
    """Each sentence of users and assistants as one line with its speaker, and each tool call with its result."""
    results = results_by_call(messages)
    for message in messages:
        yield from statements_of(message, results)


def statements_of(message: Message, results: Mapping[str, Message]) -> Iterator[str]:
    """The statements of one message.

    Args:
        message: of the conversation.
        results: of the tool calls, by the ids of the calls.
    """
    if message.role not in ("user", "assistant"):
        return
    for sentence in sentences(message.content):
        for part in split_statement(" ".join(sentence.split())):
            yield _label(message, part) + part
    for call in call_lines(message, results):
        line = " ".join(call.split())
        shown = line if len(line) <= LONGEST_STATEMENT else line[: LONGEST_STATEMENT - 1] + ELLIPSIS
        yield _TOOL_LABELS[has_cjk(shown)] + shown


def split_statement(sentence: str) -> Iterator[str]:
    """The sentence, in parts of its clauses if it is too long; nothing of it is left out."""
    if len(sentence) <= LONGEST_STATEMENT:
        yield sentence
        return
    part = ""
    for clause in _CLAUSE_END.split(sentence):
        for start in range(0, len(clause), LONGEST_STATEMENT):
            piece = clause[start : start + LONGEST_STATEMENT]
            if part and len(part) + len(piece) > LONGEST_STATEMENT:
                yield part.strip()
                part = ""
            part += piece
    yield part.strip()


def _label(message: Message, text: str) -> str:
    if message.name:
        return f"{message.name}: "
    return (_USER_LABELS if message.role == "user" else _ASSISTANT_LABELS)[has_cjk(text)]


def salience_of(line: str) -> float:
    """The salience of a line of a summary, of whom its label says."""
    for label in (*_ASSISTANT_LABELS.values(), *_TOOL_LABELS.values()):
        if line.startswith(label):
            return salience(line.removeprefix(label), by_user=False)
    for label in _USER_LABELS.values():
        line = line.removeprefix(label)
    return salience(line, by_user=True)
