"""The reference model of a random history: which sessions there were, from when to when, and who knew of it.

Calls overlap, so the model does not say what was, but what must have been and what may have been. An event that was
acknowledged took effect between its beginning and its end; one that was cut off at any time from its beginning on.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from history_events import LAG, LIFETIME, NAMES, PLAIN, USERS, Event

TRUST_SECONDS = 31.0
"""What a process knows of another's changes is at most so old, whatever has failed."""

FROM_COPIES = frozenset({"open", "latest", "record", "preferences"})
"""The calls that a cache may answer."""

AT_THE_END = "end"
"""The process that reads when all others have ended; it finds no copy that it trusts."""


class Birth(NamedTuple):
    """When an incarnation began: not before ``earliest``, and it was there when ``shown`` ended."""

    user: str
    name: str
    earliest: float
    shown: Event

    @property
    def site(self) -> tuple[str, str, str]:
        """What has room for one incarnation at a time."""
        return (*USERS[self.user][:2], self.name)


class Past:
    """What is known of a history.

    Args:
        events: in the order in which they began.
        lag: seconds by which a cache may lag behind what another process has done; 0 where there is no cache.
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
        self._gone: dict[str, Event | None] = {}
        self._at: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        self._asked_at: dict[tuple[str, str], list[Event]] = defaultdict(list)
        for event in events:
            self._note(event)
        for incarnation, birth in self.births.items():
            self._at[birth.site].append(incarnation)

    def _note(self, event: Event) -> None:
        match event.kind:
            case "open" if event.outcome == "ok":
                self._born(event.incarnation, event, event.got, event.began if event.created else 0.0)
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
                self._born(event.texts[0].incarnation, event, event.name, 0.0)

    def _born(self, incarnation: str, shown: Event, name: str, earliest: float) -> None:
        known = self.births.get(incarnation)
        if known is None:
            self.births[incarnation] = Birth(shown.user, name, earliest, shown)
            return
        first = shown if shown.ended < known.shown.ended else known.shown
        self.births[incarnation] = known._replace(earliest=max(known.earliest, earliest), shown=first)

    def is_exact(self, reader: Event) -> bool:
        """Whether no copy answers the call."""
        return not self._lag or reader.kind not in FROM_COPIES or reader.process == AT_THE_END

    def known(self, fact: Event, reader: Event) -> bool:
        """Whether who reads must know what was acknowledged."""
        if fact.ended >= reader.began:
            return False
        if self.is_exact(reader) or reader.process == fact.process:
            return True
        waited = reader.began - fact.ended
        return waited >= self._lag or reader.clock_began - fact.clock_ended > max(self._lag, TRUST_SECONDS)

    def gone(self, incarnation: str) -> Event | None:
        """The first event at whose end the incarnation was gone for certain."""
        if incarnation not in self._gone:
            ends = self._ends(incarnation)
            self._gone[incarnation] = min(ends, key=lambda event: event.ended, default=None)
        return self._gone[incarnation]

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

    def may_be_gone(self, incarnation: str, by: float) -> bool:
        """Whether the session may have been deleted by that time."""
        birth = self.births.get(incarnation)
        return birth is None or any(
            delete.began < by and delete.ended > birth.earliest
            for delete in self.deletes[birth.user, birth.name]
            if _may_delete(delete, incarnation)
        )

    def may_delete_between(self, user: str, name: str, began: float, ended: float) -> bool:
        """Whether something of that name may have been deleted in that time."""
        return any(
            delete.began < ended and delete.ended > began
            for delete in self.deletes[user, name]
            if _may_delete(delete, delete.incarnation)
        )

    def may_be_cut(self, event: Event, written: float, by: float) -> bool:
        """Whether a message of that thread, whose writing began then, may have been cleared or truncated away."""
        cuts = self.cuts[event.user, event.name] if event.npc != PLAIN else ()
        return any(cut.began < by and cut.ended > written for cut in cuts)

    def lives_until(self, incarnation: str, when: float) -> float:
        """Until when the session lives at least, by the histories' clock, after what was acknowledged before."""
        slides = (slide for slide in self._slides[incarnation] if slide.outcome == "ok" and slide.ended < when)
        return max((slide.clock_began for slide in slides), default=-inf) + LIFETIME - LAG

    def ended_by(self, event: Event) -> float:
        """When the session of an append ended at the latest, by the histories' clock; its own move does not count."""
        birth = self.births.get(event.incarnation)
        if birth is None or not birth.earliest or birth.name not in NAMES:
            return inf  # a question may have begun it, or gone on there when its own session had ended
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
