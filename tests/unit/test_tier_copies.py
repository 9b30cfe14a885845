"""Copies of sessions: what they answer, what they refuse to answer, and what they cost."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from wenmai.clock import to_micros
from wenmai.scope import Scope
from wenmai.stores.base import Stored, ThreadInfo
from wenmai.stores.records import Message, Preferences, Session
from wenmai.stores.tiers.ages import Ages
from wenmai.stores.tiers.copies import TAIL_BYTES, TAIL_MESSAGES, Piece, SessionCopy, SessionKey, Tail
from wenmai.stores.tiers.lru import Lru
from wenmai.stores.tiers.missed import DOUBT, DROP, RECHECK, Missed, Repair
from wenmai.stores.tiers.trust import LONG_AGO, Moment, Trust, moments

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
CHECKED = Moment(NOW, 100.0)


def after(seconds: float, *, by_wall: float | None = None) -> Moment:
    """So many seconds after ``CHECKED``; by the wall clock as many, unless it was set."""
    return Moment(NOW + timedelta(seconds=seconds if by_wall is None else by_wall), CHECKED.running + seconds)


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
    answer = Tail(thread[-held:], CHECKED).newest(limit, whole_turns=whole)
    assert answer is None or answer == wanted
    if held >= len(thread):
        assert answer == wanted, "a copy of all of it knows"


def test_a_tail_grows_only_by_what_follows_it() -> None:
    """A gap is not bridged: the copy begins anew with what was appended; what came late and is not in it ends it."""
    copy = SessionCopy("u")
    copy.grow("elder", talk(1, 2), CHECKED)
    copy.grow("elder", talk(3, 4), CHECKED)
    assert seqs(copy.tails["elder"].messages()) == [1, 2, 3, 4]
    copy.grow("elder", talk(9, 10), CHECKED)
    assert seqs(copy.tails["elder"].messages()) == [9, 10]
    copy.grow("elder", talk(9, 10), CHECKED)
    assert seqs(copy.tails["elder"].messages()) == [9, 10]
    copy.grow("elder", talk(5, 6), CHECKED)
    assert "elder" not in copy.tails


def test_a_tail_is_bounded_in_messages_and_bytes() -> None:
    """However long a thread and its messages: at most so many messages and bytes, and never none."""
    tail = Tail(talk(1, 500), CHECKED)
    assert seqs(tail.messages()) == list(range(501 - TAIL_MESSAGES, 501))
    long = [said(seq, seq, content="长" * 10_000, opens=True) for seq in range(1, 11)]
    assert seqs(Tail(long, CHECKED).messages()) == [9, 10], "30 000 bytes each"
    assert seqs(Tail([said(1, 1, content="x" * (2 * TAIL_BYTES))], CHECKED).messages()) == [1]


def test_a_settled_message_is_replaced_where_it_is() -> None:
    """The answer that is filled shows; one further back changes nothing."""
    tail = Tail([said(5, 3), said(6, 3, completed=False)], CHECKED)
    tail.settle(said(6, 3, content="答"))
    tail.settle(said(2, 1, content="another"))
    assert [message.content for message in tail.messages()] == ["好", "答"]
    assert tail.size == Tail([said(5, 3), said(6, 3, content="答")], CHECKED).size


def test_threads_are_counted_on() -> None:
    """The list of threads follows appends in order; a gap makes it unknown."""
    copy = SessionCopy("u")
    copy.threads = Piece([], CHECKED)
    copy.grow("elder", talk(1, 2), CHECKED)
    copy.grow("elder", talk(3, 6), CHECKED)
    assert copy.threads is not None
    assert copy.threads.value == [ThreadInfo("elder", 6, 3, NOW, NOW)]
    copy.grow("elder", talk(9, 10), CHECKED)
    assert copy.threads is None


def session(name: str, *, title: str = "") -> Stored[Session]:
    """A session's record as a store gives it."""
    record = Session(
        session_id=name, incarnation="i1", expires_at=NOW + timedelta(hours=1), lifetime_seconds=3600, title=title
    )
    return Stored(record, 1, "u", NOW, NOW)


def fill(lru: Lru, key: SessionKey, stored: Stored[Session]) -> None:
    """Keep a copy of the record, as a read does."""
    copy = SessionCopy(stored.user_id)
    copy.incarnation = stored.record.incarnation
    copy.session = Piece(stored, CHECKED)
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
    old.incarnation = "i1"
    old.session = Piece(session("a", title="old"), CHECKED)
    with lru.loading(key) as load:
        with lru.changing(key, "u", "i1", load) as copy:
            copy.session = Piece(session("a", title="new"), CHECKED)
        lru.fill(key, load, old)
    found = lru.find(key, "u")
    assert found is not None
    assert found.session is not None
    assert found.session.value.record.title == "new"
    with lru.loading(key) as load:
        lru.forget(key)
        lru.fill(key, load, old)
    assert lru.find(key, "u") is None


