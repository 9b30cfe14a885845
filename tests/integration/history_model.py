"""The reference model of a random history: the sessions, their lifetimes, and what each process must know.

Calls overlap, so the model has bounds: what must have happened and what may have happened. An acknowledged event took
effect between its start and its end, an interrupted one at any time after its start.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from history_events import LAG, LIFETIME, NAMES, PLAIN, USERS, Event

CACHE_MAX_AGE = 31.0
"""Maximum age in seconds of a cache entry, whatever has failed."""

CACHED_READS = frozenset({"open", "latest", "record", "preferences"})
"""Calls that a cache may answer."""

FINAL_READER = "end"
"""The process that reads after all others have ended; no cache entry is fresh for it."""


class Birth(NamedTuple):
    """When an incarnation was created: not before ``earliest``, and before ``shown`` ended."""

    user: str
    name: str
    earliest: float
    shown: Event

    @property
    def site(self) -> tuple[str, str, str]:
        """The key under which only one incarnation exists at a time."""
        return (*USERS[self.user][:2], self.name)


class HistoryModel:
    """Facts and bounds derived from a history.

    Args:
        events: by start.
        lag: seconds by which a cache may lag behind writes of other processes; 0 without a cache.
    """

    def __init__(self, events: Sequence[Event], *, lag: float = 0.0) -> None:
        self.events = events
        self.births: dict[str, Birth] = {}
        self.deletes: dict[tuple[str, str], list[Event]] = defaultdict(list)
        self.cuts: dict[tuple[str, str], list[Event]] = defaultdict(list)
        self.asked: dict[str, list[Event]] = defaultdict(list)
        self.appended: dict[str, list[Event]] = defaultdict(list)
        self._lag = lag
        self._slides: dict[str, list[Event]] = defaultdict(list)
        self._deleted_by: dict[str, Event | None] = {}
        self._at: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        self._asked_at: dict[tuple[str, str], list[Event]] = defaultdict(list)
        for event in events:
            self._record(event)
        for incarnation, birth in self.births.items():
            self._at[birth.site].append(incarnation)

    def _record(self, event: Event) -> None:
        match event.kind:
            case "open" if event.outcome == "ok":
                self._record_birth(event.incarnation, event, event.got, event.began if event.created else 0.0)
                if event.created:
                    self._slides[event.incarnation].append(event)
            case "append":
                self._slides[event.incarnation].append(event)
                for label in event.labels:
                    self.appended[label].append(event)
            case "ask":
                self.asked[event.labels[0]].append(event)
                self._asked_at[event.user, event.name].append(event)
                if event.answer is not None and event.answer[0] != event.name:
                    self._asked_at[event.user, event.answer[0]].append(event)
            case "delete" | "delete by name":
                self.deletes[event.user, event.name].append(event)
            case "clear" | "truncate" if event.outcome != "refused":
                self.cuts[event.user, event.name].append(event)
            case "record" if event.texts:
                self._record_birth(event.texts[0].incarnation, event, event.name, 0.0)

    def _record_birth(self, incarnation: str, shown: Event, name: str, earliest: float) -> None:
        known = self.births.get(incarnation)
        if known is None:
            self.births[incarnation] = Birth(shown.user, name, earliest, shown)
            return
        first = shown if shown.ended < known.shown.ended else known.shown
        self.births[incarnation] = known._replace(earliest=max(known.earliest, earliest), shown=first)

    def is_exact(self, reader: Event) -> bool:
        """Whether the call is never answered from the cache."""
        return not self._lag or reader.kind not in CACHED_READS or reader.process == FINAL_READER

    def known(self, fact: Event, reader: Event) -> bool:
        """Whether the reader must see the acknowledged event."""
        if fact.ended >= reader.began:
            return False
        if self.is_exact(reader) or reader.process == fact.process:
            return True
        waited = reader.began - fact.ended
        return waited >= self._lag or reader.clock_began - fact.clock_ended > max(self._lag, CACHE_MAX_AGE)

    def deleted_by(self, incarnation: str) -> Event | None:
        """The first event by whose end the incarnation was certainly deleted."""
        if incarnation not in self._deleted_by:
            ends = self._ends(incarnation)
            self._deleted_by[incarnation] = min(ends, key=lambda event: event.ended, default=None)
        return self._deleted_by[incarnation]

    def _ends(self, incarnation: str) -> Iterator[Event]:
        birth = self.births.get(incarnation)
        if birth is None:
            return
        for delete in self.deletes[birth.user, birth.name]:
            if delete.outcome != "ok":
                continue
            if delete.incarnation == incarnation and delete.created:
                yield delete
            if not delete.incarnation and delete.began > birth.shown.ended:
                yield delete
        for other in self._at[birth.site]:
            if self.births[other].earliest > birth.shown.ended:
                yield self.births[other].shown

    def may_be_deleted(self, incarnation: str, by: float) -> bool:
        """Whether the session may have been deleted by that time."""
        birth = self.births.get(incarnation)
        return birth is None or any(
            delete.began < by and delete.ended > birth.earliest
            for delete in self.deletes[birth.user, birth.name]
            if _may_delete(delete, incarnation)
        )

    def may_delete_between(self, user: str, name: str, began: float, ended: float) -> bool:
        """Whether a session of that name may have been deleted in that time."""
        return any(
            delete.began < ended and delete.ended > began
            for delete in self.deletes[user, name]
            if _may_delete(delete, delete.incarnation)
        )

    def may_be_cut(self, event: Event, written: float, by: float) -> bool:
        """Whether a message of that thread, written from then on, may have been cleared or truncated."""
        cuts = self.cuts[event.user, event.name] if event.npc != PLAIN else ()
        return any(cut.began < by and cut.ended > written for cut in cuts)

    def lives_until(self, incarnation: str, when: float) -> float:
        """The earliest possible expiry of the session, by the histories' clock, given the acknowledged events."""
        slides = (slide for slide in self._slides[incarnation] if slide.outcome == "ok" and slide.ended < when)
        return max((slide.clock_began for slide in slides), default=-inf) + LIFETIME - LAG

    def ended_by(self, event: Event) -> float:
        """The latest possible expiry of an append's session, by the histories' clock, without the append itself."""
        birth = self.births.get(event.incarnation)
        if birth is None or not birth.earliest or birth.name not in NAMES:
            return inf  # a question may have created it, or continued there after its own session expired
        slides = (*self._slides[event.incarnation], *self._asked_at[birth.user, birth.name])
        others = [slide for slide in slides if slide.began < event.ended and slide is not event]
        return max(slide.clock_ended for slide in others if slide.outcome != "refused") + LIFETIME

    def others_at(self, event: Event, name: str) -> Iterable[str]:
        """The incarnations under that name, in the site of the event."""
        return self._at[(*USERS[event.user][:2], name)]


def _may_delete(delete: Event, incarnation: str) -> bool:
    if delete.incarnation not in ("", incarnation) or delete.outcome == "refused":
        return False
    return delete.outcome == "unknown" or delete.created
