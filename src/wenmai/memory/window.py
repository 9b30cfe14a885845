"""The window: the part of a thread's transcript that a model sees, cut on turn boundaries, newest first."""

from collections.abc import Callable, Sequence
from itertools import groupby

import msgspec

from wenmai.stores.records import Message
from wenmai.text.tokens import estimate_tokens

TokenCounter = Callable[[str], int]


class WindowLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the transcript enters; each limit holds, None means that there is none.

    Attributes:
        messages: at most so many messages, 0 for an empty window.
        characters: at most so many characters (code points) of content.
        tokens: at most so many tokens of content.
    """

    messages: int = 10
    characters: int | None = 4000
    tokens: int | None = None


class Window(msgspec.Struct, frozen=True):
    """What entered, in the order of the talk.

    Attributes:
        messages: whole turns, ascending; only the newest one may be shortened.
        tokens: of the messages' contents.
        shortened: characters that were cut out of the newest turn to make it fit.
        more: True if older turns were left out.
    """

    messages: list[Message]
    tokens: int
    shortened: int
    more: bool


ELLIPSIS = "…"


def cut_window(
    messages: Sequence[Message],
    limits: WindowLimits,
    *,
    count_tokens: TokenCounter = estimate_tokens,
    more: bool = False,
) -> Window:
    """Cut the newest turns that fit.

    Args:
        messages: the newest messages of a thread, ascending by ``seq``. To be cut rightly there should be one more
            than ``limits.messages``: the oldest turn is taken as cut off by the reader if ``more`` is set.
        limits: how much enters.
        count_tokens: of a text; the model's own counter where it has one.
        more: the transcript goes on before the first of the messages.

    The newest turn always enters: if it alone is over a limit, its oldest messages are left out (a tool call never
    without its results), then the longest contents are shortened.
    """
    turns = _turns(messages)
    if limits.messages == 0 or not turns:
        return Window([], 0, 0, bool(turns) or more)
    newest, shortened = _fit_newest(turns[-1], limits, count_tokens)
    chosen = [newest]
    used = _size(newest, count_tokens)
    older = turns[:-1]
    if more and older:
        older = older[1:]  # its beginning was not read
    while older:
        size = _size(older[-1], count_tokens)
        total = used[0] + size[0], used[1] + size[1], used[2] + size[2]
        if not _within(total, limits):
            break
        chosen.append(older.pop())
        used = total
    kept = [message for turn in reversed(chosen) for message in turn]
    return Window(kept, used[2], shortened, more or bool(older))


def _turns(messages: Sequence[Message]) -> list[list[Message]]:
    ordered = sorted(messages, key=lambda message: (message.turn_id, message.seq))
    return [list(turn) for _, turn in groupby(ordered, key=lambda message: message.turn_id)]


def _size(turn: Sequence[Message], count_tokens: TokenCounter) -> tuple[int, int, int]:
    characters = sum(len(message.content) for message in turn)
    return len(turn), characters, sum(message.tokens or count_tokens(message.content) for message in turn)


def _within(size: tuple[int, int, int], limits: WindowLimits) -> bool:
    bounds = limits.messages, limits.characters, limits.tokens
    return all(bound is None or value <= bound for value, bound in zip(size, bounds, strict=True))


def _fit_newest(turn: list[Message], limits: WindowLimits, count_tokens: TokenCounter) -> tuple[list[Message], int]:
    kept = _last_with_tool_pairs(turn, limits.messages)
    shortened = sum(len(message.content) for message in turn) - sum(len(message.content) for message in kept)
    while not _within((1, *_size(kept, count_tokens)[1:]), limits):
        longest = max(range(len(kept)), key=lambda index: len(kept[index].content))
        content = kept[longest].content
        if len(content) <= 1:
            break
        shorter = content[: len(content) // 2].rstrip(ELLIPSIS) + ELLIPSIS
        if len(shorter) >= len(content):
            shorter = ELLIPSIS
        room = _room(kept, longest, limits)
        if room is not None and len(shorter) < room < len(content) and limits.tokens is None:
            shorter = content[: room - 1] + ELLIPSIS
        shortened += len(content) - len(shorter)
        kept[longest] = msgspec.structs.replace(kept[longest], content=shorter, tokens=count_tokens(shorter))
    return kept, shortened


def _room(turn: Sequence[Message], index: int, limits: WindowLimits) -> int | None:
    """Characters that the message at ``index`` may have if the others stay as they are."""
    if limits.characters is None:
        return None
    return limits.characters - sum(len(message.content) for at, message in enumerate(turn) if at != index)


def _last_with_tool_pairs(turn: list[Message], limit: int) -> list[Message]:
    """The question and the last messages of a turn, ``limit`` in all, no tool result without its call."""
    if len(turn) <= limit:
        return list(turn)
    head = turn[:1] if turn[0].role == "user" and limit > 1 else []
    rest = turn[len(turn) - (limit - len(head)) :]
    while rest and rest[0].role == "tool":
        rest = rest[1:]
    return [*head, *rest] if rest or head else turn[-1:]
