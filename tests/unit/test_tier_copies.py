"""Copies of sessions: what they answer, what they refuse to answer, and what they cost."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from wenmai.stores.base import Stored, ThreadInfo
from wenmai.stores.records import Message, Preferences, Session
from wenmai.stores.tiers.copies import LONG_AGO, TAIL_BYTES, TAIL_MESSAGES, Piece, SessionCopy, SessionKey, Tail
from wenmai.stores.tiers.lru import Lru
from wenmai.stores.tiers.trust import Trust

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def said(seq: int, turn_id: int, *, completed: bool = True, content: str = "好", opens: bool | None = None) -> Message:
    """A message; odd numbers are questions unless ``opens`` says otherwise."""
    question = seq % 2 == 1 if opens is None else opens
    return Message(
        id=f"m{seq}",
        seq=seq,
        turn_id=turn_id,
        npc_id="elder",
        role="user" if question else "assistant",
        content=content,
        timestamp=NOW,
        completed=completed,
    )


def talk(first: int, last: int) -> list[Message]:
    """Messages of turns of two."""
    return [said(seq, (seq + 1) // 2) for seq in range(first, last + 1)]


def seqs(messages: Sequence[Message] | None) -> list[int] | None:
    """Their numbers."""
    return None if messages is None else [message.seq for message in messages]


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    unfinished=st.sets(st.integers(1, 40)),
    held=st.integers(1, 40),
    limit=st.integers(1, 12),
    whole=st.booleans(),
)
def test_a_tail_answers_as_the_whole_thread_would_or_not_at_all(
    sizes: list[int], unfinished: set[int], held: int, limit: int, *, whole: bool
) -> None:
    """For any thread, however much of it is copied: the newest messages are those of the thread, or None."""
    thread: list[Message] = []
    for turn_id, size in enumerate(sizes, start=1):
        for place in range(size):
            seq = len(thread) + 1
            thread.append(said(seq, turn_id, completed=seq not in unfinished, opens=place == 0))
    hidden = {message.turn_id for message in thread if not message.completed} if whole else set()
    wanted = [message for message in thread if message.turn_id not in hidden][-limit:]
    answer = Tail(thread[-held:], NOW).newest(limit, whole_turns=whole)
    assert answer is None or answer == wanted
    if held >= len(thread):
        assert answer == wanted, "a copy of all of it knows"


def test_a_tail_grows_only_by_what_follows_it() -> None:
    """A gap is not bridged: the copy begins anew with what was appended; what came late and is not in it ends it."""
    copy = SessionCopy("u")
    copy.grow("elder", talk(1, 2), NOW)
    copy.grow("elder", talk(3, 4), NOW)
    assert seqs(copy.tails["elder"].messages()) == [1, 2, 3, 4]
    copy.grow("elder", talk(9, 10), NOW)
    assert seqs(copy.tails["elder"].messages()) == [9, 10]
    copy.grow("elder", talk(9, 10), NOW)
    assert seqs(copy.tails["elder"].messages()) == [9, 10]
    copy.grow("elder", talk(5, 6), NOW)
    assert "elder" not in copy.tails


def test_a_tail_is_bounded_in_messages_and_bytes() -> None:
    """However long a thread and its messages: at most so many messages and bytes, and never none."""
    tail = Tail(talk(1, 500), NOW)
    assert seqs(tail.messages()) == list(range(501 - TAIL_MESSAGES, 501))
    long = [said(seq, seq, content="长" * 10_000, opens=True) for seq in range(1, 11)]
    assert seqs(Tail(long, NOW).messages()) == [9, 10], "30 000 bytes each"
    assert seqs(Tail([said(1, 1, content="x" * (2 * TAIL_BYTES))], NOW).messages()) == [1]


def test_a_settled_message_is_replaced_where_it_is() -> None:
    """The answer that is filled shows; one further back changes nothing."""
    tail = Tail([said(5, 3), said(6, 3, completed=False)], NOW)
    tail.settle(said(6, 3, content="答"))
    tail.settle(said(2, 1, content="another"))
    assert [message.content for message in tail.messages()] == ["好", "答"]
    assert tail.size == Tail([said(5, 3), said(6, 3, content="答")], NOW).size


def test_threads_are_counted_on() -> None:
    """The list of threads follows appends in order; a gap makes it unknown."""
    copy = SessionCopy("u")
    copy.threads = Piece([], NOW)
    copy.grow("elder", talk(1, 2), NOW)
    copy.grow("elder", talk(3, 6), NOW)
    assert copy.threads is not None
    assert copy.threads.value == [ThreadInfo("elder", 6, 3, NOW, NOW)]
    copy.grow("elder", talk(9, 10), NOW)
    assert copy.threads is None


def session(name: str, *, title: str = "") -> Stored[Session]:
    """A session's record as a store gives it."""
    record = Session(session_id=name, expires_at=NOW + timedelta(hours=1), lifetime_seconds=3600, title=title)
    return Stored(record, 1, "u", NOW, NOW)


