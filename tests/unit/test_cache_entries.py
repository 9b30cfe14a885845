"""Cache entries: what they answer, when they are fresh, and how large they are."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from wenmai.clock import to_micros
from wenmai.scope import Scope
from wenmai.stores.cache.entries import TAIL_BYTES, TAIL_MESSAGES, CachedSession, CachedValue, SessionKey, Tail
from wenmai.stores.cache.freshness import LONG_AGO, Freshness, Moment, SteadyWall, moment_clock
from wenmai.stores.cache.lru import Lru
from wenmai.stores.cache.pending import DROP, MARK_OWN_STALE, MARK_STALE, PendingInvalidation, PendingInvalidations
from wenmai.stores.cache.validation_times import ValidationTimes
from wenmai.stores.records import Message, Preferences, Session
from wenmai.stores.structs import Stored, ThreadInfo

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
VALIDATED = Moment(NOW, 100.0)


def after(seconds: float, *, by_wall: float | None = None) -> Moment:
    """So many seconds after ``VALIDATED``; by the wall clock ``by_wall``, if it was set."""
    return Moment(NOW + timedelta(seconds=seconds if by_wall is None else by_wall), VALIDATED.monotonic + seconds)


def message_of(
    seq: int, turn_id: int, *, completed: bool = True, content: str = "好", starts_turn: bool | None = None
) -> Message:
    """A message; odd numbers are questions unless ``starts_turn`` says otherwise."""
    question = seq % 2 == 1 if starts_turn is None else starts_turn
    return Message(
        id=f"m{seq}",
        seq=seq,
        turn_id=turn_id,
        persona_id="elder",
        role="user" if question else "assistant",
        content=content,
        timestamp=NOW,
        completed=completed,
    )


def conversation(first: int, last: int) -> list[Message]:
    """Messages of turns of two."""
    return [message_of(seq, (seq + 1) // 2) for seq in range(first, last + 1)]


def seqs(messages: Sequence[Message] | None) -> list[int] | None:
    """Their numbers."""
    return None if messages is None else [message.seq for message in messages]


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    uncompleted=st.sets(st.integers(1, 40)),
    held=st.integers(1, 40),
    limit=st.integers(1, 12),
    whole=st.booleans(),
)
def test_a_tail_answers_like_the_whole_thread_or_not_at_all(
    sizes: list[int], uncompleted: set[int], held: int, limit: int, *, whole: bool
) -> None:
    """For any thread, however much of it is cached: the newest messages are those of the thread, or None."""
    thread: list[Message] = []
    for turn_id, size in enumerate(sizes, start=1):
        for place in range(size):
            seq = len(thread) + 1
            thread.append(message_of(seq, turn_id, completed=seq not in uncompleted, starts_turn=place == 0))
    hidden = {message.turn_id for message in thread if not message.completed} if whole else set()
    wanted = [message for message in thread if message.turn_id not in hidden][-limit:]
    answer = Tail(thread[-held:], VALIDATED).newest(limit, whole_turns=whole)
    assert answer is None or answer == wanted
    if held >= len(thread):
        assert answer == wanted, "all of it is cached"


def test_a_tail_is_extended_only_by_consecutive_messages() -> None:
    """After a gap the tail starts over with the appended messages; late messages that it does not have drop it."""
    entry = CachedSession("u")
    entry.extend("elder", conversation(1, 2), VALIDATED)
    entry.extend("elder", conversation(3, 4), VALIDATED)
    assert seqs(entry.tails["elder"].messages()) == [1, 2, 3, 4]
    entry.extend("elder", conversation(9, 10), VALIDATED)
    assert seqs(entry.tails["elder"].messages()) == [9, 10]
    entry.extend("elder", conversation(9, 10), VALIDATED)
    assert seqs(entry.tails["elder"].messages()) == [9, 10]
    entry.extend("elder", conversation(5, 6), VALIDATED)
    assert "elder" not in entry.tails


def test_a_tail_is_bounded_in_messages_and_bytes() -> None:
    """However long a thread and its messages: at most so many messages and bytes, and never empty."""
    tail = Tail(conversation(1, 500), VALIDATED)
    assert seqs(tail.messages()) == list(range(501 - TAIL_MESSAGES, 501))
    long = [message_of(seq, seq, content="长" * 10_000, starts_turn=True) for seq in range(1, 11)]
    assert seqs(Tail(long, VALIDATED).messages()) == [9, 10], "30 000 bytes each"
    assert seqs(Tail([message_of(1, 1, content="x" * (2 * TAIL_BYTES))], VALIDATED).messages()) == [1]


def test_a_completed_message_is_replaced() -> None:
    """A completed answer replaces the open one; one further back changes nothing."""
    tail = Tail([message_of(5, 3), message_of(6, 3, completed=False)], VALIDATED)
    tail.complete(message_of(6, 3, content="答"))
    tail.complete(message_of(2, 1, content="another"))
    assert [message.content for message in tail.messages()] == ["好", "答"]
    assert tail.size == Tail([message_of(5, 3), message_of(6, 3, content="答")], VALIDATED).size


def test_the_list_of_threads_follows_appends() -> None:
    """Appends in order update the list of threads; a gap drops it."""
    entry = CachedSession("u")
    entry.threads = CachedValue([], VALIDATED)
    entry.extend("elder", conversation(1, 2), VALIDATED)
    entry.extend("elder", conversation(3, 6), VALIDATED)
    assert entry.threads is not None
    assert entry.threads.value == [ThreadInfo("elder", 6, 3, NOW, NOW)]
    entry.extend("elder", conversation(9, 10), VALIDATED)
    assert entry.threads is None


def session(name: str, *, title: str = "") -> Stored[Session]:
    """A session's record as a store gives it."""
    record = Session(
        session_id=name, incarnation="i1", expires_at=NOW + timedelta(hours=1), lifetime_seconds=3600, title=title
    )
    return Stored(record, 1, "u", NOW, NOW)


