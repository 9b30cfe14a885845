"""Rules for the reads of a random history; each generates violations."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from history_events import PLAIN, UNKNOWN, Event, Seen, label_of
from history_model import HistoryModel

READS = frozenset({"history", "latest", "record", "preferences", "traces", "list"})
THREADS = frozenset({"history", "latest"})


def observations(event: Event) -> Iterator[tuple[str, str]]:
    """Every text that was read or acknowledged: its incarnation ("" if unknown) and label."""
    for message in event.messages:
        yield event.incarnation, message.label
    for text in event.texts:
        yield text.incarnation, text.label


def foreign_texts(model: HistoryModel) -> Iterator[str]:
    """A read returns only texts of the same user and incarnation."""
    for event in model.events:
        written: set[str] = set()
        for incarnation, text in observations(event):
            if not text:
                continue
            label = label_of(text)
            if label.user != event.user:
                yield f"{event} saw {text} of another user"
            if label.incarnation == UNKNOWN:
                continue
            written.add(label.incarnation)
            if incarnation and label.incarnation != incarnation:
                yield f"{event} saw {text} in {incarnation}"
        if event.kind in THREADS and len(written) > 1:
            yield f"{event} saw texts of {sorted(written)} in one thread"


def mixed_up_sessions(model: HistoryModel) -> Iterator[str]:
    """An incarnation has one user and one name, and is created once."""
    begun = Counter(event.incarnation for event in model.events if event.kind == "open" and event.created)
    yield from (f"{incarnation} was begun {times} times" for incarnation, times in begun.items() if times > 1)
    for event in model.events:
        shown = {text.incarnation for text in event.texts if text.incarnation} if event.kind != "list" else set()
        for incarnation in shown | ({event.incarnation} - {""}):
            birth = model.births.get(incarnation)
            name = event.got or event.name
            if birth is not None and (birth.user, birth.name) != (event.user, name):
                yield f"{event} met {incarnation}, which is {birth.user}:{birth.name}"


def lost(model: HistoryModel) -> Iterator[str]:
    """Messages acknowledged before are read, unless they may have been deleted."""
    acknowledged: dict[tuple[str, str], list[tuple[Event, Seen]]] = defaultdict(list)
    for event in model.events:
        if event.kind in ("append", "complete") and event.outcome == "ok":
            acknowledged[event.incarnation, event.npc].extend((event, message) for message in event.messages)
    for read in model.events:
        if _must_be_complete(model, read):
            yield from _missing(model, read, acknowledged[read.incarnation, read.npc])


def _must_be_complete(model: HistoryModel, read: Event) -> bool:
    """Whether it read a thread that must exist."""
    if read.kind not in THREADS or read.outcome != "ok" or not read.incarnation:
        return False
    if not read.messages and model.may_be_deleted(read.incarnation, read.ended):
        return False
    # Messages renumbered after a truncation cannot be distinguished from older ones.
    return read.kind == "history" or read.npc == PLAIN


def _missing(model: HistoryModel, read: Event, acknowledged: Iterable[tuple[Event, Seen]]) -> Iterator[str]:
    shown = {message.label: message for message in read.messages if message.label}
    first = read.messages[0].seq if read.kind == "latest" and read.messages else 1
    for event, message in acknowledged:
        if message.seq < first or not model.known(event, read) or model.may_be_cut(read, event.began, read.ended):
            continue
        found = shown.get(message.label)
        if found is None:
            yield f"{read} does not see {message.label}, acknowledged by {event}"
        elif message.completed and not found.completed:
            yield f"{read} sees {message.label} unfinished, which {event} has filled in"


def lost_questions(model: HistoryModel) -> Iterator[str]:
    """An answered question is in the session that the answer names."""
    asks = defaultdict(list)
    for event in model.events:
        if event.kind == "ask" and event.answer is not None:
            asks[event.user, event.answer[0], event.npc].append((event, event.answer))
    for read in model.events:
        if read.kind != "history" or read.outcome != "ok" or not read.incarnation or not read.messages:
            continue
        birth = model.births[read.incarnation]
        shown = {message.label: message for message in read.messages}
        for ask, answer in asks[read.user, read.name, read.npc]:
            if not model.known(ask, read) or model.may_be_cut(read, 0.0, read.ended):
                continue
            if birth.shown.ended > ask.began or model.may_delete_between(*birth[:2], birth.shown.began, read.ended):
                continue
            found = shown.get(ask.labels[0])
            if found is None:
                yield f"{read} does not see the question of {ask}"
            elif found.turn != answer[2]:
                yield f"{read} sees the question of {ask} in turn {found.turn}, answered in {answer[2]}"


def duplicated(model: HistoryModel) -> Iterator[str]:
    """No text and no id occurs twice in a thread."""
    for read in model.events:
        if read.kind not in THREADS:
            continue
        for values in ([message.label for message in read.messages], [message.id for message in read.messages]):
            for value, times in Counter(values).items():
                if value and times > 1:
                    yield f"{read} sees {value} {times} times"


def gaps(model: HistoryModel) -> Iterator[str]:
    """Messages and turns are numbered 1, 2, 3 …; a question starts a turn."""
    for read in model.events:
        if read.kind not in THREADS or not read.messages:
            continue
        first = read.messages[0]
        if read.kind == "history" and (first.seq, first.turn) != (1, 1):
            yield f"{read} begins with {first}"
        for one, following in pairwise(read.messages):
            turn = one.turn + (following.role == "user")
            if (following.seq, following.turn) != (one.seq + 1, turn):
                yield f"{read} sees {following} after {one}"


def renumbered(model: HistoryModel) -> Iterator[str]:
    """In a thread that is never truncated a message keeps its number, turn and id."""
    places: dict[tuple[str, str], tuple[tuple[int, int, str], Event]] = {}
    for event in model.events:
        if event.npc != PLAIN or not event.incarnation:
            continue
        for message in event.messages:
            place = (message.seq, message.turn, message.id)
            known, first = places.setdefault((event.incarnation, message.label or message.id), (place, event))
            if known != place:
                yield f"{event} sees {message.label} as {place}, {first} as {known}"


def resurrected(model: HistoryModel) -> Iterator[str]:
    """A deleted session is neither read nor written."""
    for event in model.events:
        if event.outcome != "ok" or not _shows_session(event):
            continue
        for incarnation in {event.incarnation, *(found for found, _ in observations(event))} - {""}:
            gone = model.deleted_by(incarnation)
            if gone is not None and model.known(gone, event):
                yield f"{event} after {gone}, which ended {incarnation}"
        for incarnation, text in observations(event):
            birth, asks = model.births.get(incarnation), model.asked.get(text)
            if birth is not None and asks and all(ask.ended < birth.earliest for ask in asks):
                yield f"{event} saw {text} in {incarnation}, which began after it was asked"


def _shows_session(event: Event) -> bool:
    """Whether the result implies that the incarnation existed."""
    if event.kind in THREADS:
        return bool(event.messages)
    if event.kind in ("complete", "delete"):
        return event.created
    return event.kind in READS or event.kind in ("open", "append", "rename", "prefer")


def reappeared(model: HistoryModel) -> Iterator[str]:
    """Cleared messages are not read again."""
    cleared: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in model.events:
        if event.outcome == "ok" and (event.kind == "clear" or (event.kind == "truncate" and not event.number)):
            cleared[event.incarnation, event.npc].append(event)
    for read in model.events:
        if read.kind not in THREADS or not read.incarnation:
            continue
        for clear in cleared[read.incarnation, read.npc]:
            if not model.known(clear, read):
                continue
            for message in read.messages:
                appends = model.appended.get(message.label, [])
                if appends and all(append.ended < clear.began for append in appends):
                    yield f"{read} sees {message.label}, which {clear} had removed"