def fill(lru: Lru, key: SessionKey, stored: Stored[Session]) -> None:
    """Keep a copy of the record, as a read does."""
    copy = SessionCopy(stored.user_id)
    copy.session = Piece(stored, NOW)
    with lru.loading(key) as load:
        lru.fill(key, load, copy)


def test_the_session_used_longest_ago_goes_first() -> None:
    """With room for three, reading one keeps it."""
    lru = Lru(sessions=3)
    keys = [SessionKey("t", "s", name) for name in "abcd"]
    for key in keys[:3]:
        fill(lru, key, session(key.session_id))
    assert lru.find(keys[0], "u")
    fill(lru, keys[3], session("d"))
    assert [lru.find(key, "u") is not None for key in keys] == [True, False, True, True]


def test_copies_are_bounded_in_bytes() -> None:
    """Sessions with long records make room for fewer; the account is exact after all have gone."""
    lru = Lru(size=20_000)
    for number in range(100):
        fill(lru, SessionKey("t", "s", str(number)), session(str(number), title="x" * 4_000))
        assert lru.size <= 20_000
    assert 2 <= len(lru) <= 5
    for number in range(100):
        lru.forget(SessionKey("t", "s", str(number)))
    assert (lru.size, len(lru)) == (0, 0)


def test_a_stranger_finds_no_copy() -> None:
    """A copy of one user's session is absent for every other."""
    lru = Lru()
    key = SessionKey("t", "s", "a")
    fill(lru, key, session("a"))
    assert lru.find(key, "u") is not None
    assert lru.find(key, "stranger") is None


def test_what_was_read_before_a_change_is_not_kept_after_it() -> None:
    """A read that began before a change, or before another process's, does not put the old state back."""
    lru = Lru()
    key = SessionKey("t", "s", "a")
    old = SessionCopy("u")
    old.session = Piece(session("a", title="old"), NOW)
    with lru.loading(key) as load:
        with lru.changing(key, "u", load) as copy:
            copy.session = Piece(session("a", title="new"), NOW)
        lru.fill(key, load, old)
    found = lru.find(key, "u")
    assert found is not None
    assert found.session is not None
    assert found.session.value.record.title == "new"
    with lru.loading(key) as load:
        lru.forget(key)
        lru.fill(key, load, old)
    assert lru.find(key, "u") is None


def test_a_copy_in_doubt_is_kept_and_not_believed() -> None:
    """What may not be so any more is there for when nothing else answers, and is checked before it is believed."""
    now = NOW
    trust = Trust(lambda: now, timedelta(seconds=30))
    trust.channel_up()
    copy = SessionCopy("u")
    copy.session, copy.preferences = Piece(session("a"), NOW), Piece(None, NOW)
    copy.threads, copy.tails = Piece([], NOW), {"elder": Tail(talk(1, 2), NOW)}
    assert trust.own(copy.session.checked_at)
    copy.doubt()
    moments = [copy.session.checked_at, copy.preferences.checked_at, copy.threads.checked_at]
    assert [*moments, copy.tails["elder"].checked_at] == [LONG_AGO] * 4
    assert not trust.own(LONG_AGO)
    assert not trust.shared(LONG_AGO)


def test_copies_are_believed_within_the_bound_and_while_others_are_heard() -> None:
    """Past 30 s, checked before the channel stood, after it fell, or from the future: not believed."""
    now = NOW
    trust = Trust(lambda: now, timedelta(seconds=30))
    assert not trust.own(NOW), "nobody is heard yet"
    assert trust.shared(NOW), "all processes write to that one"
    trust.channel_up()
    assert trust.own(NOW)
    assert not trust.own(NOW - timedelta(seconds=1)), "a change may have come before the channel stood"
    now = NOW + timedelta(seconds=29.9)
    assert trust.own(NOW)
    now = NOW + timedelta(seconds=30)
    assert not trust.own(NOW)
    assert not trust.shared(NOW)
    assert not trust.shared(now + timedelta(seconds=1)), "the clock was set back"
    trust.channel_down()
    assert not trust.own(now)


def test_a_copy_that_was_checked_later_is_taken_over_part_by_part() -> None:
    """Filling with an older piece does not undo a newer one; a piece that is missing is added."""
    copy, other = SessionCopy("u"), SessionCopy("u")
    copy.session = Piece(session("a", title="newer"), NOW)
    other.session = Piece(session("a", title="older"), NOW - timedelta(seconds=1))
    preferences = Preferences(session_id="a", tone="casual")
    other.preferences = Piece(Stored(preferences, 1, "u", NOW, NOW), NOW)
    copy.take(other)
    assert copy.session is not None
    assert copy.session.value.record.title == "newer"
    assert copy.preferences == other.preferences
