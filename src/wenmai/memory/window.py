"""The window: the newest part of a thread's transcript that fits, cut at turn boundaries."""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter, is_

import msgspec

from wenmai.errors import InvalidInput
from wenmai.memory.sizes import count_characters, count_message_tokens, has_only_content, longest_part, shorten
from wenmai.stores.records import Message
from wenmai.stores.validation import check_at_least
from wenmai.text.tokens import TokenCounter, estimate_tokens

MAX_UNSUMMARISED = 4
"""Messages that may have left the window before a summary covers them; until then they are shown with it."""

MAX_UNSUMMARISED_TOKENS = 1_000
"""Of these messages together."""


class WindowLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the window; all apply, None means no limit.

    Tool calls, the ids of their results and names count like content.

    Attributes:
        messages: most messages; 0 for an empty window.
        characters: most characters (code points).
        tokens: most tokens.
    """

    messages: int = 10
    characters: int | None = 4000
    tokens: int | None = None

    def __post_init__(self) -> None:
        """Refuse other values.

        Raises:
            InvalidInput: naming the limit.
        """
        check_at_least("messages", self.messages, 0)
        for field in ("characters", "tokens"):
            limit = getattr(self, field)
            if limit is not None:
                check_at_least(field, limit, 0)


def check_limits(limits: object) -> None:
    """Refuse what is no :class:`WindowLimits`.

    Raises:
        InvalidInput: naming ``window``.
    """
    if not isinstance(limits, WindowLimits):
        raise InvalidInput("window", limits, "a wenmai.WindowLimits")


class Window(msgspec.Struct, frozen=True):
    """The messages in the window, in the order of the conversation.

    Attributes:
        messages: whole turns, ascending; only the newest may be shortened.
        tokens: of the messages, including tool calls and names.
        shortened: characters cut from the newest turn to make it fit.
        more: True if older turns were left out.
        before: the turns before these, as far as they were read, ascending.
    """

    messages: list[Message]
    tokens: int
    shortened: int
    more: bool
    before: list[Message] = []


EMPTY_WINDOW = Window([], 0, 0, more=False)


def cut_window(
    messages: Sequence[Message],
    limits: WindowLimits,
    *,
    count_tokens: TokenCounter = estimate_tokens,
    more: bool = False,
) -> Window:
    """Cut the newest turns that fit.

    Args:
        messages: the newest messages of a thread; pass more than ``limits.messages``. If ``more`` is set, the oldest
            of several turns is assumed to be incomplete.
        limits: see :class:`WindowLimits`.
        count_tokens: of a text; the model's own counter where it has one.
        more: the transcript has messages before the first of these.

    The newest turn is always included: if it alone exceeds a limit, messages between its question and its end are
    left out (a tool call never without its results), then the longest contents and tool call arguments are shortened
    until all fit. The window is empty only if ids, which are not shortened, exceed the limit by themselves.
    """
    ordered = sorted(messages, key=attrgetter("seq"))
    if limits.messages <= 0 or not ordered:
        return Window([], 0, 0, bool(ordered) or more)
    if more:
        ordered = _without_oldest_turn(ordered)  # its first messages were not read
    if len(ordered) <= limits.messages and _newest_turn(ordered)[0].role != "tool":
        used = _size(ordered, count_tokens)
        if _within(used, limits):
            return Window(ordered, used[2], 0, more)
    *older, newest = [list(turn) for _, turn in groupby(ordered, key=attrgetter("turn_id"))]
    used, shortened = _size(newest, count_tokens), 0
    if newest[0].role == "tool" or not _within(used, limits):
        newest, shortened = _fit_newest(newest, limits, count_tokens)
        if not newest:
            return Window([], 0, shortened, more=True)
        used = _size(newest, count_tokens)
    chosen = [newest]
    while older:
        size = _size(older[-1], count_tokens)
        total = used[0] + size[0], used[1] + size[1], used[2] + size[2]
        if not _within(total, limits):
            break
        chosen.append(older.pop())
        used = total
    chosen.reverse()
    return Window(_flat(chosen), used[2], shortened, more or bool(older), _flat(older))


def beginning_after(window: Window, seq: int, count_tokens: TokenCounter) -> Window:
    """The window beside a summary of the messages up to ``seq``: without these, and with the turns between the two.

    Turns before the window are added while they have few tokens, or they wait for the summary.
    """
    messages = [message for message in window.messages if message.seq > seq]
    between = [message for message in window.before if message.seq > seq]
    room = MAX_UNSUMMARISED_TOKENS
    for _, turn in groupby(reversed(between), key=attrgetter("turn_id")):
        added = list(turn)
        room -= _size(added, count_tokens)[2]
        if room < 0:
            break
        messages = [*reversed(added), *messages]
    tokens = _size(messages, count_tokens)[2]
    return msgspec.structs.replace(window, messages=messages, tokens=tokens, before=[])


def _without_oldest_turn(ordered: list[Message]) -> list[Message]:
    """The messages after the first turn; all if there is only one."""
    oldest = ordered[0].turn_id
    for index, message in enumerate(ordered):
        if message.turn_id != oldest:
            return ordered[index:]
    return ordered


def _newest_turn(ordered: list[Message]) -> list[Message]:
    newest, start = ordered[-1].turn_id, len(ordered) - 1
    while start and ordered[start - 1].turn_id == newest:
        start -= 1
    return ordered[start:]


def _size(turn: Sequence[Message], count_tokens: TokenCounter) -> tuple[int, int, int]:
    characters = tokens = 0
    for message in turn:
        characters += len(message.content) if has_only_content(message) else count_characters(message)
        tokens += message.tokens or count_message_tokens(message, count_tokens)
    return len(turn), characters, tokens


def _within(size: tuple[int, int, int], limits: WindowLimits) -> bool:
    messages, characters, tokens = size
    return (
        messages <= limits.messages
        and (limits.characters is None or characters <= limits.characters)
        and (limits.tokens is None or tokens <= limits.tokens)
    )


def _fit_newest(turn: list[Message], limits: WindowLimits, count_tokens: TokenCounter) -> tuple[list[Message], int]:
    """The turn made to fit, and how many characters were cut; empty if it cannot fit."""
    units = _chosen_units(turn, limits.messages)

    def fit(chosen: Sequence[Sequence[Message]], level: int) -> bool:
        return _fits([shorten(message, level, count_tokens) for message in _flat(chosen)], limits, count_tokens)

    if not _fits(_flat(units), limits, count_tokens):
        asked = units[0][0].role == "user"
        while len(units) > 1 and not fit(units, 1):
            # Keep the question with the last messages as long as both fit.
            between = asked and len(units) > 2  # noqa: PLR2004 — the question and the last unit
            if not between and asked and not fit(units[1:], 0):
                del units[1]  # its ids alone exceed the limit
            else:
                del units[1 if between else 0]
        if not fit(units, 0):
            return [], sum(map(count_characters, turn))
        level = _highest_level(_flat(units), limits, count_tokens)
        units = [[shorten(message, level, count_tokens) for message in unit] for unit in units]
    kept = _flat(units)
    if len(kept) == len(turn) and all(map(is_, kept, turn)):
        return kept, 0
    return kept, sum(map(count_characters, turn)) - sum(map(count_characters, kept))


def _fits(messages: Sequence[Message], limits: WindowLimits, count_tokens: TokenCounter) -> bool:
    """Whether the messages are within the character and token limits."""
    return _within((0, *_size(messages, count_tokens)[1:]), limits)


def _highest_level(messages: Sequence[Message], limits: WindowLimits, count_tokens: TokenCounter) -> int:
    """The most characters per part with which all fit, by binary search."""
    low, high = 0, max(map(longest_part, messages))
    if limits.characters is not None:
        high = min(high, limits.characters)
    while low < high:
        middle = (low + high + 1) // 2
        if _fits([shorten(message, middle, count_tokens) for message in messages], limits, count_tokens):
            low = middle
        else:
            high = middle - 1
    return low


def _chosen_units(turn: list[Message], limit: int) -> list[list[Message]]:
    """The question and the last units of a turn, at most ``limit`` messages in all.

    Tool results at the beginning are left out: their call was not read.
    If there is no question and no unit is within the limit, the last one is included all the same.
    """
    units = _units(turn)
    while len(units) > 1 and units[0][0].role == "tool":
        del units[0]
    if len(_flat(units)) <= limit:
        return units
    question = units[:1] if units[0][0].role == "user" and (limit > 1 or len(units[-1]) > limit) else []
    room = limit - len(question)
    rest: list[list[Message]] = []
    for unit in reversed(units[len(question) :]):
        room -= len(unit)
        if room < 0:
            break
        rest.insert(0, unit)
    return [*question, *rest] or [unit for unit in units if len(unit) <= limit][-1:] or units[-1:]


def _units(turn: Sequence[Message]) -> list[list[Message]]:
    """Messages that must stay together: a tool call with its results and any messages between; else one each."""
    units: list[list[Message]] = []
    for message in turn:
        calling = _calling(units, message) if message.role == "tool" else None
        if calling is None:
            units.append([message])
        else:
            units[calling:] = [_flat([*units[calling:], [message]])]
    return units


def _calling(units: Sequence[Sequence[Message]], result: Message) -> int | None:
    """The unit with the call of this result: by id, else the last unit if it has tool calls."""
    for index in range(len(units) - 1, -1, -1):
        calls = (call for message in units[index] for call in message.tool_calls or ())
        if any(call.get("id") == result.tool_call_id for call in calls):
            return index
    return len(units) - 1 if units and any(message.tool_calls for message in units[-1]) else None


def _flat(units: Sequence[Sequence[Message]]) -> list[Message]:
    return [message for unit in units for message in unit]