def title_in(entry: CachedSession) -> str | None:
    """The title in the cached record."""
    stored = entry.records[Session].value
    return stored.record.title if stored else None


def fill(lru: Lru, key: SessionKey, stored: Stored[Session]) -> None:
    """Cache the record, as a read does."""
    entry = CachedSession(stored.user_id)
    entry.incarnation = stored.record.incarnation
    entry.records[Session] = CachedValue(stored, VALIDATED)
    with lru.loading(key) as load:
        lru.fill(key, load, entry)


def test_the_least_recently_used_session_is_evicted_first() -> None:
    """With room for three, a read keeps its session from eviction."""
    lru = Lru(sessions=3)
    keys = [SessionKey("t", "s", name) for name in "abcd"]
    for key in keys[:3]:
        fill(lru, key, session(key.session_id))
    assert lru.get(keys[0], "u")
    fill(lru, keys[3], session("d"))
    assert [lru.get(key, "u") is not None for key in keys] == [True, False, True, True]


def test_entries_are_bounded_in_bytes() -> None:
    """With long records there are fewer entries; the size is exactly 0 after all were dropped."""
    lru = Lru(size=20_000)
    for number in range(100):
        fill(lru, SessionKey("t", "s", str(number)), session(str(number), title="x" * 4_000))
        assert lru.size <= 20_000
    assert 2 <= len(lru) <= 5
    for number in range(100):
        lru.drop(SessionKey("t", "s", str(number)))
    assert (lru.size, len(lru)) == (0, 0)


def test_another_user_finds_no_entry() -> None:
    """An entry of one user's session is absent for all others."""
    lru = Lru()
    key = SessionKey("t", "s", "a")
    fill(lru, key, session("a"))
    assert lru.get(key, "u") is not None
    assert lru.get(key, "other") is None


def test_a_load_that_began_before_a_change_is_not_cached() -> None:
    """A read that began before a change, of this or another process, does not restore the old state."""
    lru = Lru()
    key = SessionKey("t", "s", "a")
    old = CachedSession("u")
    old.incarnation = "i1"
    old.records[Session] = CachedValue(session("a", title="old"), VALIDATED)
    with lru.loading(key) as load:
        with lru.updating(key, "u", "i1", load) as entry:
            entry.records[Session] = CachedValue(session("a", title="new"), VALIDATED)
        lru.fill(key, load, old)
    found = lru.get(key, "u")
    assert found is not None
    assert title_in(found) == "new"
    with lru.loading(key) as load:
        lru.drop(key)
        lru.fill(key, load, old)
    assert lru.get(key, "u") is None


def test_a_stale_entry_is_kept_as_a_fallback() -> None:
    """It is validated again before it is fresh."""
    freshness = Freshness(lambda: VALIDATED, timedelta(seconds=30))
    freshness.channel_up()
    entry = CachedSession("u")
    entry.records = {Session: CachedValue(session("a"), VALIDATED), Preferences: CachedValue(None, VALIDATED)}
    entry.threads, entry.tails = CachedValue([], VALIDATED), {"elder": Tail(conversation(1, 2), VALIDATED)}
    assert freshness.is_fresh_locally(entry.records[Session].validated_at)
    entry.mark_stale()
    moments = [part.validated_at for part in entry.records.values()]
    assert [*moments, entry.threads.validated_at, entry.tails["elder"].validated_at] == [LONG_AGO] * 4
    assert not freshness.is_fresh_locally(LONG_AGO)
    assert not freshness.is_fresh_in_redis(LONG_AGO)


