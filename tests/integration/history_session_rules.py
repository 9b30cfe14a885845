"""Rules for sessions and keys in a random history; each generates violations."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from history_events import Event
from history_model import FINAL_READER, HistoryModel
from history_reading_rules import observations

USES = frozenset({"append", "rename", "prefer", "use", "clear"})


def concurrent_sessions(model: HistoryModel) -> Iterator[str]:
    """A session is created under a name only if there is none."""
    for event in model.events:
        if event.kind != "open" or not event.created:
            continue
        for other in model.others_at(event, event.got):
            before = other != event.incarnation and model.births[other].shown.ended < event.began
            if before and not model.may_be_deleted(other, event.ended):
                yield f"{event} began beside {other} of {model.births[other].user}"


def expired_early(model: HistoryModel) -> Iterator[str]:
    """A session is continued for its whole lifetime after its last activity."""
    for event in model.events:
        for incarnation, end in event.ends.items():
            # The expiry in a cache entry may be older.
            early = model.lives_until(incarnation, event.began) - end
            if model.is_exact(event) and early > 0:
                yield f"{event} shows that {incarnation} ends {early:.1f} s early"
        if event.kind == "append" and event.error == "SessionExpired":
            if event.clock_ended < model.lives_until(event.incarnation, event.began):
                yield f"{event} although it had {_left(model, event.incarnation, event)} left"
            continue
        other = event.got if event.kind == "open" else event.answer[0] if event.answer and not event.key else ""
        if other in ("", event.name):
            continue
        for incarnation in model.others_at(event, event.name):
            birth = model.births[incarnation]
            if birth.user != event.user or birth.shown.ended > event.began:
                continue
            lives = event.clock_ended < model.lives_until(incarnation, event.began)
            if lives and not model.may_be_deleted(incarnation, event.ended):
                yield f"{event} went on in {other}; {incarnation} had {_left(model, incarnation, event)} left"


def _left(model: HistoryModel, incarnation: str, event: Event) -> str:
    return f"{model.lives_until(incarnation, event.began) - event.clock_ended:.1f} s"


def continued_after_expiry(model: HistoryModel) -> Iterator[str]:
    """An expired session is not continued."""
    for event in model.events:
        if event.kind == "append" and event.outcome == "ok" and event.clock_began >= model.ended_by(event):
            yield f"{event} although its end was past"


def wrongly_rejected(model: HistoryModel) -> Iterator[str]:
    """A session that was not deleted exists for its owner, and so does an unfinished answer."""
    completed = Counter(event.labels[0] for event in model.events if event.kind == "complete")
    for event in model.events:
        if not event.incarnation or model.may_be_deleted(event.incarnation, event.ended):
            continue
        if event.kind in USES and event.error == "SessionNotFound":
            yield f"{event} although it was not deleted"
        if event.kind == "complete" and event.outcome == "ok" and not event.created:
            written = min((append.began for append in model.appended[event.labels[0]]), default=0.0)
            if completed[event.labels[0]] == 1 and not model.may_be_cut(event, written, event.ended):
                yield f"{event} filled nothing in"


def answers(model: HistoryModel) -> Iterator[str]:
    """A key has one answer while its session exists, and none of a deleted session."""
    of_key: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in model.events:
        if event.key and event.answer is not None:
            of_key[event.user, event.key].append(event)
    for asks in of_key.values():
        for one in asks:
            for other in asks:
                if other.ended <= one.ended or one.answer is None or other.answer is None:
                    continue
                session_id = one.answer[0]
                if one.answer == other.answer:
                    yield from _deleted_between(model, one, other, session_id)
                elif not model.may_delete_between(one.user, session_id, min(one.began, other.began), other.ended):
                    yield f"{one} was answered {one.answer}, {other} {other.answer}"


def _deleted_between(model: HistoryModel, one: Event, other: Event, session_id: str) -> Iterator[str]:
    for delete in model.deletes[one.user, session_id]:
        # A delete with an incarnation may refer to an earlier session.
        certain = delete.outcome == "ok" and not delete.incarnation
        if certain and one.ended < delete.began and delete.ended < other.began:
            yield f"{other} was given the answer of {one}, whose session {delete} had ended"


def overwritten(model: HistoryModel) -> Iterator[str]:
    """The final title and preference are the last ones written."""
    for read in model.events:
        if read.process != FINAL_READER or read.kind not in ("record", "preferences") or not read.texts:
            continue
        incarnation = read.texts[0].incarnation
        kind = "rename" if read.kind == "record" else "prefer"
        writes = [e for e in model.events if e.kind == kind and e.incarnation == incarnation and e.outcome != "refused"]
        done = [write for write in writes if write.outcome == "ok"]
        last = {w.labels[0] for w in writes if not any(later.began > w.ended for later in done)}
        if done and not last & {label for _, label in observations(read)}:
            yield f"{read} shows none of {sorted(last)}"


def unexpected_errors(model: HistoryModel) -> Iterator[str]:
    """Only errors of the contracts are raised."""
    return (f"{event}" for event in model.events if event.error.startswith("unexpected"))
