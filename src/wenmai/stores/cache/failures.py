"""Failures in the cache's own code: an entry that cannot be built, packed, measured or unpacked is dropped."""

import logging

_log = logging.getLogger(__name__)


class EntryFailures:
    """Logs such failures: the first of each kind as a warning with its traceback, the others for debugging only."""

    def __init__(self) -> None:
        self._known: set[tuple[str, type[Exception]]] = set()

    def note(self, action: str, problem: Exception) -> None:
        """Log that the entry could not be ``action`` (a past participle)."""
        kind = action, type(problem)
        if kind in self._known:
            _log.debug("a cache entry was dropped: it could not be %s: %s", action, problem)
            return
        self._known.add(kind)
        message = "a cache entry was dropped: it could not be %s (others of this kind are not logged)"
        _log.warning(message, action, exc_info=problem)