def test_entries_are_fresh_up_to_the_maximal_age_while_subscribed() -> None:
    """Past 30 s, validated before the channel was up, after it went down, or from the future: stale."""
    now = VALIDATED
    freshness = Freshness(lambda: now, timedelta(seconds=30))
    assert not freshness.is_fresh_locally(VALIDATED), "not subscribed yet"
    assert freshness.is_fresh_in_redis(VALIDATED), "all processes update that one"
    freshness.channel_up()
    assert freshness.is_fresh_locally(VALIDATED)
    assert not freshness.is_fresh_locally(after(-1)), "a change may have come before the subscription"
    now = after(29.9)
    assert freshness.is_fresh_locally(VALIDATED)
    now = after(30)
    assert not freshness.is_fresh_locally(VALIDATED)
    assert not freshness.is_fresh_in_redis(VALIDATED)
    assert not freshness.is_fresh_in_redis(after(31)), "the clock was set back"
    freshness.channel_down()
    assert not freshness.is_fresh_locally(now)


def test_setting_the_wall_clock_does_not_extend_freshness() -> None:
    """Set back again and again while seconds pass, or standing while the machine sleeps: 30 s by either clock."""
    now = VALIDATED
    freshness = Freshness(lambda: now, timedelta(seconds=30))
    freshness.channel_up()
    now = after(29, by_wall=2)
    assert freshness.is_fresh_locally(VALIDATED)
    now = after(31, by_wall=2)
    assert not freshness.is_fresh_locally(VALIDATED)
    assert not freshness.is_fresh_in_redis(VALIDATED)
    now = after(5, by_wall=-1)
    assert not freshness.is_fresh_locally(VALIDATED)
    now = after(5, by_wall=31)
    assert not freshness.is_fresh_locally(VALIDATED)


def test_entries_are_merged_part_by_part() -> None:
    """An older part does not replace a newer one; a missing part is added."""
    entry, other = CachedSession("u"), CachedSession("u")
    entry.records[Session] = CachedValue(session("a", title="newer"), VALIDATED)
    other.records[Session] = CachedValue(session("a", title="older"), after(-1))
    preferences = Preferences(session_id="a", tone="casual")
    other.records[Preferences] = CachedValue(Stored(preferences, 1, "u", NOW, NOW), VALIDATED)
    entry.merge(other)
    assert title_in(entry) == "newer"
    assert entry.records[Preferences] == other.records[Preferences]


def test_an_entry_that_cannot_be_packed_is_dropped() -> None:
    """A message, a record or a change that the cache cannot pack leaves no entry, and raises nothing."""
    lru, key = Lru(), SessionKey("t", "s", "a")
    huge = session("a")
    huge = replace(huge, record=replace(huge.record, metadata={"n": 2**70}))
    fill(lru, key, session("a"))
    fill(lru, key, huge)
    assert (lru.get(key, "u"), lru.size, len(lru)) == (None, 0, 0)
    fill(lru, key, session("a"))
    with lru.loading(key) as load, lru.updating(key, "u", "i1", load) as entry:
        entry.extend("elder", [replace(message_of(1, 1), tool_calls=[{"order": 2**70}])], VALIDATED)
    assert (lru.get(key, "u"), lru.size, len(lru)) == (None, 0, 0)


def test_a_refusal_does_not_invalidate_another_users_entry() -> None:
    """A refusal marks only an entry of the caller's own session stale."""
    lru, key = Lru(), SessionKey("t", "s", "a")
    fill(lru, key, session("a"))
    lru.mark_own_stale(key, "other")
    found = lru.get(key, "u")
    assert found is not None
    assert found.records[Session].validated_at == VALIDATED
    lru.mark_own_stale(key, "u")
    assert found.records[Session].validated_at == LONG_AGO


def later(stored: Stored[Session], incarnation: str, seconds: float) -> Stored[Session]:
    """A session that took the id so many seconds after another."""
    moment = NOW + timedelta(seconds=seconds)
    return replace(stored, record=replace(stored.record, incarnation=incarnation), created_at=moment)