def test_a_copy_in_doubt_is_kept_and_not_trusted() -> None:
    """What may not be so any more is there for when nothing else answers, and is checked before it is trusted."""
    trust = Trust(lambda: CHECKED, timedelta(seconds=30))
    trust.channel_up()
    copy = SessionCopy("u")
    copy.session, copy.preferences = Piece(session("a"), CHECKED), Piece(None, CHECKED)
    copy.threads, copy.tails = Piece([], CHECKED), {"elder": Tail(talk(1, 2), CHECKED)}
    assert trust.own(copy.session.checked_at)
    copy.doubt()
    moments = [copy.session.checked_at, copy.preferences.checked_at, copy.threads.checked_at]
    assert [*moments, copy.tails["elder"].checked_at] == [LONG_AGO] * 4
    assert not trust.own(LONG_AGO)
    assert not trust.shared(LONG_AGO)


def test_copies_are_trusted_within_the_bound_and_while_others_are_heard() -> None:
    """Past 30 s, checked before the channel stood, after it fell, or from the future: not trusted."""
    now = CHECKED
    trust = Trust(lambda: now, timedelta(seconds=30))
    assert not trust.own(CHECKED), "no change of others is heard yet"
    assert trust.shared(CHECKED), "all processes write to that one"
    trust.channel_up()
    assert trust.own(CHECKED)
    assert not trust.own(after(-1)), "a change may have come before the channel stood"
    now = after(29.9)
    assert trust.own(CHECKED)
    now = after(30)
    assert not trust.own(CHECKED)
    assert not trust.shared(CHECKED)
    assert not trust.shared(after(31)), "the clock was set back"
    trust.channel_down()
    assert not trust.own(now)


def test_a_wall_clock_that_is_set_lengthens_no_trust() -> None:
    """Set back again and again while seconds pass, or standing while the machine sleeps: 30 s by either clock."""
    now = CHECKED
    trust = Trust(lambda: now, timedelta(seconds=30))
    trust.channel_up()
    now = after(29, by_wall=2)
    assert trust.own(CHECKED)
    now = after(31, by_wall=2)
    assert not trust.own(CHECKED)
    assert not trust.shared(CHECKED)
    now = after(5, by_wall=-1)
    assert not trust.own(CHECKED)
    now = after(5, by_wall=31)
    assert not trust.own(CHECKED)


def test_a_copy_that_was_checked_later_is_taken_over_part_by_part() -> None:
    """Filling with an older piece does not undo a newer one; a piece that is missing is added."""
    copy, other = SessionCopy("u"), SessionCopy("u")
    copy.session = Piece(session("a", title="newer"), CHECKED)
    other.session = Piece(session("a", title="older"), after(-1))
    preferences = Preferences(session_id="a", tone="casual")
    other.preferences = Piece(Stored(preferences, 1, "u", NOW, NOW), CHECKED)
    copy.take(other)
    assert copy.session is not None
    assert copy.session.value.record.title == "newer"
    assert copy.preferences == other.preferences


def test_what_cannot_be_copied_is_forgotten_and_fails_no_call() -> None:
    """A message, a record or a change that the cache cannot pack or take in leaves no copy, and raises nothing."""
    lru, key = Lru(), SessionKey("t", "s", "a")
    huge = session("a")
    huge = replace(huge, record=replace(huge.record, metadata={"n": 2**70}))
    fill(lru, key, session("a"))
    fill(lru, key, huge)
    assert (lru.find(key, "u"), lru.size, len(lru)) == (None, 0, 0)
    fill(lru, key, session("a"))
    with lru.loading(key) as load, lru.changing(key, "u", "i1", load) as copy:
        copy.grow("elder", [replace(said(1, 1), tool_calls=[{"order": 2**70}])], CHECKED)
    assert (lru.find(key, "u"), lru.size, len(lru)) == (None, 0, 0)


def test_a_refusal_puts_no_strangers_copy_in_doubt() -> None:
    """Only a copy of the caller's own session is checked again after a refusal."""
    lru, key = Lru(), SessionKey("t", "s", "a")
    fill(lru, key, session("a"))
    lru.recheck(key, "stranger")
    found = lru.find(key, "u")
    assert found is not None
    assert found.session is not None
    assert found.session.checked_at == CHECKED
    lru.recheck(key, "u")
    assert found.session.checked_at == LONG_AGO


