"""What must hold of sessions and keys in a random history: one generator of complaints a rule."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from history_events import Event
from history_past import AT_THE_END, Past
from history_reading_rules import sights

USES = frozenset({"append", "rename", "prefer", "use", "clear"})


def two_at_once(past: Past) -> Iterator[str]:
    """A session is begun under a name only when there is none."""
    for event in past.events:
        if event.kind != "open" or not event.created:
            continue
        for other in past.others_at(event, event.got):
            before = other != event.incarnation and past.births[other].shown.ended < event.began
            if before and not past.may_be_gone(other, event.ended):
                yield f"{event} began beside {other} of {past.births[other].user}"


def ended_in_use(past: Past) -> Iterator[str]:
    """A session is continued for its whole lifetime after its last activity."""
    for event in past.events:
        for incarnation, end in event.ends.items():
            # The end in a copy may be older.
            early = past.lives_until(incarnation, event.began) - end
            if past.is_exact(event) and early > 0:
                yield f"{event} shows that {incarnation} ends {early:.1f} s early"
        if event.kind == "append" and event.error == "SessionExpired":
            if event.clock_ended < past.lives_until(event.incarnation, event.began):
                yield f"{event} although it had {_left(past, event.incarnation, event)} left"
            continue
        other = event.got if event.kind == "open" else event.answer[0] if event.answer and not event.key else ""
        if other in ("", event.name):
            continue
        for incarnation in past.others_at(event, event.name):
            birth = past.births[incarnation]
            if birth.user != event.user or birth.shown.ended > event.began:
                continue
            lives = event.clock_ended < past.lives_until(incarnation, event.began)
            if lives and not past.may_be_gone(incarnation, event.ended):
                yield f"{event} went on in {other}; {incarnation} had {_left(past, incarnation, event)} left"


def _left(past: Past, incarnation: str, event: Event) -> str:
    return f"{past.lives_until(incarnation, event.began) - event.clock_ended:.1f} s"


def went_on(past: Past) -> Iterator[str]:
    """A session whose end is past is not continued."""
    for event in past.events:
        if event.kind == "append" and event.outcome == "ok" and event.clock_began >= past.ended_by(event):
            yield f"{event} although its end was past"


def refused(past: Past) -> Iterator[str]:
    """A session that was not deleted is there for its owner, and so is an unfinished answer."""
    settled = Counter(event.labels[0] for event in past.events if event.kind == "settle")
    for event in past.events:
        if not event.incarnation or past.may_be_gone(event.incarnation, event.ended):
            continue
        if event.kind in USES and event.error == "SessionNotFound":
            yield f"{event} although it was not deleted"
        if event.kind == "settle" and event.outcome == "ok" and not event.created:
            written = min((append.began for append in past.appended[event.labels[0]]), default=0.0)
            if settled[event.labels[0]] == 1 and not past.may_be_cut(event, written, event.ended):
                yield f"{event} filled nothing in"


def answers(past: Past) -> Iterator[str]:
    """A key has one answer while its session lives, and none of a session that was deleted."""
    of_key: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in past.events:
        if event.key and event.answer is not None:
            of_key[event.user, event.key].append(event)
    for asks in of_key.values():
        for one in asks:
            for other in asks:
                if other.ended <= one.ended or one.answer is None or other.answer is None:
                    continue
                session_id = one.answer[0]
                if one.answer == other.answer:
                    yield from _deleted_between(past, one, other, session_id)
                elif not past.may_delete_between(one.user, session_id, min(one.began, other.began), other.ended):
                    yield f"{one} was answered {one.answer}, {other} {other.answer}"


def _deleted_between(past: Past, one: Event, other: Event, session_id: str) -> Iterator[str]:
    for delete in past.deletes[one.user, session_id]:
        # A delete that names its session may have meant an earlier one.
        certain = delete.outcome == "ok" and not delete.incarnation
        if certain and one.ended < delete.began and delete.ended < other.began:
            yield f"{other} was given the answer of {one}, whose session {delete} had ended"


def overwritten(past: Past) -> Iterator[str]:
    """At the end a title and a preference are the last that was given, and what was used is counted once."""
    for read in past.events:
        if read.process != AT_THE_END or read.kind not in ("record", "preferences") or not read.texts:
            continue
        incarnation = read.texts[0].incarnation
        kind = "rename" if read.kind == "record" else "prefer"
        writes = [e for e in past.events if e.kind == kind and e.incarnation == incarnation and e.outcome != "refused"]
        done = [write for write in writes if write.outcome == "ok"]
        last = {w.labels[0] for w in writes if not any(later.began > w.ended for later in done)}
        if done and not last & {label for _, label in sights(read)}:
            yield f"{read} shows none of {sorted(last)}"


def unexpected_errors(past: Past) -> Iterator[str]:
    """Only what the contracts name is raised."""
    return (f"{event}" for event in past.events if event.error.startswith("unexpected"))