def test_an_entry_has_no_part_of_a_former_session() -> None:
    """A read of the session that has the id now replaces all parts of the former one."""
    lru, key = Lru(), SessionKey("t", "s", "a")
    fill(lru, key, session("a"))
    with lru.loading(key) as load, lru.updating(key, "u", "i1", load) as entry:
        entry.extend("elder", conversation(1, 2), VALIDATED)
    fill(lru, key, later(session("a"), "i2", 9))
    found = lru.get(key, "u")
    assert found is not None
    assert (found.incarnation, found.tails) == ("i2", {})


def test_a_change_of_another_incarnation_drops_the_entry() -> None:
    """Which of the two has the id now is unknown."""
    lru, key = Lru(), SessionKey("t", "s", "a")
    fill(lru, key, later(session("a"), "i2", 9))
    with lru.loading(key) as load, lru.updating(key, "u", "i1", load) as entry:
        entry.extend("elder", conversation(1, 2), VALIDATED)
    assert (lru.get(key, "u"), lru.size, len(lru)) == (None, 0, 0)


def test_a_later_session_replaces_the_entry() -> None:
    """An earlier one with a late record does not."""
    for mine, theirs, left in ((0, 9, 0), (9, 0, 1)):
        lru, key = Lru(), SessionKey("t", "s", "a")
        fill(lru, key, later(session("a"), "mine", mine))
        lru.drop_predecessor(key, later(session("a"), "theirs", theirs))
        assert len(lru) == left


def test_messages_of_an_unknown_incarnation_are_not_cached() -> None:
    """Messages read without an incarnation may be of another session than the entry."""
    lru, key = Lru(), SessionKey("t", "s", "a")
    fill(lru, key, session("a"))
    unknown = CachedSession("u")
    unknown.tails["elder"] = Tail(conversation(1, 2), VALIDATED)
    with lru.loading(key) as load:
        lru.fill(key, load, unknown)
    found = lru.get(key, "u")
    assert found is not None
    assert found.tails == {}


def test_pending_drops_are_not_displaced_by_stale_marks() -> None:
    """However many stale marks are pending, drops stay; the oldest stale marks are forgotten."""
    pending, scope = PendingInvalidations(max_stale=3, max_drops=10), Scope("t", "s", "u")
    pending.add((scope, "deleted"), PendingInvalidation("drop", frozenset({"elder"})))
    for number in range(20):
        pending.add((scope, f"s{number}"), MARK_STALE)
    assert len(pending) == 4
    assert [(scope, name) in pending for name in ("deleted", "s0", "s19")] == [True, False, True]
    key, invalidation = pending.next()
    assert (key, invalidation.persona_ids) == ((scope, "deleted"), frozenset({"elder"}))
    pending.add(key, MARK_STALE)
    pending.done(key, invalidation)
    assert pending.next()[1].action == "drop", "another change came while the first was sent"


def test_the_strongest_pending_invalidation_counts() -> None:
    """A weaker invalidation does not replace a stronger one."""
    pending, key = PendingInvalidations(), (Scope("t", "s", "u"), "a")
    for invalidation, action in (
        (MARK_OWN_STALE, "mark_own_stale"),
        (MARK_STALE, "mark_stale"),
        (MARK_OWN_STALE, "mark_stale"),
        (DROP, "drop"),
        (MARK_STALE, "drop"),
    ):
        pending.add(key, invalidation)
        assert pending.next()[1].action == action
    assert len(pending) == 1


def test_an_entry_on_redis_ages_although_all_wall_clocks_are_set_back() -> None:
    """Those of the process and of the server are one machine's; the process's monotonic clock goes on."""
    wall, seconds, steady = NOW, 100.0, SteadyWall()
    now = moment_clock(lambda: wall, lambda: seconds)
    metadata = {"session": f"{to_micros(wall)} {steady.micros(now())}".encode()}
    for step in range(1, 3):
        seconds += 25.0
        wall = NOW - timedelta(seconds=step)
        validated = ValidationTimes(metadata, to_micros(wall), now(), steady.micros(now())).of("session")
        assert validated is not None
        assert Freshness(now, timedelta(seconds=30)).is_fresh_in_redis(validated) is (step == 1)


def test_steady_wall_time_follows_a_clock_that_is_set_forward() -> None:
    """As a machine's is when it wakes from sleep, in which its monotonic clock stood still."""
    steady = SteadyWall()
    assert steady.micros(Moment(NOW, 100.0)) == to_micros(NOW)
    assert steady.micros(Moment(NOW + timedelta(hours=1), 100.0)) == to_micros(NOW + timedelta(hours=1))
    assert steady.micros(Moment(NOW, 101.0)) == to_micros(NOW + timedelta(hours=1, seconds=1))