def later(stored: Stored[Session], incarnation: str, seconds: float) -> Stored[Session]:
    """A session that took the id so many seconds after another."""
    moment = NOW + timedelta(seconds=seconds)
    return replace(stored, record=replace(stored.record, incarnation=incarnation), created_at=moment)


def test_a_copy_holds_nothing_of_another_session_that_had_its_id() -> None:
    """What is found of the session that has the id now takes the place of all that was copied of the former."""
    lru, key = Lru(), SessionKey("t", "s", "a")
    fill(lru, key, session("a"))
    with lru.loading(key) as load, lru.changing(key, "u", "i1", load) as copy:
        copy.grow("elder", talk(1, 2), CHECKED)
    fill(lru, key, later(session("a"), "i2", 9))
    found = lru.find(key, "u")
    assert found is not None
    assert (found.incarnation, found.tails) == ("i2", {})


def test_a_change_of_another_session_than_the_copied_one_leaves_no_copy() -> None:
    """Which of the two has the id now cannot be told."""
    lru, key = Lru(), SessionKey("t", "s", "a")
    fill(lru, key, later(session("a"), "i2", 9))
    with lru.loading(key) as load, lru.changing(key, "u", "i1", load) as copy:
        copy.grow("elder", talk(1, 2), CHECKED)
    assert (lru.find(key, "u"), lru.size, len(lru)) == (None, 0, 0)


def test_a_session_that_began_later_takes_the_place_of_the_copied_one() -> None:
    """One that began earlier, whose record comes late, does not."""
    for mine, theirs, left in ((0, 9, 0), (9, 0, 1)):
        lru, key = Lru(), SessionKey("t", "s", "a")
        fill(lru, key, later(session("a"), "mine", mine))
        lru.replace_earlier(key, later(session("a"), "theirs", theirs))
        assert len(lru) == left


def test_what_is_read_of_no_known_session_is_not_kept() -> None:
    """Messages whose session was not named may be of another one than the copied."""
    lru, key = Lru(), SessionKey("t", "s", "a")
    fill(lru, key, session("a"))
    unknown = SessionCopy("u")
    unknown.tails["elder"] = Tail(talk(1, 2), CHECKED)
    with lru.loading(key) as load:
        lru.fill(key, load, unknown)
    found = lru.find(key, "u")
    assert found is not None
    assert found.tails == {}


def test_removals_are_not_forgotten_for_the_sake_of_doubts() -> None:
    """However many doubts are noted, what was deleted is still to be removed; the oldest doubts go."""
    missed, scope = Missed(doubts=3, removals=10), Scope("t", "s", "u")
    missed.add((scope, "deleted"), Repair("drop", frozenset({"elder"})))
    for number in range(20):
        missed.add((scope, f"s{number}"), DOUBT)
    assert len(missed) == 4
    assert [(scope, name) in missed for name in ("deleted", "s0", "s19")] == [True, False, True]
    key, repair = missed.next()
    assert (key, repair.npc_ids) == ((scope, "deleted"), frozenset({"elder"}))
    missed.add(key, DOUBT)
    missed.done(key, repair)
    assert missed.next()[1].how == "drop", "another change came while the first was repaired"


def test_what_is_noted_of_a_session_is_the_strongest_of_its_repairs() -> None:
    """A recheck or a doubt does not weaken what was noted before."""
    missed, key = Missed(), (Scope("t", "s", "u"), "a")
    for repair, how in ((RECHECK, "recheck"), (DOUBT, "doubt"), (RECHECK, "doubt"), (DROP, "drop"), (DOUBT, "drop")):
        missed.add(key, repair)
        assert missed.next()[1].how == how
    assert len(missed) == 1


def test_a_copy_on_redis_ages_although_all_wall_clocks_are_set_back() -> None:
    """Those of the process and of the server are one machine's; the process's monotonic clock goes on."""
    wall, running = NOW, 100.0
    now = moments(lambda: wall, lambda: running)
    asked = now()
    marks = {"session": f"{to_micros(asked.wall)} {to_micros(asked.wall)}".encode()}
    for step in range(1, 3):
        running += 25.0
        wall = NOW - timedelta(seconds=step)
        checked = Ages(marks, to_micros(wall), now()).checked("session")
        assert checked is not None
        assert Trust(now, timedelta(seconds=30)).shared(checked) is (step == 1)
    assert now().wall == NOW + timedelta(seconds=50)


def test_moments_follow_a_clock_that_is_set_forward() -> None:
    """As a machine's is when it wakes from sleep, in which its monotonic clock stood still."""
    wall, running = NOW, 100.0
    now = moments(lambda: wall, lambda: running)
    assert now() == (NOW, 100.0)
    wall += timedelta(hours=1)
    assert now() == (NOW + timedelta(hours=1), 100.0)
